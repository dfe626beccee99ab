package dev.terrace.objects.processor;

import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.TypeName;
import dev.terrace.objects.FieldKind;
import java.util.List;

/// The form in which a pool stores a field's type.
sealed interface Shape {
    /// The kind in the schema.
    FieldKind kind();

    /// `int` and the like.
    record Primitive(FieldKind kind, TypeName type) implements Shape {}

    /// `Integer` and the like, or null.
    ///
    /// @param type the boxed type
    record Boxed(FieldKind kind, TypeName type) implements Shape {}

    /// `String`.
    record Text() implements Shape {
        @Override
        public FieldKind kind() {
            return FieldKind.STRING;
        }
    }

    /// A class of the JDK whose values are stored as another kind, or null.
    ///
    /// @param constant the name of the `ValueType`
    /// @param isOfOneLength whether all its values are
    record Converted(FieldKind kind, ClassName type, String constant, boolean isOfOneLength)
            implements Shape {}

    /// An array of primitives.
    ///
    /// @param element the elements' type
    /// @param fixedLength elements, or 0 if the length varies
    record PrimitiveArray(FieldKind kind, TypeName element, int fixedLength) implements Shape {}

    /// An enum.
    ///
    /// @param constants the names in their order
    record Enumeration(ClassName type, List<String> constants) implements Shape {
        @Override
        public FieldKind kind() {
            return FieldKind.ENUM;
        }
    }

    /// An object of a tagged class, stored on its own.
    ///
    /// @param plain the tagged class
    /// @param durable the class generated for it
    record Reference(ClassName plain, ClassName durable) implements Shape {
        @Override
        public FieldKind kind() {
            return FieldKind.REFERENCE;
        }
    }

    /// A `List`.
    record Sequence(Item item) implements Shape {
        @Override
        public FieldKind kind() {
            return FieldKind.REFERENCE;
        }
    }

    /// A `Set`, or a `SortedSet` or `NavigableSet`.
    record Elements(Item item, boolean sorted) implements Shape {
        @Override
        public FieldKind kind() {
            return FieldKind.REFERENCE;
        }
    }

    /// A `Map`, or a `SortedMap` or `NavigableMap`.
    record Mapping(Item key, Item value, boolean sorted) implements Shape {
        @Override
        public FieldKind kind() {
            return FieldKind.REFERENCE;
        }
    }

    /// A value that lives in DRAM only, of any type.
    ///
    /// @param kind what the type would be stored as; a reference if it could not be stored at all
    /// @param recompute the method that computes it from the durable object, or "" if it is just
    ///   absent after a reopen
    record Volatile(FieldKind kind, TypeName type, String recompute) implements Shape {}

    /// The fields of another class, within this record.
    record Embedding(PlainClass of) implements Shape {
        /// The kind of the field that says whether the object is there at all.
        @Override
        public FieldKind kind() {
            return FieldKind.BOOLEAN;
        }
    }

    /// An element, key or value of a collection.
    sealed interface Item {
        /// The type in the tagged class.
        TypeName plain();

        /// The type in the durable collection.
        TypeName durable();

        /// Whether it lies where the collection's tag says, and not in a node.
        default boolean isBuffered() {
            return false;
        }

        /// A boxed value, a string, bytes, or a value of a class of the JDK.
        ///
        /// @param constant the name of the `ElementType`
        record Value(TypeName plain, String constant, boolean isBuffered) implements Item {
            @Override
            public TypeName durable() {
                return plain;
            }
        }

        /// An object of a tagged class.
        record Entity(ClassName plain, ClassName durable) implements Item {}
    }
}
