package dev.terrace.objects;

import dev.terrace.objects.store.Store;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/// Stand-in: counts transactions, a change outside one being its own.
@NullMarked
public class Pool implements AutoCloseable {
    private final Deque<Runnable> undo = new ArrayDeque<>();
    private int depth;
    private int transactions;

    public static Pool open(Path directory, PoolOptions options) {
        return new Pool();
    }

    @Override
    public void close() {}

    public <T extends @Nullable Object> T transact(Supplier<T> body) {
        depth++;
        try {
            return body.get();
        } catch (RuntimeException e) {
            while (!undo.isEmpty()) {
                undo.pop().run();
            }
            throw e;
        } finally {
            depth--;
            if (depth == 0) {
                transactions++;
                undo.clear();
            }
        }
    }

    public void transact(Runnable body) {
        transact(() -> {
            body.run();
            return true;
        });
    }

    public <T extends @Nullable Object> T read(Supplier<T> body) {
        return body.get();
    }

    public <D extends DurableObject> D create(ObjectType<D> type) {
        changed(() -> {});
        return type.make(this);
    }

    public Store.Statistics statistics() {
        return new Store.Statistics(transactions, 0, 0, List.of(), List.of());
    }

    void changed(Runnable back) {
        if (depth == 0) {
            transactions++;
        } else {
            undo.push(back);
        }
    }
}
