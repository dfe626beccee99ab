package dev.terrace.objects.processor;

import com.palantir.javapoet.AnnotationSpec;
import com.palantir.javapoet.ArrayTypeName;
import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.CodeBlock;
import com.palantir.javapoet.ParameterizedTypeName;
import com.palantir.javapoet.TypeName;
import com.palantir.javapoet.WildcardTypeName;
import dev.terrace.objects.ValueType;
import dev.terrace.objects.processor.Shape.Item;
import java.util.Arrays;
import java.util.Collection;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;

/// The types and expressions by which a slot's value is read and written, each given once for all
/// methods that need it.
final class SlotCode {
    private static final AnnotationSpec NULLABLE = AnnotationSpec.builder(Names.NULLABLE).build();

    private SlotCode() {}

    static TypeName nullable(TypeName type) {
        return type.annotated(NULLABLE);
    }

    /// The type that the getter returns.
    static TypeName type(Slot slot) {
        return switch (slot.shape()) {
            case Shape.Primitive(var _, var type) -> type;
            case Shape.Boxed(var _, var type) -> nullable(type);
            case Shape.Converted(var _, var type, var _, var _) -> nullable(type);
            case Shape.Text() -> nullable(ClassName.get(String.class));
            case Shape.PrimitiveArray(var _, var element, var _) ->
                    isFixedArray(slot.shape())
                            ? ArrayTypeName.of(element)
                            : nullable(ArrayTypeName.of(element));
            case Shape.Enumeration(var type, var _) -> nullable(type);
            case Shape.Reference(var _, var durable) -> nullable(durable);
            case Shape.Sequence(var item) ->
                    nullable(ParameterizedTypeName.get(Names.DURABLE_LIST, item.durable()));
            case Shape.Elements(var item, boolean sorted) ->
                    nullable(
                            ParameterizedTypeName.get(
                                    sorted ? Names.DURABLE_SORTED_SET : Names.DURABLE_SET,
                                    item.durable()));
            case Shape.Mapping(var key, var value, boolean sorted) ->
                    nullable(
                            ParameterizedTypeName.get(
                                    sorted ? Names.DURABLE_TREE : Names.DURABLE_MAP,
                                    key.durable(),
                                    value.durable()));
            case Shape.Volatile(var _, var type, var _) ->
                    type.isPrimitive() ? type : nullable(type);
            case Shape.Embedding(var inner) -> nullable(inner.name());
        };
    }

    /// The type that the setter takes: any collection, not only a durable one.
    static TypeName parameterType(Slot slot) {
        return switch (slot.shape()) {
            case Shape.Sequence(var item) -> anyCollection(item);
            case Shape.Elements(var item, var _) -> anyCollection(item);
            case Shape.Mapping(var key, var value, boolean sorted) ->
                    nullable(
                            ParameterizedTypeName.get(
                                    ClassName.get(sorted ? SortedMap.class : Map.class),
                                    key.durable(),
                                    WildcardTypeName.subtypeOf(value.durable())));
            default -> type(slot);
        };
    }

    private static TypeName anyCollection(Item item) {
        return nullable(
                ParameterizedTypeName.get(
                        ClassName.get(Collection.class),
                        WildcardTypeName.subtypeOf(item.durable())));
    }

    /// The suffix of the runtime's methods for the slot: `Int`, `BoxedInt`, `Ints`.
    static String suffix(Slot slot) {
        String kind = Names.capitalized(slot.shape().kind().name().toLowerCase(Locale.ROOT));
        return switch (slot.shape()) {
            case Shape.Primitive _, Shape.Text _, Shape.PrimitiveArray _, Shape.Embedding _ -> kind;
            case Shape.Boxed _ -> "Boxed" + kind;
            case Shape.Converted _ -> "Value";
            case Shape.Enumeration _ -> "Enum";
            case Shape.Reference _ -> "Reference";
            case Shape.Sequence _ -> "List";
            case Shape.Elements(var _, boolean sorted) -> sorted ? "SortedSet" : "Set";
            case Shape.Mapping(var _, var _, boolean sorted) -> sorted ? "Tree" : "Map";
            case Shape.Volatile _ -> "Volatile";
        };
    }

    /// The runtime's methods for an element of the slot's array end in this: `Int` for an `int[]`.
    static String elementSuffix(Slot slot) {
        String plural = suffix(slot);
        return plural.substring(0, plural.length() - 1);
    }

    /// Reads the stored value; for what is embedded, whether it is there.
    static CodeBlock read(Slot slot) {
        return readOf(slot, "");
    }

    /// @param object "", or another object of the generated class and a dot
    private static CodeBlock readOf(Slot slot, String object) {
        CodeBlock call =
                CodeBlock.of(
                        "$Lget$L($L$L)",
                        object,
                        suffix(slot),
                        slot.place(),
                        lastReadArguments(slot));
        return isFixedArray(slot.shape())
                ? CodeBlock.of("$T.requireNonNull($L)", Objects.class, call)
                : call;
    }

    private static boolean isFixedArray(Shape shape) {
        return shape instanceof Shape.PrimitiveArray(var _, var _, int length) && length > 0;
    }

