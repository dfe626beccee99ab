package dev.terrace.objects.placement.source;

import com.sun.source.tree.AnnotationTree;
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.ImportTree;
import com.sun.source.tree.ModifiersTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import com.sun.source.util.SourcePositions;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// A file of Java, parsed.
///
/// @param file where it is
/// @param text what is in it
/// @param unit as the compiler sees it
/// @param positions of its parts in the text
/// @param types its classes, with those within classes, by their fully qualified names
record JavaSource(
        Path file,
        String text,
        CompilationUnitTree unit,
        SourcePositions positions,
        Map<String, ClassTree> types) {
    int start(Tree tree) {
        return (int) positions.getStartPosition(unit, tree);
    }

    int end(Tree tree) {
        return (int) positions.getEndPosition(unit, tree);
    }

    String packageName() {
        return unit.getPackageName() == null ? "" : unit.getPackageName().toString();
    }

    /// The imports of this kind; `.*` stands for all names of a package or class.
    Stream<String> imports(boolean isStatic) {
        return unit.getImports().stream()
                .filter(each -> each.isStatic() == isStatic)
                .map(each -> each.getQualifiedIdentifier().toString());
    }

    @Nullable ImportTree lastImport() {
        List<? extends ImportTree> all = unit.getImports();
        return all.isEmpty() ? null : all.getLast();
    }

    /// The annotation of this simple name, however it is written; null if there is none.
    static @Nullable AnnotationTree annotation(ModifiersTree modifiers, String simpleName) {
        return modifiers.getAnnotations().stream()
                .filter(each -> simple(each.getAnnotationType().toString()).equals(simpleName))
                .findFirst()
                .orElse(null);
    }

    static String simple(String name) {
        return name.substring(name.lastIndexOf('.') + 1);
    }

    /// The fields that are declared together with one, `int a, b;`, and itself.
    List<VariableTree> together(ClassTree type, VariableTree field) {
        return type.getMembers().stream()
                .filter(VariableTree.class::isInstance)
                .map(VariableTree.class::cast)
                .filter(each -> start(each) == start(field))
                .toList();
    }

    /// The line separator of this source.
    String lineEnd() {
        return text.contains("\r\n") ? "\r\n" : "\n";
    }

    /// The blanks before what begins at a place, if only blanks are before it in its line; else
    /// null.
    @Nullable String indentOf(int at) {
        String before = text.substring(text.lastIndexOf('\n', at - 1) + 1, at);
        return before.isBlank() ? before : null;
    }
}
