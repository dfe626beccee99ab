package dev.terrace.objects.tools;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.ProfileFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/// Shows a profile.
@Command(
        name = "show",
        description =
                "Shows what a program did with each field: how often it was read and written, and"
                        + " how large it is.")
final class ProfileShowCommand extends FileCommand {
    @Parameters(paramLabel = "PROFILE", description = "The file with the profile.")
    private Path file = Path.of("");

    @Override
    public Integer call() throws IOException {
        Profile profile = ProfileFile.read(file);
        if (json) {
            out().println(Json.of(asMap(profile)));
        } else {
            print(profile, out());
        }
        return Main.OK;
    }

    /// A profile, to be written as JSON.
    static Map<String, Object> asMap(Profile profile) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("seconds", profile.nanos() / 1e9);
        List<Object> classes = new ArrayList<>();
        profile.classes()
                .forEach(type -> {
                    Map<String, Object> its = new LinkedHashMap<>();
                    its.put("name", type.name());
                    its.put("objects", type.objects());
                    its.put(
                            "fields",
                            type.fields().stream().map(ProfileShowCommand::asMap).toList());
                    classes.add(its);
                });
        map.put("classes", classes);
        return map;
    }

    private static Map<String, Object> asMap(FieldProfile field) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("name", field.field().name());
        map.put("kind", field.field().kind());
        map.put("tiers", field.field().tiers());
        map.put("reads", field.reads());
        map.put("writes", field.writes());
        map.put("element_reads", field.elementReads());
        map.put("element_writes", field.elementWrites());
        map.put("bytes_read", field.bytesRead());
        map.put("bytes_written", field.bytesWritten());
        map.put("bytes_stored", field.bytesStored());
        map.put("recomputations", field.recomputations());
        map.put("recompute_ns", field.recomputeNanos());
        return map;
    }

    /// A profile, to be read.
    static void print(Profile profile, PrintWriter out) {
        out.printf(Locale.ROOT, "watched for %.1f s%n", profile.nanos() / 1e9);
        for (ClassProfile type : profile.classes()) {
            out.println();
            out.println(type.name() + ": " + Text.count(type.objects(), "object"));
            Text.Table table =
                    new Text.Table(
                            "field",
                            "tiers",
                            "reads",
                            "writes",
                            "element reads",
                            "element writes",
                            "read",
                            "written",
                            "size",
                            "recomputed");
            for (FieldProfile field : type.fields()) {
                table.row(
                        field.field().name(),
                        tiers(field.field().tiers()),
                        Long.toString(field.reads()),
                        Long.toString(field.writes()),
                        Long.toString(field.elementReads()),
                        Long.toString(field.elementWrites()),
                        Text.bytes(field.bytesRead()),
                        Text.bytes(field.bytesWritten()),
                        String.format(Locale.ROOT, "%.1f B", field.bytesStored()),
                        field.recomputations() == 0
                                ? ""
                                : Text.nanos(
                                                (double) field.recomputeNanos()
                                                        / field.recomputations())
                                        + " x "
                                        + field.recomputations());
            }
            table.print(out);
        }
    }

    /// The names of tiers, the best first.
    static String tiers(List<StorageTier> tiers) {
        return tiers.stream().map(StorageTier::name).collect(Collectors.joining(","));
    }
}
