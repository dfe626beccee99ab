package dev.terrace.objects.processor;

import static com.google.testing.compile.Compiler.javac;

import com.google.testing.compile.Compilation;
import com.google.testing.compile.JavaFileObjects;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaFileObject;

/// Compiles sources with the processor, as strictly as this project itself is compiled.
final class Sources {
    private static final Pattern TYPE =
            Pattern.compile("(?:class|record|interface|enum|@interface) (\\w+)");
    private static final String IMPORTS =
            "import static dev.terrace.objects.StorageTier.*;"
                    + " import dev.terrace.objects.*; import java.util.*; ";

    private Sources() {}

    /// Compiles classes of the package `com.acme`; in a package of its own if the source begins
    /// with one. The imports are there, on the first line.
    static Compilation compile(String... sources) {
        return javac().withProcessors(new DurableProcessor())
                .withOptions("-Xlint:all,-processing", "-Werror")
                .compile(Arrays.stream(sources).map(Sources::file).toList());
    }

    /// The file that a source is compiled as.
    static JavaFileObject file(String source) {
        String packageName =
                source.startsWith("package ")
                        ? source.substring(8, source.indexOf(';'))
                        : "com.acme";
        String body =
                source.startsWith("package ") ? source.substring(source.indexOf(';') + 1) : source;
        Matcher type = TYPE.matcher(source);
        if (!type.find()) {
            throw new IllegalArgumentException("no type in " + source);
        }
        return JavaFileObjects.forSourceString(
                packageName + "." + type.group(1),
                "package " + packageName + "; " + IMPORTS + body);
    }
}
