package dev.terrace.objects;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// What the annotation processor makes of a class whose fields lie on tiers that a test chooses.
public final class Thing extends DurableObject {
    private static final Map<List<StorageTier>, ObjectType<Thing>> TYPES =
            new ConcurrentHashMap<>();
    private static final int BYTES = 0;
    private static final int TEXT = 1;
    private static final int NUMBER = 2;

    /// The class whose fields lie on these tiers.
    public static ObjectType<Thing> on(StorageTier... tiers) {
        return TYPES.computeIfAbsent(
                List.of(tiers), key -> named("dev.terrace.objects.Thing" + key, tiers));
    }

    /// The class of this name, whose fields lie on these tiers.
    static ObjectType<Thing> named(String name, StorageTier... tiers) {
        return ObjectType.of(
                name,
                Thing.class,
                Thing::new,
                List.of(),
                FieldSpec.of("bytes", FieldKind.BYTES).on(tiers).orNull(),
                FieldSpec.of("text", FieldKind.STRING).on(tiers).orNull(),
                FieldSpec.of("number", FieldKind.LONG).on(tiers));
    }

    private boolean isVolatile() {
        return mapping().type.fields().getFirst().isVolatile();
    }

    private int at(int field) {
        return mapping().type.offset(field);
    }

    /// A field.
    public byte @Nullable [] getBytes() {
        return isVolatile() ? (byte[]) getVolatile(BYTES) : getBytes(BYTES, at(BYTES));
    }

    /// Sets a field.
    public void setBytes(byte @Nullable [] bytes) {
        if (isVolatile()) {
            setVolatile(BYTES, bytes);
        } else {
            setBytes(BYTES, at(BYTES), bytes);
        }
    }

    /// How many bytes there are, without a look at them.
    public int lengthOfBytes() {
        return isVolatile()
                ? Objects.requireNonNull(getBytes()).length
                : pool().arrays().length(this, BYTES);
    }

    /// A field.
    public @Nullable String getText() {
        return isVolatile() ? (String) getVolatile(TEXT) : getString(TEXT, at(TEXT));
    }

    /// Compares a field of a durable tier in place.
    boolean textEquals(@Nullable String text) {
        return equalsString(TEXT, at(TEXT), text);
    }

    /// Compares a field of a durable tier in place.
    boolean bytesEqual(byte @Nullable [] bytes) {
        return equalsBytes(BYTES, at(BYTES), bytes);
    }

    /// Sets a field.
    public void setText(@Nullable String text) {
        if (isVolatile()) {
            setVolatile(TEXT, text);
        } else {
            setString(TEXT, at(TEXT), text);
        }
    }

    /// A field.
    public long getNumber() {
        if (isVolatile()) {
            return getVolatile(NUMBER) instanceof Long number ? number : 0;
        }
        return getLong(NUMBER, at(NUMBER));
    }

    /// Sets a field.
    public void setNumber(long number) {
        if (isVolatile()) {
            setVolatile(NUMBER, number);
        } else {
            setLong(NUMBER, at(NUMBER), number);
        }
    }
}
