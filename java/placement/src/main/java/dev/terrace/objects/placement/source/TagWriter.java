package dev.terrace.objects.placement.source;

import com.sun.source.tree.AnnotatedTypeTree;
import com.sun.source.tree.AnnotationTree;
import com.sun.source.tree.ArrayTypeTree;
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.ExpressionTree;
import com.sun.source.tree.ImportTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import dev.terrace.objects.StorageTier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/// Writes the tags of one file the way that the file writes them, with as few edits as that takes.
final class TagWriter {
    private static final String PACKAGE = "dev.terrace.objects";
    private static final String STORAGE_TIER = "StorageTier";

    private final JavaSource source;
    private final JavaSources sources;
    private final List<Edit> edits = new ArrayList<>();
    private final Set<String> imports = new TreeSet<>();
    private final Set<String> staticImports = new TreeSet<>();

    TagWriter(JavaSource source, JavaSources sources) {
        this.source = source;
        this.sources = sources;
    }

    /// All edits so far, with those of the imports that they need.
    List<Edit> edits() {
        List<Edit> all = new ArrayList<>(edits);
        all.addAll(imports(imports, false));
        all.addAll(imports(staticImports, true));
        return all;
    }

    /// Sets the tags of fields that are declared together, `int a, b;`; of one that is declared
    /// alone, its own.
    ///
    /// @param wanted by field, in their order; empty for one that is to have no tag
    void tag(ClassTree type, Map<VariableTree, List<StorageTier>> wanted) {
        List<VariableTree> fields = List.copyOf(wanted.keySet());
        VariableTree first = fields.getFirst();
        tagFirst(type, first, wanted.get(first));
        if (wanted.values().stream().distinct().count() == 1) {
            return;
        }
        String indent = source.indentOf(source.start(first));
        for (int i = 1; i < fields.size(); i++) {
            // Each but the last ends behind its comma.
            int comma = source.end(fields.get(i - 1)) - 1;
            int next = comma + 1;
            while (Character.isWhitespace(source.text().charAt(next))) {
                next++;
            }
            String line = indent == null ? " " : source.lineEnd() + indent;
            edits.add(
                    new Edit(
                            comma,
                            next,
                            ";" + line + prefix(first, wanted.get(fields.get(i))) + " "));
        }
    }

    private void tagFirst(ClassTree type, VariableTree field, List<StorageTier> tiers) {
        AnnotationTree annotation = Tags.annotation(field);
        if (tiers.equals(Tags.declared(field))) {
            return;
        }
        if (annotation == null) {
            int at = source.start(field);
            String indent = source.indentOf(at);
            boolean isAlone =
                    indent != null && type.getKind() != Tree.Kind.RECORD && hasLinesOfTags();
            edits.add(
                    new Edit(
                            at,
                            at,
                            "@"
                                    + tierName()
                                    + "("
                                    + value(tiers)
                                    + ")"
                                    + (isAlone ? source.lineEnd() + indent : " ")));
        } else {
            edits.add(inAnnotation(annotation, tiers, 0));
        }
    }

    /// Replaces what an annotation says; all else in it stays.
    private Edit inAnnotation(AnnotationTree annotation, List<StorageTier> tiers, int origin) {
        ExpressionTree value = Tags.value(annotation).orElseThrow();
        return new Edit(source.start(value) - origin, source.end(value) - origin, value(tiers));
    }

    /// Modifiers, tag and type of a declaration, for a field that was declared together with
    /// others.
    private String prefix(VariableTree first, List<StorageTier> tiers) {
        int from = source.start(first);
        String text = source.text().substring(from, endOfType(first));
        AnnotationTree annotation = Tags.annotation(first);
        if (annotation == null) {
            return tiers.isEmpty() ? text : "@" + tierName() + "(" + value(tiers) + ") " + text;
        }
        if (!tiers.isEmpty()) {
            return Edit.apply(text, List.of(inAnnotation(annotation, tiers, from)));
        }
        throw new IllegalStateException("fields declared together have the same tag");
    }

    /// Where the type ends that all fields of a declaration have: `int` in `int a[], b`, `int[]` in
    /// `int[] a, b`.
    private int endOfType(VariableTree field) {
        Tree type = field.getType();
        while (type instanceof ArrayTypeTree || type instanceof AnnotatedTypeTree) {
            type =
                    type instanceof ArrayTypeTree array
                            ? array.getType()
                            : ((AnnotatedTypeTree) type).getUnderlyingType();
        }
        int end = source.end(type);
        int at = end;
        while (Character.isWhitespace(source.text().charAt(at))
                || source.text().charAt(at) == '['
                || source.text().charAt(at) == ']') {
            end = source.text().charAt(at) == ']' ? at + 1 : end;
            at++;
        }
        return end;
    }

