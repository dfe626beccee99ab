package dev.terrace.objects;

import dev.terrace.objects.GoldenPool.Grouped;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Every state that a power cut may leave of fields that share slots is one between two commits.
class GroupCrashTest {
    /// The class before its fields shared slots.
    private static final ObjectType<AnyHandle> APART =
            ObjectType.of(
                    Grouped.TYPE.name(),
                    AnyHandle.class,
                    AnyHandle::new,
                    List.of(),
                    Grouped.specs(field -> field));

    /// Something that programs do.
    record Step(String name, Consumer<Pool> prepare, Consumer<AnyHandle> work) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static <D extends AnyHandle> void make(Pool pool, ObjectType<D> type) {
        pool.transact(() -> {
            D thing = pool.create(type);
            thing.fill(1);
            pool.root("thing", type).set(thing);
        });
    }

    private static Step change(String name, Consumer<AnyHandle> work) {
        return new Step(name, pool -> make(pool, Grouped.TYPE), work);
    }

    static Stream<Step> steps() {
        return Stream.of(
                change("set one field", thing -> thing.set(0, false)),
                change("set a text", thing -> thing.set(text(thing), "a longer text".repeat(20))),
                change("set all together", thing -> thing.setTogether(() -> thing.fill(2))),
                change("set all, one after the other", thing -> thing.fill(2)),
                new Step(
                        "set a field of an object whose fields lie apart",
                        pool -> make(pool, APART),
                        thing -> thing.setTogether(() -> thing.fill(2))),
                change("delete", GroupCrashTest::delete));
    }

    private static void delete(AnyHandle thing) {
        Pool pool = thing.pool();
        pool.transact(() -> {
            pool.root("thing", Grouped.TYPE).set(null);
            thing.delete();
        });
    }

    private static int text(AnyHandle thing) {
        return thing.mapping().type.fields().stream()
                .map(FieldSpec::name)
                .toList()
                .indexOf("string");
    }

    private static @Nullable String look(Pool pool) {
        AnyHandle thing = pool.root("thing", Grouped.TYPE).get();
        return thing == null ? null : thing.all().toString();
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history =
                    CrashHistory.of(
                            rig,
                            pool ->
                                    step.work()
                                            .accept(
                                                    Objects.requireNonNull(
                                                            pool.root("thing", Grouped.TYPE)
                                                                    .get())),
                            GroupCrashTest::look);
            history.checkEachCrash(rig, GroupCrashTest::look);
        }
    }
}
