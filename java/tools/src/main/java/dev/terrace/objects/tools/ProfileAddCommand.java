package dev.terrace.objects.tools;

import dev.terrace.objects.placement.ProfileDatabase;
import dev.terrace.objects.placement.ProfileFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Parameters;

/// Adds a profile to a database.
@Command(
        name = "add",
        description =
                "Adds a profile to a database, with what is known of its data set, in the place of"
                        + " one of the same name if there is one.")
final class ProfileAddCommand extends FileCommand {
    @Parameters(index = "0", paramLabel = "PROFILE", description = "The file with the profile.")
    private Path file = Path.of("");

    @Parameters(index = "1", paramLabel = "NAME", description = "What the data set is called.")
    private String name = "";

    @Mixin private DataSetArguments dataSet = new DataSetArguments();

    @Override
    public Integer call() throws IOException {
        Map<String, Object> properties = dataSet.properties();
        ProfileDatabase.Entry entry;
        try {
            entry = new ProfileDatabase.Entry(name, properties, ProfileFile.read(file));
        } catch (IllegalArgumentException e) {
            throw wrong(String.valueOf(e.getMessage()));
        }
        ProfileDatabase database = ProfileDatabase.open(dataSet.database());
        database.add(entry);
        if (json) {
            out().println(Json.of(Map.of("profiles", database.entries().size())));
        } else {
            out().println(
                            dataSet.database()
                                    + " has "
                                    + Text.count(database.entries().size(), "profile"));
        }
        return Main.OK;
    }
}
