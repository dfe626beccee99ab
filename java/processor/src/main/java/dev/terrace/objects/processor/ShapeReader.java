package dev.terrace.objects.processor;

import com.google.auto.common.MoreElements;
import com.google.auto.common.MoreTypes;
import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.TypeName;
import dev.terrace.objects.Durable;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.ValueType;
import dev.terrace.objects.processor.Shape.Item;
import dev.terrace.objects.processor.TagReader.Tags;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.type.ArrayType;
import javax.lang.model.type.DeclaredType;
import javax.lang.model.type.PrimitiveType;
import javax.lang.model.type.TypeKind;
import javax.lang.model.type.TypeMirror;
import org.jspecify.annotations.Nullable;

/// Turns a field's type into what the pool makes of it, or into an error at the field that says
/// what to use instead.
final class ShapeReader {
    /// Bytes of the longest array of fixed length: longer ones are better kept outside the record.
    static final int MAX_FIXED_BYTES = 1 << 24;

    /// The classes whose values are stored as another kind, by their names.
    private static final Map<String, ValueType<?>> VALUES =
            ValueType.all().stream()
                    .collect(Collectors.toMap(ValueType::name, Function.identity()));

    private static final Map<String, FieldKind> BOXED =
            Map.of(
                    "java.lang.Boolean", FieldKind.BOOLEAN,
                    "java.lang.Byte", FieldKind.BYTE,
                    "java.lang.Short", FieldKind.SHORT,
                    "java.lang.Character", FieldKind.CHAR,
                    "java.lang.Integer", FieldKind.INT,
                    "java.lang.Long", FieldKind.LONG,
                    "java.lang.Float", FieldKind.FLOAT,
                    "java.lang.Double", FieldKind.DOUBLE);

    private final Problems problems;
    private final Access access;

    ShapeReader(Problems problems, Access access) {
        this.problems = problems;
        this.access = access;
    }

    /// The shape of a field in DRAM, which may have any type that the generated class can name.
    @Nullable Shape readVolatile(Element field, TypeMirror type, Tags tags) {
        if (!access.isVisible(type)) {
            return refuseVisibility(field, type);
        }
        String recompute = tags.recompute() == null ? "" : tags.recompute();
        return new Shape.Volatile(volatileKind(type), TypeName.get(type), recompute);
    }

    /// The shape of a field that is not embedded and not in DRAM, or null after an error.
    @Nullable Shape read(Element field, TypeMirror type, Tags tags) {
        if (!access.isVisible(type)) {
            return refuseVisibility(field, type);
        }
        if (tags.fixedLength() != null && !isPrimitiveArray(type)) {
            return refuse(
                    field,
                    "@FixedLength is for arrays of primitives, and this is a %s: remove the tag",
                    type);
        }
        Shape shape = stored(field, type, tags);
        return shape == null || hasEffect(field, shape, tags) ? shape : null;
    }

    private @Nullable Shape stored(Element field, TypeMirror type, Tags tags) {
        return switch (type.getKind()) {
            case BOOLEAN, BYTE, SHORT, CHAR, INT, LONG, FLOAT, DOUBLE ->
                    new Shape.Primitive(primitiveKind(type), TypeName.get(type));
            case ARRAY -> array(field, MoreTypes.asArray(type), tags);
            case DECLARED -> declared(field, MoreTypes.asDeclared(type));
            default ->
                    refuse(
                            field,
                            "a field of type %s cannot be stored: declare it with a class",
                            type);
        };
    }

    /// Whether a value can lie where its tag says; else reports that it cannot.
    private boolean hasEffect(Element field, Shape shape, Tags tags) {
        if (tags.tiers().isEmpty() || tags.tiers().equals(List.of(StorageTier.PMEM))) {
            return true;
        }
        if (shape instanceof Shape.Reference) {
            refuse(
                    field,
                    "@Tier(%s) has no effect: a reference lies in the object's record, which is in"
                        + " PMEM, and the object that it leads to lies where its own class says."
                        + " Remove the tag, or tag the fields of that class",
                    named(tags.tiers()));
            return false;
        }
        if (shape instanceof Shape.Elements) {
            refuse(
                    field,
                    "@Tier(%s) has no effect: the elements of a set lie in PMEM always. Remove the"
                            + " tag",
                    named(tags.tiers()));
            return false;
        }
        Item held =
                switch (shape) {
                    case Shape.Sequence(var item) -> item;
                    case Shape.Mapping(var _, var item, var _) -> item;
                    default -> null;
                };
        if (held != null && !held.isBuffered()) {
            refuse(
                    field,
                    "@Tier(%s) has no effect: a collection's tag says where its texts, bytes and"
                        + " other values of more than a word lie, and this one holds %s, which is"
                        + " in PMEM always. Remove the tag",
                    named(tags.tiers()),
                    held.plain());
            return false;
        }
        return true;
    }

