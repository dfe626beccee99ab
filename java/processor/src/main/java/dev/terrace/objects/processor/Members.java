package dev.terrace.objects.processor;

import com.google.auto.common.MoreElements;
import com.palantir.javapoet.ArrayTypeName;
import com.palantir.javapoet.MethodSpec;
import com.palantir.javapoet.ParameterizedTypeName;
import com.palantir.javapoet.TypeName;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import javax.lang.model.element.Element;
import javax.lang.model.element.ExecutableElement;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.util.ElementFilter;
import javax.lang.model.util.Elements;

/// The methods of a generated class; finds those that two fields would both have, or that the class
/// inherits.
final class Members {
    private final Problems problems;
    private final List<MethodSpec> methods = new ArrayList<>();

    /// The owner of each method, by its signature.
    private final Map<String, String> owners = new HashMap<>();

    /// @param base `DurableObject`
    Members(Problems problems, Elements elements, Access access, TypeElement base) {
        this.problems = problems;
        for (ExecutableElement method : ElementFilter.methodsIn(elements.getAllMembers(base))) {
            if (!method.getModifiers().contains(Modifier.PRIVATE)) {
                String parameters =
                        method.getParameters().stream()
                                .map(each -> TypeName.get(access.erasure(each.asType())).toString())
                                .collect(Collectors.joining(","));
                owners.put(
                        method.getSimpleName() + "(" + parameters + ")",
                        MoreElements.asType(method.getEnclosingElement()).getSimpleName() + " has");
            }
        }
    }

    List<MethodSpec> methods() {
        return methods;
    }

    /// Adds a method that every generated class has.
    void add(MethodSpec method) {
        methods.add(method);
        owners.put(signature(method), "every generated class has");
    }

    /// Adds a field's method.
    void add(Slot slot, MethodSpec method) {
        methods.add(method);
        String signature = signature(method);
        String other = owners.putIfAbsent(signature, "the field " + slot.schemaName() + " has");
        if (other != null) {
            // A clash in an embedded class is reported at the embedding field, because this class
            // makes the names.
            Element at =
                    slot.within().isEmpty() ? slot.element() : slot.within().getFirst().element();
            problems.at(
                    at,
                    "the generated method %s of field %s is one that %s already: rename the field",
                    signature,
                    slot.schemaName(),
                    other);
        }
    }

    private static String signature(MethodSpec method) {
        return method.parameters().stream()
                .map(each -> erased(each.type()).toString())
                .collect(Collectors.joining(",", method.name() + "(", ")"));
    }

    private static TypeName erased(TypeName type) {
        if (type instanceof ParameterizedTypeName parameterized) {
            return parameterized.rawType().withoutAnnotations();
        }
        if (type instanceof ArrayTypeName array) {
            return ArrayTypeName.of(erased(array.componentType()));
        }
        return type.withoutAnnotations();
    }
}
