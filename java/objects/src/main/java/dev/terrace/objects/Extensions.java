package dev.terrace.objects;

import dev.terrace.objects.store.Layout;
import dev.terrace.objects.store.Store;
import org.jspecify.annotations.Nullable;

/// Fields of objects that their records do not hold as the class has them now: they lie in extensions, which the
/// first who writes such a field makes.
///
/// Invariants:
/// * The records of an object say where each of its fields is, whatever class looks: in the first that has it, or in
///   the last extension that took it
///   over ([TypeMapping#takesOver]). So no build of a class reads what another one has left behind.
/// * An extension is whole before anything leads to it, and once something does, nothing reads the object in place as
///   before.
final class Extensions {
    /// More of them has no object: a class has no more forms in the lifetime of an object, or the builds of its
    /// program take turns.
    static final int MAX = 1000;

    private final Pool pool;
    private final Store store;
    private final Fields fields;

    Extensions(Pool pool, Fields fields) {
        this.pool = pool;
        this.fields = fields;
        store = pool.store();
    }

    /// What a field of an object is to be read from: the object, or one of its extensions.
    DurableObject toRead(DurableObject object, int field) {
        if (object instanceof Part) {
            return object;
        }
        DurableObject holder = object;
        int count = 0;
        for (Part part = next(object); part != null; part = next(part)) {
            if (part.mapping().takesOver(field, holder.mapping().stored(field))) {
                holder = part;
            }
            if (++count > MAX) {
                throw new PoolDamagedException(pool.name() + ": extensions of the object at " + object.record() + " have no end");
            }
        }
        return holder;
    }

    /// What a field of an object is to be written to: what holds it as the class has it, or a new extension that
    /// does. Alone.
    DurableObject toWrite(DurableObject object, int field) {
        DurableObject holder = toRead(object, field);
        return holder.mapping().holds(field) || object instanceof Part ? holder : pool.change(() -> extend(object, field));
    }

    private @Nullable Part next(DurableObject object) {
        fields.check(object);
        long extension = store.word(object.record() + Layout.EXTENSION_AT);
        if (extension == 0) {
            return null;
        }
        long header = store.header(extension);
        int type = Pool.typeOf(header);
        if ((type & Types.EXTENSION) == 0 || Types.formOf(type) == 0) {
            throw store.stale(object.record());
        }
        return Part.at(pool, pool.mapping(object.mapping().type, Types.formOf(type)), extension, header);
    }

    /// @param wanted the field that is about to be written
    private Part extend(DurableObject object, int wanted) {
        TypeMapping mapping = pool.currentMapping(object.mapping().type);
        long record = store.allocate(mapping.bytes, mapping.id | Types.EXTENSION);
        Part part = Part.at(pool, mapping, record, store.word(record));
        for (int field = 0; field < mapping.type.fields().size(); field++) {
            DurableObject holder = toRead(object, field);
            FieldSpec then = holder.mapping().stored(field);
            if (then != null && part.mapping().takesOver(field, then)) {
                copy(holder, then, part, field, field == wanted);
            }
        }
        DurableObject last = last(object);
        store.putWord(last.record(), last.record() + Layout.EXTENSION_AT, record);
        store.haveReadersLook();
        return part;
    }

    private DurableObject last(DurableObject object) {
        DurableObject last = object;
        for (Part part = next(object); part != null; part = next(part)) {
            last = part;
        }
        return last;
    }

    private void copy(DurableObject from, FieldSpec then, Part to, int field, boolean isWanted) {
        FieldSpec now = to.mapping().field(field);
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
        } else if (!isWanted) {
            fields.setStoredBits(to, field, now.kind(), fields.getStoredNumber(from, field, now.kind()));
        }
    }
}
