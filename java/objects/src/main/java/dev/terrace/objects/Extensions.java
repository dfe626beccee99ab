package dev.terrace.objects;

import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// Fields of objects whose records do not hold them in the class's present form. These fields lie
/// in extensions, which are made when such a field is first written.
///
/// Invariants:
/// * The records of an object alone determine the place of each of its fields, for any build of the
///   class: the first record that has the field, or the last extension that took it over
///   ([TypeMapping#takesOver]). Therefore no build of a class reads a value that another build has
///   replaced.
/// * An extension holds a value that no earlier record can hold: a new field, a wider field, or a
///   new constant of an enum, of which it has all earlier constants, too. Therefore builds that
///   take turns do not lengthen an object forever.
/// * An extension is complete before a reference leads to it, and from then on no thread reads the
///   object in place.
final class Extensions {
    /// The greatest number of extensions of an object, so that a walk along a damaged chain ends.
    static final int MAX = 1000;

    private final Pool pool;
    private final Store store;
    private final Fields fields;

    Extensions(Pool pool, Fields fields) {
        this.pool = pool;
        this.fields = fields;
        store = pool.store();
    }

    /// The record from which a field of an object is read: the object, or one of its extensions.
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
                throw new StoreFailure.Damaged(
                        pool.name()
                                + ": extensions of the object at "
                                + object.record()
                                + " have no end");
            }
        }
        return holder;
    }

    /// The record to which a field of an object is written: the one that holds it in the class's
    /// form, or a new extension. Only while no other thread writes.
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
        int type = Headers.type(header);
        if ((type & Types.EXTENSION) == 0 || Types.formOf(type) == 0) {
            throw store.stale(object.record());
        }
        return Part.at(
                pool, pool.mapping(object.mapping().type, Types.formOf(type)), extension, header);
    }

    /// @param wanted the field to be written
    private Part extend(DurableObject object, int wanted) {
        DurableObject last = last(object);
        ObjectType<?> type = object.mapping().type;
        List<DurableObject> holders =
                IntStream.range(0, type.fields().size())
                        .mapToObj(field -> toRead(object, field))
                        .toList();
        TypeMapping mapping =
                pool.extendingMapping(type, field -> holders.get(field).mapping().stored(field));
        long record = mapping.allocate(mapping.id | Types.EXTENSION);
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
