package dev.terrace.objects.spi;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// Copies objects of a tagged class into a pool, and out of it. Each generated class has a copier,
/// called `COPIER`.
///
/// A copier copies whole graphs. It copies an object once, even if several references lead to it,
/// and it follows cycles. It follows references iteratively, so a long chain needs no deep stack.
/// Records are the exception: a record that leads to other records is made by recursion, because it
/// cannot exist before they do.
///
/// @param <P> the tagged class
/// @param <D> the class generated for it
public final class Copier<P, D extends DurableObject> {
    private static final ClassValue<AtomicReference<@Nullable Copier<?, ?>>> BY_HANDLE =
            new ClassValue<>() {
                @Override
                protected AtomicReference<@Nullable Copier<?, ?>> computeValue(Class<?> handle) {
                    return new AtomicReference<>();
                }
            };

    private final Class<P> plain;
    private final ObjectType<D> type;
    private final Storer<P, D> storer;
    private final Maker<P, D> maker;
    private final Loader<P, D> loader;

    /// Writes all fields of a durable object.
    ///
    /// @param <P> the tagged class
    /// @param <D> the class generated for it
    @FunctionalInterface
    public interface Storer<P, D> {
        /// Writes the fields of `from` to `into`.
        void store(D into, P from, CopyIn copies);
    }

    /// Makes a plain object.
    ///
    /// @param <P> the tagged class
    /// @param <D> the class generated for it
    @FunctionalInterface
    public interface Maker<P, D> {
        /// A record with all that it holds, or an empty object of another class.
        P make(D from, CopyOut copies);
    }

    /// Fills a plain object that was made empty.
    ///
    /// @param <P> the tagged class
    /// @param <D> the class generated for it
    @FunctionalInterface
    public interface Loader<P, D> {
        /// Writes the fields of `from` to `into`.
        void load(D from, P into, CopyOut copies);
    }

    private Copier(
            Class<P> plain,
            ObjectType<D> type,
            Storer<P, D> storer,
            Maker<P, D> maker,
            Loader<P, D> loader) {
        this.plain = plain;
        this.type = type;
        this.storer = storer;
        this.maker = maker;
        this.loader = loader;
    }

    /// A copier for generated code.
    public static <P, D extends DurableObject> Copier<P, D> of(
            Class<P> plain,
            ObjectType<D> type,
            Storer<P, D> storer,
            Maker<P, D> maker,
            Loader<P, D> loader) {
        Copier<P, D> copier = new Copier<>(plain, type, storer, maker, loader);
        BY_HANDLE.get(type.handle()).set(copier);
        return copier;
    }

    /// The copier of a generated class. It is for callers that know the class by name only, such as
    /// another process.
    ///
    /// @param <P> the tagged class
    /// @param <D> the class generated for it
    /// @throws IllegalArgumentException if it has none, or is of another tagged class
    @SuppressWarnings("unchecked")
    public static <P, D extends DurableObject> Copier<P, D> of(Class<P> plain, Class<D> handle) {
        ObjectType<D> type = ObjectType.of(handle);
        Copier<?, ?> copier = BY_HANDLE.get(handle).get();
        if (copier == null || copier.plain != plain) {
            throw new IllegalArgumentException(
                    handle + " was not generated from " + plain + ", but from " + type);
        }
        return (Copier<P, D>) copier;
    }

    /// Stores a copy of `from`, and of all objects that it leads to, in one transaction.
    public D create(Pool pool, P from) {
        return CopyIn.run(pool, copies -> copies.required(from, this));
    }

    /// Overwrites all fields of `into` with the values of `from`, in one transaction. Objects that
    /// `from` leads to are stored as new objects.
    public void set(D into, P from) {
        CopyIn.run(
                into.pool(),
                copies -> {
                    copies.copyTo(into, from, this);
                    return into;
                });
    }

    /// A plain copy of `from` and of all objects that it leads to.
    ///
    /// @throws IllegalStateException for a record that leads back to itself
    public P load(D from) {
        return CopyOut.run(from.pool(), copies -> copies.required(from, this));
    }

    /// The same object, if it is of exactly this class: fields of a subclass would be lost.
    ///
    /// @throws IllegalArgumentException for an object of a subclass
    public static <T> @Nullable T exactly(Class<T> type, @Nullable T object) {
        if (object != null && object.getClass() != type) {
            throw new IllegalArgumentException(
                    "an object of "
                            + object.getClass().getName()
                            + " cannot be stored as a "
                            + type.getName()
                            + ": what the subclass adds would be lost");
        }
        return object;
    }

    ObjectType<D> type() {
        return type;
    }

    Class<P> plain() {
        return plain;
    }

    void store(D into, P from, CopyIn copies) {
        into.setTogether(() -> storer.store(into, from, copies));
    }

    P make(D from, CopyOut copies) {
        return maker.make(from, copies);
    }

    void load(D from, P into, CopyOut copies) {
        loader.load(from, into, copies);
    }
}
