package dev.terrace.objects.arrow;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.RecordComponent;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;

/// Samples with values by chance, and what Arrow must say of them.
final class Samples {
    private static final List<String> TEXTS =
            List.of(
                    "",
                    "a",
                    "Gr\u00fc\u00dfe",
                    "\u65e5\u672c",
                    "\ud83d\ude80 up",
                    "x\u0000y",
                    "q".repeat(3000));
    private static final Instant NANOS_MIN = Instant.ofEpochSecond(0, Long.MIN_VALUE);
    private static final Instant NANOS_MAX = Instant.ofEpochSecond(0, Long.MAX_VALUE);

    private final Random random;

    Samples(Random random) {
        this.random = random;
    }

    /// Fills all fields but references and collections.
    <S extends Sample> S fill(S sample) throws ReflectiveOperationException {
        for (Field field : Sample.class.getDeclaredFields()) {
            if (field.getType() == Sample.class || field.getType() == List.class) {
                continue;
            }
            Object old = field.get(sample);
            boolean isFixed = old != null && field.getType().isArray();
            if (field.getType().isPrimitive() || isFixed || random.nextInt(4) > 0) {
                field.set(
                        sample,
                        isFixed
                                ? array(field.getType().componentType(), Array.getLength(old))
                                : value(field.getType()));
            }
        }
        return sample;
    }

    private Object value(Class<?> type) throws ReflectiveOperationException {
        if (type.isArray()) {
            return array(type.componentType(), random.nextInt(20) == 0 ? 5000 : random.nextInt(9));
        }
        if (type.isEnum()) {
            return any(type.getEnumConstants());
        }
        if (type.isRecord()) {
            RecordComponent[] parts = type.getRecordComponents();
            Object[] values = new Object[parts.length];
            Class<?>[] types = new Class<?>[parts.length];
            for (int i = 0; i < parts.length; i++) {
                types[i] = parts[i].getType();
                boolean isSet = types[i].isPrimitive() || random.nextInt(3) > 0;
                values[i] = isSet ? value(types[i]) : null;
            }
            return type.getDeclaredConstructor(types).newInstance(values);
        }
        return scalar(type);
    }

    private Object array(Class<?> type, int length) {
        Object array = Array.newInstance(type, length);
        for (int i = 0; i < length; i++) {
            Array.set(array, i, scalar(type));
        }
        return array;
    }

    @SafeVarargs
    private <T> T any(T... some) {
        return some[random.nextInt(some.length)];
    }

    private Object scalar(Class<?> type) {
        long bits = random.nextLong() >> random.nextInt(64);
        return switch (type.getSimpleName()) {
            case "boolean", "Boolean" -> random.nextBoolean();
            case "byte", "Byte" -> any(Byte.MIN_VALUE, Byte.MAX_VALUE, (byte) bits);
            case "short", "Short" -> any(Short.MIN_VALUE, Short.MAX_VALUE, (short) bits);
            case "char", "Character" -> any('\0', '\uffff', '\ud800', (char) bits);
            case "int", "Integer" -> any(Integer.MIN_VALUE, Integer.MAX_VALUE, (int) bits);
            case "long", "Long" -> any(Long.MIN_VALUE, Long.MAX_VALUE, bits);
            case "float", "Float" -> any(Float.NaN, -0f, Float.MIN_VALUE, random.nextFloat());
            case "double", "Double" ->
                    any(Double.NaN, -0.0, Double.POSITIVE_INFINITY, random.nextDouble());
            case "String" -> any(TEXTS.toArray(String[]::new));
            case "UUID" -> new UUID(random.nextLong(), bits);
            case "Instant" ->
                    any(NANOS_MIN, NANOS_MAX, Instant.EPOCH, Instant.ofEpochSecond(0, bits));
            case "LocalDate" ->
                    any(
                            LocalDate.ofEpochDay(Integer.MIN_VALUE),
                            LocalDate.ofEpochDay(Integer.MAX_VALUE),
                            LocalDate.ofEpochDay((int) bits));
            case "LocalTime" ->
                    any(
                            LocalTime.MIN,
                            LocalTime.MAX,
                            LocalTime.ofNanoOfDay(Math.abs(bits % 86_400)));
            case "LocalDateTime" ->
                    LocalDateTime.ofInstant((Instant) scalar(Instant.class), ZoneOffset.UTC);
            case "Duration" ->
                    any(Duration.ofNanos(Long.MIN_VALUE), Duration.ZERO, Duration.ofNanos(bits));
            case "BigInteger" ->
                    any(BigInteger.valueOf(bits), BigInteger.TEN.pow(100), BigInteger.ZERO);
            case "BigDecimal" ->
                    any(
                            BigDecimal.valueOf(bits, random.nextInt(9)),
                            new BigDecimal("1E+400"),
                            new BigDecimal("0.00"));
            default -> throw new AssertionError(type);
        };
    }

    /// What Arrow's own reader must say of a sample, by the names of its columns.
    static Map<String, Object> expected(Sample sample) throws ReflectiveOperationException {
        Map<String, Object> row = new LinkedHashMap<>();
        for (Field field : Sample.class.getDeclaredFields()) {
            if (field.getType() != Sample.class
                    && field.getType() != List.class
                    && !field.getName().equals("visits")) {
                row.put(field.getName(), expected(field.get(sample)));
            }
        }
        return row;
    }

    private static Object expected(Object value) throws ReflectiveOperationException {
        if (value == null) {
            return null;
        }
        if (value instanceof byte[] bytes) {
            return "bytes " + Arrays.toString(bytes);
        }
        if (value.getClass().isArray()) {
            List<Object> elements = new ArrayList<>();
            for (int i = 0; i < Array.getLength(value); i++) {
                elements.add(Array.get(value, i));
            }
            return elements;
        }
        if (value.getClass().isRecord()) {
            Map<String, Object> parts = new LinkedHashMap<>();
            for (RecordComponent part : value.getClass().getRecordComponents()) {
                part.getAccessor().setAccessible(true);
                parts.put(part.getName(), expected(part.getAccessor().invoke(value)));
            }
            return parts;
        }
        return switch (value) {
            case Sample.Color color -> color.name();
            case BigInteger number -> number.toString();
            case BigDecimal number -> number.toString();
            case LocalDate day -> (int) day.toEpochDay();
            case LocalTime time -> time.toNanoOfDay();
            case Instant time ->
                    BigInteger.valueOf(time.getEpochSecond())
                            .multiply(BigInteger.valueOf(1_000_000_000))
                            .add(BigInteger.valueOf(time.getNano()))
                            .longValueExact();
            default -> value;
        };
    }
}
