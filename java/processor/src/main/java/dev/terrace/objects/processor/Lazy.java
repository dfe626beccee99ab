package dev.terrace.objects.processor;

import com.palantir.javapoet.ArrayTypeName;
import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.CodeBlock;
import com.palantir.javapoet.FieldSpec;
import com.palantir.javapoet.ParameterizedTypeName;
import com.palantir.javapoet.TypeName;
import com.palantir.javapoet.TypeSpec;
import dev.terrace.objects.processor.Shape.Item;
import java.util.List;
import java.util.Optional;
import javax.lang.model.element.Modifier;

/// The nested class with what is needed of other classes: enum constants, and types of elements.
///
/// It is a class of its own so that loading a generated class loads no other one: two that refer to
/// each other could otherwise wait for each other, when two threads load them.
final class Lazy {
    private static final String NAME = "Lazy";

    private Lazy() {}

    /// The expression for the constants of a slot's enum.
    static CodeBlock constants(Slot slot) {
        return CodeBlock.of("$L.$L_CONSTANTS", NAME, slot.constant());
    }

    /// The expressions for the types of a slot's elements, or of its keys and values.
    static CodeBlock elementTypes(Slot slot) {
        boolean sequence = !(slot.shape() instanceof Shape.Mapping);
        return CodeBlock.of(
                sequence ? "$1L.$2L_ELEMENTS" : "$1L.$2L_KEYS, $1L.$2L_VALUES",
                NAME,
                slot.constant());
    }

    /// The class, if any of the slots needs it.
    static Optional<TypeSpec> generate(List<Slot> slots) {
        TypeSpec.Builder type =
                TypeSpec.classBuilder(NAME)
                        .addModifiers(Modifier.PRIVATE, Modifier.STATIC, Modifier.FINAL)
                        .addJavadoc(
                                "What is needed of other classes, loaded when it is first used.");
        for (Slot slot : slots) {
            switch (slot.shape()) {
                case Shape.Enumeration(var name, var _) ->
                        type.addField(
                                field(
                                        ArrayTypeName.of(name),
                                        slot.constant() + "_CONSTANTS",
                                        CodeBlock.of("$T.values()", name)));
                case Shape.Sequence(var item) ->
                        type.addField(elementType(item, slot.constant() + "_ELEMENTS"));
                case Shape.Elements(var item, var _) ->
                        type.addField(elementType(item, slot.constant() + "_ELEMENTS"));
                case Shape.Mapping(var key, var value, var _) ->
                        type.addField(elementType(key, slot.constant() + "_KEYS"))
                                .addField(elementType(value, slot.constant() + "_VALUES"));
                default -> {
                    // Needs nothing of other classes.
                }
            }
        }
        TypeSpec built = type.build();
        return built.fieldSpecs().isEmpty() ? Optional.empty() : Optional.of(built);
    }

    private static FieldSpec elementType(Item item, String name) {
        CodeBlock value =
                switch (item) {
                    case Item.Value(var _, var constant, var _) ->
                            CodeBlock.of("$T.$L", Names.ELEMENT_TYPE, constant);
                    case Item.Entity(var _, ClassName durable) ->
                            CodeBlock.of("$T.of($T.TYPE)", Names.ELEMENT_TYPE, durable);
                };
        return field(ParameterizedTypeName.get(Names.ELEMENT_TYPE, item.durable()), name, value);
    }

    private static FieldSpec field(TypeName type, String name, CodeBlock value) {
        return FieldSpec.builder(type, name, Modifier.STATIC, Modifier.FINAL)
                .initializer(value)
                .build();
    }
}
