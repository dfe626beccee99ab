package dev.terrace.objects.processor;

import com.palantir.javapoet.ClassName;
import java.util.Locale;
import javax.lang.model.element.TypeElement;

/// How generated things are called.
final class Names {
    static final String PACKAGE = "dev.terrace.objects";
    static final ClassName POOL = ClassName.get(PACKAGE, "Pool");
    static final ClassName DURABLE_OBJECT = ClassName.get(PACKAGE, "DurableObject");
    static final ClassName COLLECTION_OWNER =
            ClassName.get(PACKAGE + ".collections", "CollectionOwner");
    static final ClassName CURSOR = ClassName.get(PACKAGE, "Cursor");
    static final ClassName OBJECT_TYPE = ClassName.get(PACKAGE, "ObjectType");
    static final ClassName COPIER = ClassName.get(PACKAGE + ".spi", "Copier");
    static final ClassName COPY_IN = ClassName.get(PACKAGE + ".spi", "CopyIn");
    static final ClassName COPY_OUT = ClassName.get(PACKAGE + ".spi", "CopyOut");
    static final ClassName ELEMENT_TYPE = ClassName.get(PACKAGE + ".collections", "ElementType");
    static final ClassName DURABLE_LIST = ClassName.get(PACKAGE + ".collections", "DurableList");
    static final ClassName DURABLE_MAP = ClassName.get(PACKAGE + ".collections", "DurableMap");
    static final ClassName DURABLE_TREE = ClassName.get(PACKAGE + ".collections", "DurableTree");
    static final ClassName DURABLE_SET = ClassName.get(PACKAGE + ".collections", "DurableSet");
    static final ClassName DURABLE_SORTED_SET =
            ClassName.get(PACKAGE + ".collections", "DurableSortedSet");
    static final ClassName NULLABLE = ClassName.get("org.jspecify.annotations", "Nullable");
    static final ClassName NULL_MARKED = ClassName.get("org.jspecify.annotations", "NullMarked");

    private Names() {}

    /// The class generated for a tagged class: `DurablePerson`, and `DurableOuterPerson` for
    /// `Outer.Person`.
    static ClassName durable(ClassName plain) {
        return ClassName.get(plain.packageName(), "Durable" + String.join("", plain.simpleNames()));
    }

    static ClassName durable(TypeElement plain) {
        return durable(ClassName.get(plain));
    }

    /// `age` to `Age`.
    static String capitalized(String name) {
        return name.isEmpty() ? name : Character.toUpperCase(name.charAt(0)) + name.substring(1);
    }

    /// `maxSpeed` to `MAX_SPEED`.
    static String constant(String name) {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < name.length(); i++) {
            char c = name.charAt(i);
            boolean startsWord =
                    i > 0 && Character.isUpperCase(c) && !Character.isUpperCase(name.charAt(i - 1));
            out.append(startsWord ? "_" : "").append(c);
        }
        return out.toString().toUpperCase(Locale.ROOT);
    }

    /// The getter of a field: `getAge`; for a `boolean`, `isOpen`, also if the field itself is
    /// called `isOpen`.
    static String getter(String name, boolean primitiveBoolean) {
        if (!primitiveBoolean) {
            return "get" + capitalized(name);
        }
        return startsWithIs(name) ? name : "is" + capitalized(name);
    }

    /// The setter of a field: `setAge`; `setOpen` for a `boolean isOpen`.
    static String setter(String name, boolean primitiveBoolean) {
        return "set"
                + capitalized(primitiveBoolean && startsWithIs(name) ? name.substring(2) : name);
    }

    private static boolean startsWithIs(String name) {
        return name.length() > 2 && name.startsWith("is") && Character.isUpperCase(name.charAt(2));
    }
}
