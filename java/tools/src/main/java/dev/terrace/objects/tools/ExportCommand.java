package dev.terrace.objects.tools;

import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.TypeConversionException;

/// Exports objects for other programs. Only [Exporting] knows of Arrow: its module may be missing.
@Command(
        name = "export",
        description =
                "Exports all objects of a class for programs that read Apache Arrow, without the"
                    + " program's classes. Only reads, as dump does; all rows of a batch are of one"
                    + " commit, also while a program writes.")
final class ExportCommand extends PoolCommand {
    /// The form of the file.
    enum Format {
        ARROW,
        ARROW_STREAM;

        @Override
        public String toString() {
            return this == ARROW ? "arrow" : "arrow-stream";
        }
    }

    /// The unit of times.
    enum Unit {
        S,
        MS,
        US,
        NS
    }

    /// Digits of a decimal, and those of them behind the point.
    record Digits(int precision, int scale) {}

    /// Converts the digits of `--decimal`.
    static final class DigitsConverter implements ITypeConverter<Digits> {
        @Override
        public Digits convert(String value) {
            if (!value.matches("[0-9]{1,2},[0-9]{1,2}")) {
                throw new TypeConversionException("'" + value + "' is not DIGITS,SCALE");
            }
            String[] both = value.split(",");
            return new Digits(Integer.parseInt(both[0]), Integer.parseInt(both[1]));
        }
    }

    /// Converts the value of `--format`.
    static final class FormatConverter implements ITypeConverter<Format> {
        @Override
        public Format convert(String value) {
            for (Format format : Format.values()) {
                if (format.toString().equalsIgnoreCase(value)) {
                    return format;
                }
            }
            throw new TypeConversionException("'" + value + "' is not arrow or arrow-stream");
        }
    }

    @Option(
            names = "--class",
            paramLabel = "NAME",
            required = true,
            description = "The class of the objects, fully qualified.")
    String className = "";

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FILE",
            required = true,
            description = "Where they go. The file gets this name when it is whole.")
    Path output = Path.of("");

    @Option(
            names = "--format",
            paramLabel = "FORMAT",
            converter = FormatConverter.class,
            description =
                    "arrow: a file whose batches are read in any order, as without this option;"
                            + " arrow-stream: batches one after the other.")
    Format format = Format.ARROW;

    @Option(names = "--force", description = "Replaces a file of this name.")
    boolean force;

    @Option(
            names = "--one-commit",
            description =
                    "All rows are of one commit. Needs a moment without commits that is as long as"
                            + " the export takes.")
    boolean oneCommit;

    @Option(
            names = "--columns",
            paramLabel = "FIELD",
            split = ",",
            description =
                    "Only these fields, and @id, which names the object; all without this option.")
    List<String> columns = List.of();

    @Option(
            names = "--rows",
            paramLabel = "N",
            description = "At most so many rows in a batch; 16384 without this option.")
    int rows = 16_384;

    @Option(
            names = "--times",
            paramLabel = "UNIT",
            description =
                    "The unit of points in time and durations: s, ms, us or ns, as without this"
                            + " option. Nanoseconds reach from 1677 to 2262.")
    Unit unit = Unit.NS;

    @Option(
            names = "--decimal",
            paramLabel = "FIELD=DIGITS,SCALE",
            converter = {Capacities.NameConverter.class, DigitsConverter.class},
            description =
                    "A field of BigDecimals or BigIntegers becomes decimals of so many digits, and"
                            + " so many of them behind the point; without this option, texts.")
    Map<String, Digits> decimals = new LinkedHashMap<>();

    @Override
    public Integer call() throws IOException {
        try (PoolArguments.Opened opened = arguments.openToRead()) {
            long count =
                    Progress.during(
                            spec, BackupCommand.quietly(() -> Exporting.run(opened.pool(), this)));
            if (arguments.isJson()) {
                Map<String, Object> map = new LinkedHashMap<>();
                map.put("class", className);
                map.put("objects", count);
                map.put("file", output.toString());
                out().println(Json.of(map));
            } else {
                out().println(
                                "exported: "
                                        + Text.count(count, "object")
                                        + " of "
                                        + className
                                        + " to "
                                        + output);
            }
            return Main.OK;
        } catch (LinkageError e) {
            throw new IOException(
                    "exports need terrace-objects-arrow and what it depends on, on the class path: "
                            + e,
                    e);
        }
    }

    /// The exception for what the pool's class does not allow.
    ParameterException wrong(String what) {
        return new ParameterException(spec.commandLine(), what);
    }
}
