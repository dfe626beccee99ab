package dev.terrace.objects.internal.collections;

import static dev.terrace.objects.internal.collections.BTree.COUNT_MASK;
import static dev.terrace.objects.internal.collections.BTree.ENTRIES_MAX;
import static dev.terrace.objects.internal.collections.BTree.IS_INNER;
import static dev.terrace.objects.internal.collections.BTree.META_AT;
import static dev.terrace.objects.internal.collections.BTree.childAt;
import static dev.terrace.objects.internal.collections.BTree.keyAt;
import static dev.terrace.objects.internal.collections.BTree.requireDepth;
import static dev.terrace.objects.internal.collections.BTree.valueAt;

import dev.terrace.objects.internal.store.Links;

/// The nodes of a [BTree] whatever its elements are: freeing and showing them.
final class TreeNodes {
    /// Entries that are freed in one transaction, more or less.
    private static final int FREED_AT_ONCE = 300;

    private TreeNodes() {}

    /// Frees the last leaves of a tree, with their buffers. Keys and values are elements with these
    /// numbers. The rest of the tree is sound, except that nodes may have too few entries. In a
    /// transaction.
    static void freeLast(Anchor anchor, int keyCode, int valueCode) {
        boolean[] hasBuffers = {
            ElementCodec.isBuffered(keyCode), ElementCodec.isBuffered(valueCode)
        };
        long[] freed = {0};
        while (freed[0] < FREED_AT_ONCE && anchor.get(Anchor.ROOT_AT) != 0) {
            if (prune(anchor, anchor.get(Anchor.ROOT_AT), 0, hasBuffers, freed)) {
                anchor.put(Anchor.ROOT_AT, 0);
            }
        }
        anchor.resize(anchor.size() - freed[0]);
    }

    /// Frees the last leaf below a node, with the entry before it, and returns whether the node is
    /// empty.
    private static boolean prune(
            Anchor anchor, long node, int depth, boolean[] hasBuffers, long[] freed) {
        anchor.requireNode(node);
        requireDepth(anchor, depth);
        long meta = anchor.store.word(node + META_AT);
        int count = (int) Math.min(ENTRIES_MAX, meta & COUNT_MASK);
        boolean isInner = (meta & IS_INNER) != 0;
        if (isInner
                && !prune(
                        anchor,
                        anchor.store.word(childAt(node, count)),
                        depth + 1,
                        hasBuffers,
                        freed)) {
            return false;
        }
        int kept = isInner ? Math.max(0, count - 1) : 0;
        for (int i = kept; i < count; i++) {
            free(anchor, hasBuffers[0], keyAt(node, i));
            free(anchor, hasBuffers[1], valueAt(node, i));
            freed[0]++;
        }
        if (!isInner || count == 0) {
            anchor.store.free(node);
            return true;
        }
        anchor.store.putWord(node, node + META_AT, meta - 1);
        return false;
    }

    private static void free(Anchor anchor, boolean hasBuffer, long at) {
        if (hasBuffer) {
            anchor.heap.buffers().free(anchor.store.word(at));
        }
    }

    /// Shows the nodes of a tree, and the references of its keys and values, which are elements
    /// with these numbers.
    static void links(Anchor anchor, int keyCode, int valueCode, Links links) {
        long root = anchor.get(Anchor.ROOT_AT);
        if (root != 0) {
            anchor.requireSize(links(anchor, root, 0, new int[] {keyCode, valueCode}, links));
        }
    }

    private static long links(Anchor anchor, long node, int depth, int[] codes, Links links) {
        anchor.requireNode(node);
        links.owned(node);
        long meta = anchor.store.word(node + META_AT);
        int count = (int) Math.min(ENTRIES_MAX, meta & COUNT_MASK);
        for (int i = 0; i < count; i++) {
            ElementCodec.links(codes[0], anchor, node, keyAt(node, i), Anchor.KEY_TIERS, links);
            ElementCodec.links(codes[1], anchor, node, valueAt(node, i), anchor.tiers(), links);
        }
        requireDepth(anchor, depth);
        long entries = count;
        for (int i = 0; (meta & IS_INNER) != 0 && i <= count; i++) {
            entries += links(anchor, anchor.store.word(childAt(node, i)), depth + 1, codes, links);
        }
        return entries;
    }
}