    /// Whether annotations of this file's fields have lines of their own more often than not.
    private boolean hasLinesOfTags() {
        int alone = 0;
        for (ClassTree type : source.types().values()) {
            for (Tree member : type.getMembers()) {
                if (member instanceof VariableTree field && type.getKind() != Tree.Kind.RECORD) {
                    for (AnnotationTree annotation : field.getModifiers().getAnnotations()) {
                        String behind =
                                source.text()
                                        .substring(source.end(annotation))
                                        .lines()
                                        .findFirst()
                                        .orElse("");
                        alone += behind.isBlank() || behind.strip().startsWith("//") ? 1 : -1;
                    }
                }
            }
        }
        return alone >= 0;
    }

    private String tierName() {
        return isQualified(Tags.TIER) ? PACKAGE + "." + Tags.TIER : imported(Tags.TIER);
    }

    private String value(List<StorageTier> tiers) {
        return tiers.size() == 1
                ? constant(tiers.getFirst())
                : tiers.stream().map(this::constant).collect(Collectors.joining(", ", "{", "}"));
    }

    private String constant(StorageTier tier) {
        String prefix = PACKAGE + "." + STORAGE_TIER + ".";
        List<String> statics =
                source.imports(true).filter(each -> each.startsWith(prefix)).toList();
        if (!statics.isEmpty()) {
            if (!statics.contains(prefix + "*") && !statics.contains(prefix + tier)) {
                staticImports.add(prefix + tier);
            }
            return tier.name();
        }
        return (isQualified(STORAGE_TIER) ? PACKAGE + "." + STORAGE_TIER : imported(STORAGE_TIER))
                + "."
                + tier;
    }

    /// Imports a class unless it is seen anyway, and returns its simple name.
    private String imported(String name) {
        if (!isSeen(name)) {
            imports.add(PACKAGE + "." + name);
        }
        return name;
    }

    private boolean isSeen(String name) {
        return source.packageName().equals(PACKAGE)
                || source.imports(false)
                        .anyMatch(each ->
                                each.equals(PACKAGE + "." + name) || each.equals(PACKAGE + ".*"));
    }

    /// Whether a class is to be called by its whole name: the file does so already, or another one
    /// has its simple name.
    private boolean isQualified(String name) {
        Stream<String> others =
                source.imports(false).filter(each -> !each.equals(PACKAGE + "." + name));
        boolean isTaken =
                others.anyMatch(each -> JavaSource.simple(each).equals(name))
                        || source.types().keySet().stream()
                                .anyMatch(each -> JavaSource.simple(each).equals(name))
                        || !source.packageName().equals(PACKAGE)
                                && sources.has(source.packageName() + "." + name);
        return isTaken || !isSeen(name) && source.text().contains("@" + PACKAGE + "." + Tags.TIER);
    }

    /// Lines for what is imported now: each among the imports of its kind, where it belongs by its
    /// name; if there are none, all below the others.
    private List<Edit> imports(Set<String> names, boolean isStatic) {
        if (names.isEmpty() || source.imports(isStatic).findAny().isPresent()) {
            return names.stream().map(each -> importAmongOthers(each, isStatic)).toList();
        }
        String end = source.lineEnd();
        String lines =
                names.stream().map(each -> line(each, isStatic)).collect(Collectors.joining(end));
        Tree above = source.lastImport() == null ? source.unit().getPackage() : source.lastImport();
        if (above == null) {
            return List.of(new Edit(0, 0, lines + end + end));
        }
        int at = source.end(above);
        boolean hasBlankBelow = source.text().startsWith(end + end, at);
        return List.of(new Edit(at, at, end + end + lines + (hasBlankBelow ? "" : end)));
    }

    private static String line(String name, boolean isStatic) {
        return "import " + (isStatic ? "static " : "") + name + ";";
    }

    private Edit importAmongOthers(String name, boolean isStatic) {
        int behind = 0;
        for (ImportTree each : source.unit().getImports()) {
            if (each.isStatic() == isStatic) {
                if (each.getQualifiedIdentifier().toString().compareTo(name) > 0) {
                    return new Edit(
                            source.start(each),
                            source.start(each),
                            line(name, isStatic) + source.lineEnd());
                }
                behind = source.end(each);
            }
        }
        return new Edit(behind, behind, source.lineEnd() + line(name, isStatic));
    }
}
