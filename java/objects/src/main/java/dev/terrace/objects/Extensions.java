package dev.terrace.objects;

import dev.terrace.objects.internal.store.Layout;
import dev.terrace.objects.internal.store.Store;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// Fields of objects that their records do not hold as the class has them now: they lie in
/// extensions, which the first who writes such a field makes.
///
/// Invariants:
/// * The records of an object say where each of its fields is, whatever class looks: in the first
///   that has it, or in the last extension that took it over ([TypeMapping#takesOver]). So no build
///   of a class reads what another one has left behind.
/// * An extension holds something that no record before it can: a field, a wider one, or a constant
///   of an enum, of which it has all that they had. So builds that take turns do not lengthen an
///   object for ever.
/// * An extension is whole before anything leads to it, and once something does, nothing reads the
///   object in place as before.
final class Extensions {
    /// More of them has no object: so a chain that is damaged ends.
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
                throw new PoolDamagedException(
                        pool.name()
                                + ": extensions of the object at "
                                + object.record()
                                + " have no end");
            }
        }
        return holder;
    }

    /// What a field of an object is to be written to: what holds it as the class has it, or a new
    /// extension that does. Alone.
    DurableObject toWrite(DurableObject object, int field) {
        DurableObject holder = toRead(object, field);
        return holder.mapping().holds(field) || object instanceof Part
                ? holder
                : pool.change(() -> extend(object, field));
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
        return Part.at(
                pool, pool.mapping(object.mapping().type, Types.formOf(type)), extension, header);
    }

    /// @param wanted the field that is about to be written
    private Part extend(DurableObject object, int wanted) {
        DurableObject last = last(object);
        ObjectType<?> type = object.mapping().type;
        List<DurableObject> holders =
                IntStream.range(0, type.fields().size())
                        .mapToObj(field -> toRead(object, field))
                        .toList();
        TypeMapping mapping =
                pool.extendingMapping(type, field -> holders.get(field).mapping().stored(field));
        long record = store.allocate(mapping.bytes, mapping.id | Types.EXTENSION);
        Part part = Part.at(pool, mapping, record, store.word(record));
        for (int field = 0; field < holders.size(); field++) {
            DurableObject holder = holders.get(field);
            FieldSpec then = holder.mapping().stored(field);
            if (then != null && part.mapping().takesOver(field, then)) {
                copy(holder, then, part, field, field == wanted);
            }
        }
        store.putWord(last.record(), last.record() + Layout.EXTENSION_AT, record);
        store.haveReadersLook();
        return part;
    }

    private DurableObject last(DurableObject object) {
        DurableObject last = object;
        int count = 0;
        for (Part part = next(object); part != null; part = next(part)) {
            last = part;
            count++;
        }
        if (count >= MAX) {
            throw new SchemaMismatchException(
                    pool.name()
                            + ": the object at "
                            + object.record()
                            + " has had "
                            + count
                            + " forms of its class already, and takes no more: copy it, and delete"
                            + " this one");
        }
        return last;
    }

    private void copy(DurableObject from, FieldSpec then, Part to, int field, boolean isWanted) {
        FieldSpec now = to.mapping().field(field);
        if (now.kind() == FieldKind.ENUM) {
            int number = (int) fields.getStoredBits(from, field, FieldKind.ENUM);
            List<String> constants = Fields.stored(to, field).constants();
            int renumbered =
                    number == 0 ? 0 : 1 + constants.indexOf(then.constants().get(number - 1));
            fields.setStoredBits(to, field, FieldKind.ENUM, renumbered);
        } else if (now.nullable()) {
            fields.setStoredBoxed(to, field, fields.getStoredBoxed(from, field));
        } else if (!isWanted) {
            fields.setStoredBits(
                    to, field, now.kind(), fields.getStoredNumber(from, field, now.kind()));
        }
    }
}
