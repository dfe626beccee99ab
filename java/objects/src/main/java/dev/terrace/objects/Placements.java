package dev.terrace.objects;

import dev.terrace.objects.internal.store.Chain;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
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

/// Tiers that a pool has been told for fields of its classes: they hold instead of the tags.
///
/// Each class has one entry at most in the chain, the whole of it in the key. Only who writes needs
/// them, and keeps them; whoever else asks looks anew, as another thread, or another process, may
/// be changing them.
final class Placements {
    private final Store store;
    private final Chain chain;

    /// By class and field, for who has the writer's lock. Null: not looked at yet.
    private volatile @Nullable Map<String, Map<String, List<StorageTier>>> byClass;

    /// How often something was said, or taken back.
    private volatile int changes;

    Placements(Store store, Chain chain) {
        this.store = store;
        this.chain = chain;
    }

    /// All there are, by class and field: those that have been committed, and, within a
    /// transaction, what that has changed.
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

    /// The tiers of a field, whatever it and its class were called; null if its tags say them. For
    /// who has the writer's lock, or does not store by it.
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

    /// Has these tiers hold for a class from now on, and no others: none, if there are none. In a
    /// transaction.
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

    /// A number that is another after something was said: who has found where values may lie looks
    /// again then. Changed under the writer's lock.
    int changes() {
        return changes;
    }

    private void forget() {
        changes++;
        byClass = null;
    }

    /// Has libraries that know nothing of this write to the pool no more.
    void prepare() {
        Feature.PLACEMENTS.addTo(store.pmem());
    }

    /// Shows what the chain owns.
    void links(Links links) {
        chain.links(links, false);
    }

    /// What is said of a class.
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
                throw new PoolDamagedException("a stored placement is damaged", e);
            }
        }
    }
}
