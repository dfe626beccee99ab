package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.SchemaMismatchException;
import dev.terrace.objects.arrow.ArrowExport;
import dev.terrace.objects.arrow.ArrowFormat;
import dev.terrace.objects.arrow.SaveOption;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.arrow.vector.types.TimeUnit;

/// An export to Arrow, as a command line describes it.
final class Exporting {
    private Exporting() {}

    /// Does it, and returns how many objects there were.
    static long run(Pool pool, ExportCommand command) throws IOException {
        ArrowExport export;
        try {
            export = described(pool, command);
            export.schema();
        } catch (SchemaMismatchException | IllegalArgumentException e) {
            throw command.wrong(String.valueOf(e.getMessage()));
        }
        List<SaveOption> options = new ArrayList<>();
        if (command.force) {
            options.add(SaveOption.REPLACE);
        }
        if (command.oneCommit) {
            options.add(SaveOption.ONE_COMMIT);
        }
        ArrowFormat format =
                command.format == ExportCommand.Format.ARROW
                        ? ArrowFormat.FILE
                        : ArrowFormat.STREAM;
        try {
            return export.save(command.output, format, options.toArray(SaveOption[]::new));
        } catch (FileAlreadyExistsException e) {
            if (command.force) {
                throw e;
            }
            throw new IOException(command.output + " is there already: --force replaces a file", e);
        } catch (IllegalArgumentException | IllegalStateException e) {
            // A value that Arrow cannot hold, or a Java that was started without what Arrow needs.
            throw new IOException(String.valueOf(e.getMessage()), e);
        }
    }

    private static ArrowExport described(Pool pool, ExportCommand command) {
        ArrowExport export =
                ArrowExport.of(pool, command.className)
                        .batches(command.rows)
                        .times(unit(command.unit));
        if (!command.columns.isEmpty()) {
            export = export.columns(command.columns.toArray(String[]::new));
        }
        for (Map.Entry<String, ExportCommand.Digits> each : command.decimals.entrySet()) {
            export =
                    export.decimals(
                            each.getKey(), each.getValue().precision(), each.getValue().scale());
        }
        return export;
    }

    private static TimeUnit unit(ExportCommand.Unit unit) {
        return switch (unit) {
            case S -> TimeUnit.SECOND;
            case MS -> TimeUnit.MILLISECOND;
            case US -> TimeUnit.MICROSECOND;
            case NS -> TimeUnit.NANOSECOND;
        };
    }
}