    private static String named(List<StorageTier> tiers) {
        String names = tiers.stream().map(StorageTier::name).collect(Collectors.joining(", "));
        return tiers.size() == 1 ? names : "{" + names + "}";
    }

    private @Nullable Shape array(Element field, ArrayType type, Tags tags) {
        TypeMirror element = type.getComponentType();
        if (element.getKind() == TypeKind.ARRAY) {
            return refuse(
                    field,
                    "an array of arrays cannot be stored: use one array and compute the index, "
                            + "or a List of a @Durable class that has the inner array");
        }
        if (!element.getKind().isPrimitive()) {
            return refuse(
                    field, "an array of objects cannot be stored: use List<%s>", simple(element));
        }
        FieldKind kind = FieldKind.valueOf(primitiveKind(element) + "S");
        Integer length = tags.fixedLength();
        if (length != null && length <= 0) {
            return refuse(field, "@FixedLength(%d): a length is at least 1", length);
        }
        if (length != null && (long) length * kind.width() > MAX_FIXED_BYTES) {
            return refuse(
                    field,
                    "@FixedLength(%d) is %d bytes, and at most %d lie within a record: remove the"
                            + " tag",
                    length,
                    (long) length * kind.width(),
                    MAX_FIXED_BYTES);
        }
        return new Shape.PrimitiveArray(kind, TypeName.get(element), length == null ? 0 : length);
    }

    private @Nullable Shape declared(Element field, DeclaredType type) {
        TypeElement element = MoreTypes.asTypeElement(type);
        String name = element.getQualifiedName().toString();
        if (name.equals("java.lang.String")) {
            return new Shape.Text();
        }
        if (BOXED.containsKey(name)) {
            return new Shape.Boxed(BOXED.get(name), ClassName.get(element));
        }
        if (VALUES.containsKey(name)) {
            ValueType<?> value = VALUES.get(name);
            return new Shape.Converted(
                    value.kind(),
                    ClassName.get(element),
                    Names.constant(element.getSimpleName().toString()),
                    value.kind() != FieldKind.BYTES);
        }
        if (element.getKind() == ElementKind.ENUM) {
            return new Shape.Enumeration(ClassName.get(element), constants(element));
        }
        return switch (name) {
            case "java.util.List" -> sequence(field, type);
            case "java.util.Set" -> elements(field, type, false);
            case "java.util.SortedSet", "java.util.NavigableSet" -> elements(field, type, true);
            case "java.util.Map" -> mapping(field, type, false);
            case "java.util.SortedMap", "java.util.NavigableMap" -> mapping(field, type, true);
            default ->
                    isEntity(field, element)
                            ? new Shape.Reference(ClassName.get(element), Names.durable(element))
                            : null;
        };
    }

    private @Nullable Shape sequence(Element field, DeclaredType type) {
        if (type.getTypeArguments().isEmpty()) {
            return refuse(
                    field,
                    "a List without the type of its elements cannot be stored: say List<String>, or"
                            + " whatever it holds");
        }
        Item item = item(field, type.getTypeArguments().getFirst());
        return item == null ? null : new Shape.Sequence(item);
    }

    private @Nullable Shape elements(Element field, DeclaredType type, boolean sorted) {
        if (type.getTypeArguments().isEmpty()) {
            return refuse(
                    field,
                    "a %1$s without the type of its elements cannot be stored: say %1$s<String>, or"
                            + " whatever it holds",
                    type.asElement().getSimpleName());
        }
        Item item = item(field, type.getTypeArguments().getFirst());
        if (item != null && !isKey(item)) {
            return refuse(
                    field,
                    "an element of a set is a String, a boxed value or one such as a UUID, not a"
                            + " %s: use a List",
                    simple(type.getTypeArguments().getFirst()));
        }
        return item == null ? null : new Shape.Elements(item, sorted);
    }

    private static boolean isKey(Item item) {
        return item instanceof Item.Value value && !value.constant().equals("BYTES");
    }

    private @Nullable Shape mapping(Element field, DeclaredType type, boolean sorted) {
        if (type.getTypeArguments().isEmpty()) {
            return refuse(
                    field,
                    "a %1$s without the types of its keys and values cannot be stored: say"
                            + " %1$s<String, Long>, or whatever it holds",
                    type.asElement().getSimpleName());
        }
        Item key = item(field, type.getTypeArguments().getFirst());
        Item value = item(field, type.getTypeArguments().getLast());
        if (key == null || value == null) {
            return null;
        }
        if (!isKey(key)) {
            return refuse(
                    field,
                    "a key of a map is a String, a boxed value or one such as a UUID, not a %s: use"
                            + " a key that names it",
                    simple(type.getTypeArguments().getFirst()));
        }
        return new Shape.Mapping(key, value, sorted);
    }

