package dev.terrace.objects.internal.store;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A list of keys with a word each, in persistent memory: a pool's types, and its roots. Each link
/// is a header, the next link, the key's slot, the word.
public final class Chain {
    private static final int BYTES = 32;
    private static final int NEXT_AT = 8;
    private static final int KEY_AT = 16;
    private static final int VALUE_AT = 24;
    private static final List<Medium> KEY_TIERS = List.of(Medium.PMEM);

    private final Store store;
    private final Buffers buffers;
    private final long head;

    /// Receives links.
    public interface Visitor {
        /// A key, and the place of its word. Returns whether to continue.
        boolean visit(byte[] key, long valueAt);
    }

    /// The chain whose first link the word at `head` leads to.
    public Chain(Store store, Buffers buffers, long head) {
        this.store = store;
        this.buffers = buffers;
        this.head = head;
    }

    /// Shows all links, the newest first.
    public void forEach(Visitor visitor) {
        Steps steps = new Steps();
        for (long link = steps.next(head); link != 0; link = steps.next(link + NEXT_AT)) {
            byte @Nullable [] key = buffers.get(link + KEY_AT);
            if (key == null) {
                throw new StoreFailure.Damaged(
                        store.pmem().name() + ": a link of a table at " + link + " has no key");
            }
            if (!visitor.visit(key, link + VALUE_AT)) {
                return;
            }
        }
    }

    /// Shows the slots and links that the chain owns, and its words if they are references.
    public void links(Links links, boolean hasReferences) {
        Steps steps = new Steps();
        for (long link = steps.next(head); link != 0; link = steps.next(link + NEXT_AT)) {
            links.owned(link);
            links.slot(link, link + KEY_AT, KEY_TIERS);
            if (hasReferences) {
                links.reference(store.word(link + VALUE_AT));
            }
        }
    }

    /// A walk along the chain. It ends even if damage has made the chain a circle, and it does not
    /// follow damaged links out of the chain.
    private final class Steps {
        private long left = store.pmem().extents() * store.pmem().extentBytes() / BYTES;

        /// The link that the word at an offset leads to; 0 if there is none.
        long next(long at) {
            long link = store.word(at);
            if (--left < 0) {
                throw new StoreFailure.Damaged(
                        store.pmem().name() + ": a table has become a circle");
            }
            if (link != 0 && !isLink(link)) {
                throw new StoreFailure.Damaged(
                        store.pmem().name() + ": a table leads to " + link + ", where none begins");
            }
            return link;
        }

        private boolean isLink(long offset) {
            return Headers.type(store.header(offset)) == Headers.BUFFER && store.hasHeader(offset);
        }
    }

    /// The place of a key's word; -1 if there is no such key.
    public long find(byte[] wanted) {
        long[] found = {-1};
        forEach((key, valueAt) -> {
            if (Arrays.equals(key, wanted)) {
                found[0] = valueAt;
            }
            return found[0] < 0;
        });
        return found[0];
    }

    /// Adds a key. In a transaction.
    public void add(byte[] key, long value) {
        long link = store.allocate(BYTES, Headers.BUFFER);
        store.putWord(link, link + NEXT_AT, store.word(head));
        store.putWord(link, link + KEY_AT, buffers.put(KEY_TIERS, key));
        store.putWord(link, link + VALUE_AT, value);
        store.putWord(0, head, link);
    }

    /// Changes the word of a key, at the place that [#find] has returned. In a transaction.
    public void set(long valueAt, long value) {
        store.putWord(valueAt - VALUE_AT, valueAt, value);
    }

    /// Removes a key, if there is one. In a transaction.
    public void remove(byte[] wanted) {
        long valueAt = find(wanted);
        if (valueAt < 0) {
            return;
        }
        long link = valueAt - VALUE_AT;
        long owner = 0;
        long before = head;
        while (store.word(before) != link) {
            owner = store.word(before);
            before = owner + NEXT_AT;
        }
        store.putWord(owner, before, store.word(link + NEXT_AT));
        buffers.free(store.word(link + KEY_AT));
        store.free(link);
    }
}
