package dev.terrace.objects.tools;

import dev.terrace.objects.placement.Prediction;
import dev.terrace.objects.placement.ProfileDatabase;
import dev.terrace.objects.placement.ProfileFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// Predicts a profile.
@Command(
        name = "predict",
        description =
                "Predicts the profile of a data set that was never profiled, from those of a"
                        + " database that are nearest to it, and says how near they are.")
final class ProfilePredictCommand extends FileCommand {
    @Mixin private DataSetArguments dataSet = new DataSetArguments();

    @Option(
            names = "--neighbours",
            paramLabel = "N",
            description = "From how many; 3 without this option.")
    private int neighbours = 3;

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FILE",
            description = "Where the profile goes, for `place`.")
    private @Nullable Path output;

    @Override
    public Integer call() throws IOException {
        Map<String, Object> properties = dataSet.properties();
        if (neighbours < 1) {
            throw wrong("--neighbours: " + neighbours + " is not positive");
        }
        ProfileDatabase database = ProfileDatabase.open(dataSet.database());
        if (database.entries().isEmpty()) {
            throw new IOException(
                    dataSet.database() + " has no profiles yet: `profile add` adds one");
        }
        Prediction prediction = database.predict(properties, neighbours);
        if (output != null) {
            ProfileFile.write(output, prediction.profile());
        }
        if (json) {
            out().println(Json.of(asMap(prediction)));
        } else {
            out().println(prediction.statement());
            ProfileShowCommand.print(prediction.profile(), out());
        }
        return Main.OK;
    }

    private static Map<String, Object> asMap(Prediction prediction) {
        List<Object> from = new ArrayList<>();
        prediction
                .neighbours()
                .forEach(neighbour -> {
                    Map<String, Object> map = new LinkedHashMap<>();
                    map.put("name", neighbour.name());
                    map.put("distance", neighbour.distance());
                    map.put("weight", neighbour.weight());
                    from.add(map);
                });
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("neighbours", from);
        map.put("usual_distance", prediction.usualDistance());
        map.put("is_far", prediction.isFar());
        map.put("profile", ProfileShowCommand.asMap(prediction.profile()));
        return map;
    }
}
