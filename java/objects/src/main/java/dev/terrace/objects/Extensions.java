package dev.terrace.objects;

import dev.terrace.objects.store.Layout;
import dev.terrace.objects.store.Store;

/// Fields of objects that were stored before their class had them: they lie in an extension, which the first who writes one makes.
final class Extensions {
    private final Pool pool;
    private final Store store;
    private final Fields fields;

    /// A handle of an extension.
    private static final class Part extends DurableObject {}

    Extensions(Pool pool, Fields fields) {
        this.pool = pool;
        this.fields = fields;
        store = pool.store();
    }

    /// What a field of an object is to be read from: the object, or its extension.
    DurableObject toRead(DurableObject object, int field) {
        DurableObject holder = object;
        while (!holder.mapping().isNative && holder.mapping().isExtended(field)) {
            long extension = extension(holder);
            if (extension == 0) {
                return holder;
            }
            holder = part(holder, extension);
        }
        return holder;
    }

    /// What a field of an object is to be written to: the object, or its extension.
    DurableObject toWrite(DurableObject object, int field) {
        DurableObject holder = toRead(object, field);
        if (holder.mapping().isNative || !holder.mapping().isExtended(field)) {
            return holder;
        }
        return pool.change(() -> {
            long there = extension(holder);
            return there == 0 ? extend(holder, field) : part(holder, there);
        });
    }

    private long extension(DurableObject object) {
        fields.check(object);
        return store.word(object.record() + Layout.EXTENSION_AT);
    }

    private DurableObject part(DurableObject object, long extension) {
        long header = store.word(extension);
        int form = Types.formOf(Pool.typeOf(header));
        if (form == 0) {
            throw store.stale(object.record());
        }
        Part part = new Part();
        part.bind(pool, pool.mapping(object.mapping().type, form), extension, header);
        return part;
    }

    /// @param wanted the field that is about to be written
    private DurableObject extend(DurableObject object, int wanted) {
        TypeMapping mapping = pool.currentMapping(object.mapping().type);
        long record = store.allocate(mapping.bytes, mapping.id | Types.EXTENSION);
        store.putWord(object.record(), object.record() + Layout.EXTENSION_AT, record);
        DurableObject part = part(object, record);
        for (int field = 0; field < mapping.type.fields().size(); field++) {
            FieldSpec then = object.mapping().stored(field);
            if (then != null && object.mapping().isExtended(field)) {
                copy(object, then, part, field, field == wanted);
            }
        }
        return part;
    }

    private void copy(DurableObject from, FieldSpec then, DurableObject to, int field, boolean isWanted) {
        FieldSpec now = from.mapping().field(field);
        if (now.kind() == FieldKind.ENUM) {
            int number = (int) fields.getStoredBits(from, field, FieldKind.ENUM);
            String name = number == 0 ? "" : then.constants().get(number - 1);
            int renumbered = 1 + now.constants().indexOf(name);
            if (number != 0 && renumbered == 0 && !isWanted) {
                throw new SchemaMismatchException(
                        "field " + now.name() + " is " + name + ", which " + now.target() + " has not: set it first");
            }
            fields.setStoredBits(to, field, FieldKind.ENUM, renumbered);
        } else if (now.nullable()) {
            fields.setStoredBoxed(to, field, fields.getStoredBoxed(from, field));
        } else {
            fields.setStoredBits(to, field, now.kind(), fields.getStoredBits(from, field, now.kind()));
        }
    }
}
