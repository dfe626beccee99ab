package dev.terrace.objects.placement.source;

import com.sun.source.tree.AnnotationTree;
import com.sun.source.tree.AssignmentTree;
import com.sun.source.tree.ExpressionTree;
import com.sun.source.tree.NewArrayTree;
import com.sun.source.tree.VariableTree;
import dev.terrace.objects.StorageTier;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The tiers in a field's `@Tier`.
final class Tags {
    static final String TIER = "Tier";

    private Tags() {}

    static @Nullable AnnotationTree annotation(VariableTree field) {
        return JavaSource.annotation(field.getModifiers(), TIER);
    }

    static boolean has(VariableTree field, String annotation) {
        return JavaSource.annotation(field.getModifiers(), annotation) != null;
    }

    /// The tiers that a field's tag names; empty if it has no tag.
    static List<StorageTier> declared(VariableTree field) {
        AnnotationTree annotation = annotation(field);
        return annotation == null
                ? List.of()
                : value(annotation).stream().flatMap(Tags::tiers).toList();
    }

    /// The expression that says which tiers.
    static Optional<ExpressionTree> value(AnnotationTree annotation) {
        return annotation.getArguments().stream()
                .findFirst()
                .map(each ->
                        each instanceof AssignmentTree assignment
                                ? assignment.getExpression()
                                : each);
    }

    /// Expressions that do not name a tier are left out, so that the tag never equals the wanted
    /// one.
    private static Stream<StorageTier> tiers(ExpressionTree value) {
        if (value instanceof NewArrayTree array) {
            return array.getInitializers().stream().flatMap(Tags::tiers);
        }
        String name = JavaSource.simple(value.toString());
        return Stream.of(StorageTier.values()).filter(tier -> tier.name().equals(name));
    }
}
