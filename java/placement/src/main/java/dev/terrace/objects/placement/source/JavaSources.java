package dev.terrace.objects.placement.source;

import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.ParameterizedTypeTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.Trees;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.jspecify.annotations.Nullable;

/// Files of Java that belong together, and where their classes and fields are. They are only
/// parsed, not compiled: what they need beside each other need not be there.
final class JavaSources {
    private final Map<String, Type> types = new TreeMap<>();

    /// A class, in its file.
    ///
    /// @param name fully qualified
    record Type(String name, JavaSource source, ClassTree tree) {}

    /// A field, in its class.
    record Field(Type type, VariableTree tree) {
        String name() {
            return type.name + "." + tree.getName();
        }
    }

    /// A text that the compiler takes for a file.
    private static final class Text extends SimpleJavaFileObject {
        private final Path file;
        private final String text;

        Text(Path file, String text, int number) {
            super(URI.create("text:///" + number + ".java"), Kind.SOURCE);
            this.file = file;
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }
    }

    /// Parses texts by their files.
    ///
    /// @throws TaggingException if one is no Java, or a class is there twice
    JavaSources(Map<Path, String> texts) {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        if (compiler == null) {
            throw new TaggingException(List.of("this Java has no compiler: run it with a JDK"));
        }
        // The compiler hands out other objects for these, with the same names.
        Map<URI, Text> files = new LinkedHashMap<>();
        texts.forEach((file, text) -> {
            Text each = new Text(file, text, files.size());
            files.put(each.toUri(), each);
        });
        DiagnosticCollector<JavaFileObject> diagnostics = new DiagnosticCollector<>();
        JavacTask task =
                (JavacTask)
                        compiler.getTask(
                                null,
                                null,
                                diagnostics,
                                List.of("-proc:none"),
                                null,
                                files.values());
        SourcePositions positions = Trees.instance(task).getSourcePositions();
        List<String> problems = new ArrayList<>();
        for (CompilationUnitTree unit : parse(task)) {
            Text file = Objects.requireNonNull(files.get(unit.getSourceFile().toUri()));
            add(new JavaSource(file.file, file.text, unit, positions, types(unit)), problems);
        }
        for (Diagnostic<? extends JavaFileObject> each : diagnostics.getDiagnostics()) {
            Text file = each.getSource() == null ? null : files.get(each.getSource().toUri());
            if (each.getKind() == Diagnostic.Kind.ERROR) {
                problems.add(
                        (file == null ? "" : file.file + ":" + each.getLineNumber() + ": ")
                                + each.getMessage(Locale.ROOT));
            }
        }
        if (!problems.isEmpty()) {
            throw new TaggingException(problems);
        }
    }

    private static Iterable<? extends CompilationUnitTree> parse(JavacTask task) {
        try {
            return task.parse();
        } catch (IOException e) {
            throw new AssertionError("texts are in memory", e);
        }
    }

    private void add(JavaSource source, List<String> problems) {
        source.types()
                .forEach((name, tree) -> {
                    Type other = types.putIfAbsent(name, new Type(name, source, tree));
                    if (other != null) {
                        problems.add(
                                "class "
                                        + name
                                        + " is in "
                                        + other.source.file()
                                        + " and in "
                                        + source.file()
                                        + ": name one of them");
                    }
                });
    }

    private static Map<String, ClassTree> types(CompilationUnitTree unit) {
        Map<String, ClassTree> types = new LinkedHashMap<>();
        String prefix = unit.getPackageName() == null ? "" : unit.getPackageName() + ".";
        unit.getTypeDecls().forEach(each -> collect(prefix, each, types));
        return types;
    }

    private static void collect(String prefix, Tree tree, Map<String, ClassTree> into) {
        if (tree instanceof ClassTree type) {
            String name = prefix + type.getSimpleName();
            into.put(name, type);
            type.getMembers().forEach(each -> collect(name + ".", each, into));
        }
    }

    /// The class of this name; null if there is none.
    @Nullable Type type(String name) {
        return types.get(name.replace('$', '.'));
    }

    /// The names of all classes that are tagged.
    List<String> durable() {
        return types.values().stream().filter(JavaSources::isDurable).map(Type::name).toList();
    }

    static boolean isDurable(Type type) {
        return JavaSource.annotation(type.tree.getModifiers(), "Durable") != null;
    }

    boolean has(String name) {
        return types.containsKey(name);
    }

    /// The field of this name in a class or a superclass of it; null if there is none.
    @Nullable Field field(Type type, String name) {
        for (Type each = type; each != null; each = superclass(each)) {
            Type in = each;
            for (Tree member : each.tree.getMembers()) {
                if (member instanceof VariableTree variable
                        && variable.getName().contentEquals(name)) {
                    return new Field(in, variable);
                }
            }
        }
        return null;
    }

    private @Nullable Type superclass(Type type) {
        Tree superclass = type.tree.getExtendsClause();
        return superclass == null ? null : named(superclass, type);
    }

    /// The class that a type in another class names; null if it is not in these sources.
    @Nullable Type named(Tree tree, Type within) {
        String name =
                (tree instanceof ParameterizedTypeTree generic ? generic.getType() : tree)
                        .toString();
        String first = name.contains(".") ? name.substring(0, name.indexOf('.')) : name;
        List<String> candidates = new ArrayList<>();
        String packageName = within.source.packageName();
        for (String outer = within.name;
                outer.length() > packageName.length();
                outer = outer.contains(".") ? outer.substring(0, outer.lastIndexOf('.')) : "") {
            candidates.add(outer + "." + name);
        }
        within.source
                .imports(false)
                .filter(each -> JavaSource.simple(each).equals(first))
                .forEach(each -> candidates.add(each + name.substring(first.length())));
        candidates.add(packageName.isEmpty() ? name : packageName + "." + name);
        within.source
                .imports(false)
                .filter(each -> each.endsWith(".*"))
                .forEach(each -> candidates.add(each.substring(0, each.length() - 1) + name));
        candidates.add(name);
        return candidates.stream()
                .filter(types::containsKey)
                .findFirst()
                .map(types::get)
                .orElse(null);
    }
}