    private @Nullable Item item(Element field, TypeMirror type) {
        if (type.getKind() == TypeKind.WILDCARD) {
            refuse(field, "a collection of %s does not say what it holds: name the type", type);
            return null;
        }
        if (type.getKind() == TypeKind.ARRAY
                && MoreTypes.asArray(type).getComponentType().getKind() == TypeKind.BYTE) {
            return new Item.Value(TypeName.get(type), "BYTES", true);
        }
        if (type.getKind() != TypeKind.DECLARED) {
            refuse(
                    field,
                    "a collection of %s cannot be stored: use byte[], or a @Durable class that has"
                            + " such a field",
                    type);
            return null;
        }
        TypeElement element = MoreTypes.asTypeElement(type);
        String name = element.getQualifiedName().toString();
        ValueType<?> value = VALUES.get(name);
        boolean isString = name.equals("java.lang.String");
        if (isString || BOXED.containsKey(name) || value != null) {
            return new Item.Value(
                    TypeName.get(type),
                    Names.constant(element.getSimpleName().toString()),
                    isString || value != null && value.kind() != FieldKind.LONG);
        }
        if (element.getKind() == ElementKind.ENUM) {
            refuse(
                    field,
                    "a collection of an enum cannot be stored: use String with name(), "
                            + "or a @Durable class that has a field of type %s",
                    element.getSimpleName());
            return null;
        }
        if (isCollection(name)) {
            refuse(
                    field,
                    "a collection of collections cannot be stored: put the inner %s into a @Durable"
                            + " class",
                    element.getSimpleName());
            return null;
        }
        return isEntity(field, element)
                ? new Item.Entity(ClassName.get(element), Names.durable(element))
                : null;
    }

    /// Whether objects of the class are stored on their own; else reports why not.
    private boolean isEntity(Element field, TypeElement type) {
        String name = type.getSimpleName().toString();
        if (!MoreElements.isAnnotationPresent(type, Durable.class)) {
            if (type.getSuperclass().toString().equals(Names.DURABLE_OBJECT.canonicalName())) {
                refuse(
                        field,
                        "a tagged class refers to tagged classes, not to generated ones: use the"
                                + " class that %s was generated for",
                        name);
            } else {
                String qualified = type.getQualifiedName().toString();
                refuse(field, "a %s cannot be stored: %s", qualified, Remedies.of(qualified));
            }
            return false;
        }
        if (type.getKind() == ElementKind.INTERFACE
                || type.getModifiers().contains(Modifier.ABSTRACT)) {
            refuse(
                    field,
                    "%s is abstract, and a reference leads to objects of exactly one class: use a"
                            + " concrete @Durable class",
                    name);
            return false;
        }
        return true;
    }

    private static boolean isCollection(String name) {
        return List.of(
                        "java.util.List",
                        "java.util.Map",
                        "java.util.SortedMap",
                        "java.util.NavigableMap",
                        "java.util.Set",
                        "java.util.SortedSet",
                        "java.util.NavigableSet",
                        "java.util.Collection")
                .contains(name);
    }

    /// The kind of the type outside DRAM, so that a field can move there later with the same kind.
    private static FieldKind volatileKind(TypeMirror type) {
        if (type.getKind().isPrimitive()) {
            return primitiveKind(type);
        }
        if (isPrimitiveArray(type)) {
            return FieldKind.valueOf(
                    primitiveKind(MoreTypes.asArray(type).getComponentType()) + "S");
        }
        if (type.getKind() != TypeKind.DECLARED) {
            return FieldKind.REFERENCE;
        }
        String name = MoreTypes.asTypeElement(type).getQualifiedName().toString();
        return name.equals("java.lang.String")
                ? FieldKind.STRING
                : BOXED.getOrDefault(name, FieldKind.REFERENCE);
    }

    private static FieldKind primitiveKind(TypeMirror type) {
        return FieldKind.valueOf(((PrimitiveType) type).getKind().name());
    }

    private static boolean isPrimitiveArray(TypeMirror type) {
        return type.getKind() == TypeKind.ARRAY
                && MoreTypes.asArray(type).getComponentType().getKind().isPrimitive();
    }

    private static List<String> constants(TypeElement type) {
        return type.getEnclosedElements().stream()
                .filter(each -> each.getKind() == ElementKind.ENUM_CONSTANT)
                .map(each -> each.getSimpleName().toString())
                .toList();
    }

    private static String simple(TypeMirror type) {
        return type.getKind() == TypeKind.DECLARED
                ? MoreTypes.asTypeElement(type).getSimpleName().toString()
                : type.toString();
    }

    private @Nullable Shape refuseVisibility(Element field, TypeMirror type) {
        return refuse(
                field,
                "the generated class cannot see %s: make it package-private or public, or the field"
                        + " transient",
                type);
    }

    private @Nullable Shape refuse(Element field, String format, Object... values) {
        problems.at(field, format, values);
        return null;
    }
}
