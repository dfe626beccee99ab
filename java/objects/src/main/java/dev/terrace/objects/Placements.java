package dev.terrace.objects;

import dev.terrace.objects.internal.store.Chain;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The placements of a pool: tiers for fields of its classes that override their tags.
///
/// Each class has at most one entry in the chain, which lies completely in the key. Only the
/// writing thread needs placements often, and caches them. All other threads read them anew,
/// because another thread or process may be changing them.
final class Placements {
    private final Store store;
    private final Chain chain;

    /// The tiers by class and field, for the thread with the writer's lock. Null: not read yet.
    private volatile @Nullable Map<String, Map<String, List<StorageTier>>> byClass;

    /// The number of changes, including changes that were rolled back.
    private volatile int changes;

    Placements(Store store, Chain chain) {
        this.store = store;
        this.chain = chain;
    }

    /// All placements by class and field: the committed ones, with the changes of the present
    /// transaction.
    Map<String, Map<String, List<StorageTier>>> all() {
        return store.read(this::load);
    }

    private Map<String, Map<String, List<StorageTier>>> kept() {
        Map<String, Map<String, List<StorageTier>>> known = byClass;
        if (known == null) {
            known = all();
            byClass = known;
        }
        return known;
    }

    private Map<String, Map<String, List<StorageTier>>> load() {
        Map<String, Map<String, List<StorageTier>>> found = new TreeMap<>();
        chain.forEach((key, _) -> {
            Entry entry = Entry.decode(key);
            found.put(entry.type, entry.fields);
            return true;
        });
        return found;
    }

    /// The tiers of a field, under any of its names and its class's names; null if its tags apply.
    /// For a thread with the writer's lock, or one that stores nothing by the result.
    @Nullable List<StorageTier> tiers(ObjectType<?> type, FieldSpec field) {
        Map<String, Map<String, List<StorageTier>>> known = kept();
        if (known.isEmpty()) {
            return null;
        }
        return names(type)
                .filter(known::containsKey)
                .findFirst()
                .map(name -> tiers(known.get(name), field))
                .orElse(null);
    }

    private static Stream<String> names(ObjectType<?> type) {
        return Stream.concat(Stream.of(type.name()), type.formerly().stream());
    }

    private static @Nullable List<StorageTier> tiers(
            Map<String, List<StorageTier>> fields, FieldSpec field) {
        return Stream.concat(Stream.of(field.name()), field.formerly().stream())
                .map(fields::get)
                .filter(tiers -> tiers != null)
                .findFirst()
                .orElse(null);
    }

    /// Sets the placement of a class; if there are no tiers, its tags apply. In a transaction.
    void set(ObjectType<?> type, Map<String, List<StorageTier>> fields) {
        List<byte[]> old = new ArrayList<>();
        chain.forEach((key, _) -> {
            if (names(type).anyMatch(Entry.decode(key).type::equals)) {
                old.add(key);
            }
            return true;
        });
        old.forEach(chain::remove);
        if (!fields.isEmpty()) {
            chain.add(new Entry(type.name(), fields).encode(), 0);
        }
        forget();
        store.afterRollback(this::forget);
    }

    /// A number that changes with each placement, so that cached tiers are read again. Changed
    /// under the writer's lock.
    int changes() {
        return changes;
    }

    private void forget() {
        changes++;
        byClass = null;
    }

    /// Keeps versions of this library without placements from writing to the pool.
    void prepare() {
        Feature.PLACEMENTS.addTo(store);
    }

    /// Shows the links and slots that the chain owns.
    void links(Links links) {
        chain.links(links, false);
    }

    /// The placement of a class.
    private record Entry(String type, Map<String, List<StorageTier>> fields) {
        byte[] encode() {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (DataOutputStream out = new DataOutputStream(bytes)) {
                out.writeUTF(type);
                out.writeInt(fields.size());
                for (Map.Entry<String, List<StorageTier>> field :
                        new TreeMap<>(fields).entrySet()) {
                    out.writeUTF(field.getKey());
                    out.writeByte(field.getValue().size());
                    for (StorageTier tier : field.getValue()) {
                        out.writeByte(tier.ordinal());
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return bytes.toByteArray();
        }

        static Entry decode(byte[] bytes) {
            try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
                String type = in.readUTF();
                Map<String, List<StorageTier>> fields = new TreeMap<>();
                for (int i = in.readInt(); i > 0; i--) {
                    String field = in.readUTF();
                    StorageTier[] tiers = new StorageTier[in.readUnsignedByte()];
                    for (int j = 0; j < tiers.length; j++) {
                        tiers[j] = StorageTier.values()[in.readUnsignedByte()];
                    }
                    fields.put(field, List.copyOf(Arrays.asList(tiers)));
                }
                return new Entry(type, fields);
            } catch (IOException | ArrayIndexOutOfBoundsException e) {
                throw new StoreFailure.Damaged("a stored placement is damaged", e);
            }
        }
    }
}
