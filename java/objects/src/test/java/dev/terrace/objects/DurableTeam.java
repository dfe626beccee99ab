package dev.terrace.objects;

import dev.terrace.objects.collections.CollectionOwner;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// What the annotation processor makes of a class with a field of each kind of collection.
final class DurableTeam extends CollectionOwner {
    static final ObjectType<DurableTeam> TYPE =
            ObjectType.of(
                    "dev.terrace.objects.Team",
                    DurableTeam.class,
                    DurableTeam::new,
                    List.of(),
                    FieldSpec.of("names", FieldKind.REFERENCE)
                            .to("java.util.List<java.lang.String>")
                            .orNull(),
                    FieldSpec.of("scores", FieldKind.REFERENCE)
                            .to("java.util.Map<java.lang.String, java.lang.Long>")
                            .orNull(),
                    FieldSpec.of("years", FieldKind.REFERENCE)
                            .to("java.util.SortedMap<java.lang.Integer, java.lang.String>")
                            .on(StorageTier.DISK)
                            .orNull());

    static DurableTeam create(Pool pool) {
        return pool.create(TYPE);
    }

    @Nullable DurableList<String> getNames() {
        return getList(0, TYPE.offset(0), ElementType.STRING);
    }

    void setNames(@Nullable Collection<String> names) {
        setList(0, TYPE.offset(0), ElementType.STRING, names);
    }

    @Nullable DurableMap<String, Long> getScores() {
        return getMap(1, TYPE.offset(1), ElementType.STRING, ElementType.LONG);
    }

    void setScores(@Nullable Map<String, Long> scores) {
        setMap(1, TYPE.offset(1), ElementType.STRING, ElementType.LONG, scores);
    }

    @Nullable DurableTree<Integer, String> getYears() {
        return getTree(2, TYPE.offset(2), ElementType.INTEGER, ElementType.STRING);
    }

    void setYears(@Nullable SortedMap<Integer, String> years) {
        setTree(2, TYPE.offset(2), ElementType.INTEGER, ElementType.STRING, years);
    }

    /// All that it holds, to compare.
    String contents() {
        Map<String, Long> scores = getScores();
        Map<String, Long> sorted = new TreeMap<>();
        if (scores != null) {
            scores.forEach((key, value) -> sorted.put(String.valueOf(key), value));
        }
        return getNames() + " " + (scores == null ? null : sorted) + " " + getYears();
    }
}
