package dev.terrace.objects.tools;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// A database of profiles, and what is known of a data set.
final class DataSetArguments {
    @Option(
            names = "--database",
            required = true,
            paramLabel = "DIR",
            description = "The directory of profiles of data sets.")
    private Path database = Path.of("");

    @Option(
            names = "--property",
            paramLabel = "NAME=VALUE",
            description =
                    "What is known of the data set, a number or a text: rows=1e6, kind=graph. More"
                            + " than once for more.")
    private Map<String, String> properties = new LinkedHashMap<>();

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command = CommandSpec.create();

    Path database() {
        return database;
    }

    /// Numbers as such, all else as text.
    Map<String, Object> properties() {
        if (properties.isEmpty()) {
            throw new ParameterException(
                    command.commandLine(),
                    "--property: at least one is needed, to tell data sets apart");
        }
        Map<String, Object> typed = new LinkedHashMap<>();
        properties.forEach((name, value) -> typed.put(name, typed(name, value)));
        return typed;
    }

    private Object typed(String name, String value) {
        double number;
        try {
            number = Double.parseDouble(value);
        } catch (NumberFormatException text) {
            return value;
        }
        if (!Double.isFinite(number)) {
            throw new ParameterException(
                    command.commandLine(),
                    "--property: "
                            + name
                            + "="
                            + value
                            + " cannot be compared: a number, or a text, is wanted");
        }
        return number;
    }
}