    private static CodeBlock lastReadArguments(Slot slot) {
        return switch (slot.shape()) {
            case Shape.Enumeration _ -> CodeBlock.of(", $L", Lazy.constants(slot));
            case Shape.Reference(var _, var durable) -> CodeBlock.of(", $T.TYPE", durable);
            case Shape.Sequence _, Shape.Elements _, Shape.Mapping _ ->
                    CodeBlock.of(", $L", Lazy.elementTypes(slot));
            case Shape.Converted value -> CodeBlock.of(", $L", valueType(value));
            default -> CodeBlock.of("");
        };
    }

    /// The runtime's constant for a class whose values are stored as another kind.
    static CodeBlock valueType(Shape.Converted shape) {
        return CodeBlock.of("$T.$L", ValueType.class, shape.constant());
    }

    /// Writes a stored value.
    ///
    /// @param value an expression of the setter's parameter type
    static CodeBlock write(Slot slot, CodeBlock value) {
        CodeBlock types =
                switch (slot.shape()) {
                    case Shape.Sequence _, Shape.Elements _, Shape.Mapping _ ->
                            CodeBlock.of(", $L", Lazy.elementTypes(slot));
                    case Shape.Converted shape -> CodeBlock.of(", $L", valueType(shape));
                    default -> CodeBlock.of("");
                };
        return CodeBlock.of("set$L($L$L, $L)", suffix(slot), slot.place(), types, value);
    }

    /// Code that converts the stored value to the value of the tagged class.
    static CodeBlock toPlain(Slot slot) {
        return switch (slot.shape()) {
            case Shape.Reference(var _, var durable) ->
                    CodeBlock.of("copies.object($L, $T.COPIER)", read(slot), durable);
            case Shape.Sequence(var item) ->
                    CodeBlock.of("copies.list($L$L)", read(slot), copier(item));
            case Shape.Elements(var _, boolean sorted) ->
                    CodeBlock.of("copies.$L($L)", sorted ? "sortedSet" : "set", read(slot));
            case Shape.Mapping(var _, var value, boolean sorted) ->
                    CodeBlock.of(
                            "copies.$L($L$L)", sorted ? "tree" : "map", read(slot), copier(value));
            case Shape.Embedding _ -> CodeBlock.of("make$L(copies)", slot.capitalized());
            case Shape.Volatile _ -> CodeBlock.of("$N()", slot.getter());
            default -> read(slot);
        };
    }

    /// Code that converts a value of the tagged class to the stored value.
    static CodeBlock fromPlain(Slot slot, CodeBlock value) {
        return switch (slot.shape()) {
            case Shape.Reference(var _, var durable) ->
                    CodeBlock.of("copies.object($L, $T.COPIER)", value, durable);
            case Shape.Sequence(Item.Entity item) ->
                    CodeBlock.of("copies.list($L$L)", value, copier(item));
            case Shape.Mapping(var _, Item.Entity item, boolean sorted) ->
                    CodeBlock.of("copies.$L($L$L)", sorted ? "tree" : "map", value, copier(item));
            default -> value;
        };
    }

    private static CodeBlock copier(Item item) {
        return item instanceof Item.Entity(var _, var durable)
                ? CodeBlock.of(", $T.COPIER", durable)
                : CodeBlock.of("");
    }

    /// The value of a slot of an embedded object if there is no object.
    static CodeBlock zero(Shape shape) {
        return switch (shape) {
            case Shape.Primitive(var _, var type) -> zero(type);
            case Shape.Volatile(var _, var type, var _) ->
                    type.isPrimitive() ? zero(type) : CodeBlock.of("null");
            case Shape.PrimitiveArray(var _, var element, int length) ->
                    length > 0 ? CodeBlock.of("new $T[$L]", element, length) : CodeBlock.of("null");
            default -> CodeBlock.of("null");
        };
    }

    private static CodeBlock zero(TypeName primitive) {
        return CodeBlock.of(
                switch (primitive.toString()) {
                    case "boolean" -> "false";
                    case "char" -> "'\\0'";
                    case "long" -> "0L";
                    case "float" -> "0f";
                    case "double" -> "0.0";
                    default -> "0";
                });
    }

    /// Whether two objects hold the same in a slot.
    static CodeBlock same(Slot slot) {
        CodeBlock mine = read(slot);
        CodeBlock theirs = readOf(slot, "other.");
        return switch (slot.shape()) {
            case Shape.Primitive(var kind, var _) ->
                    switch (kind) {
                        case FLOAT ->
                                CodeBlock.of("$T.compare($L, $L) == 0", Float.class, mine, theirs);
                        case DOUBLE ->
                                CodeBlock.of("$T.compare($L, $L) == 0", Double.class, mine, theirs);
                        default -> CodeBlock.of("$L == $L", mine, theirs);
                    };
            case Shape.Embedding _ -> CodeBlock.of("$L == $L", mine, theirs);
            case Shape.PrimitiveArray _ ->
                    CodeBlock.of("$T.equals($L, $L)", Arrays.class, mine, theirs);
            default -> CodeBlock.of("$T.equals($L, $L)", Objects.class, mine, theirs);
        };
    }
}
