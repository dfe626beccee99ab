package dev.terrace.objects;

import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// A handle of objects of any class, whose fields are named by their numbers.
class AnyHandle extends DurableObject {
    final FieldSpec spec(int field) {
        return mapping().field(field);
    }

    final int count() {
        return mapping().type.fields().size();
    }

    /// Sets all fields to what an object with this number holds.
    final void fill(int seed) {
        for (int i = 0; i < count(); i++) {
            if (!spec(i).isVolatile()) {
                set(i, GoldenPool.value(spec(i), seed));
            }
        }
    }

    /// Sets a field; a reference leads to the object itself.
    final void set(int field, @Nullable Object value) {
        FieldSpec spec = spec(field);
        if (spec.kind() == FieldKind.REFERENCE) {
            setReference(field, -1, this);
        } else if (spec.kind() == FieldKind.STRING) {
            setString(field, -1, (String) value);
        } else if (spec.kind() == FieldKind.ENUM) {
            int number =
                    value instanceof PoolDump.Constant constant
                            ? 1 + spec.constants().indexOf(constant.name())
                            : 0;
            pool().fields().setBits(this, field, spec.kind(), number);
        } else if (spec.kind().isArray()) {
            pool().arrays().set(this, field, value);
        } else {
            pool().fields().setBoxed(this, field, value);
        }
    }

    /// The value of a field that is no reference; arrays as lists.
    final @Nullable Object get(int field) {
        FieldSpec spec = spec(field);
        if (spec.kind() == FieldKind.STRING) {
            return getString(field, -1);
        }
        if (spec.kind().isArray()) {
            return GoldenPoolTest.comparable(pool().arrays().get(this, field));
        }
        if (spec.nullable() && spec.kind() != FieldKind.ENUM) {
            return pool().fields().getBoxed(this, field);
        }
        long bits = pool().fields().getBits(this, field, spec.kind());
        if (spec.kind() == FieldKind.ENUM) {
            return bits == 0 ? null : new PoolDump.Constant(spec.constants().get((int) bits - 1));
        }
        return Fields.box(bits, spec.kind());
    }

    /// The values of all fields, by their names.
    final Map<String, @Nullable Object> all() {
        Map<String, @Nullable Object> values = new TreeMap<>();
        for (int i = 0; i < count(); i++) {
            values.put(spec(i).name(), get(i));
        }
        return values;
    }
}
