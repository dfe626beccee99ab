package dev.terrace.objects.processor;

import dev.terrace.objects.Apart;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Formerly;
import dev.terrace.objects.Recompute;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import javax.lang.model.element.Element;
import org.jspecify.annotations.Nullable;

/// Reads a field's tags, and reports those that contradict one another.
final class TagReader {
    private final Problems problems;

    /// A field's tags.
    ///
    /// @param tiers empty if there is no tag
    /// @param fixedLength null if there is no tag
    /// @param recompute null if there is no tag
    record Tags(
            List<StorageTier> tiers,
            @Nullable Integer fixedLength,
            boolean embedded,
            boolean apart,
            List<String> formerly,
            @Nullable String recompute) {

        boolean inDram() {
            return !tiers.isEmpty() && tiers.getFirst() == StorageTier.DRAM;
        }
    }

    TagReader(Problems problems) {
        this.problems = problems;
    }

    /// The tags of a field, or null if they contradict one another.
    @Nullable Tags read(Element field) {
        int before = problems.count();
        List<StorageTier> tiers = tiers(field);
        FixedLength fixedLength = field.getAnnotation(FixedLength.class);
        Formerly formerly = field.getAnnotation(Formerly.class);
        Recompute recompute = field.getAnnotation(Recompute.class);
        Tags tags =
                new Tags(
                        tiers,
                        fixedLength == null ? null : fixedLength.value(),
                        field.getAnnotation(Embedded.class) != null,
                        field.getAnnotation(Apart.class) != null,
                        formerly == null ? List.of() : List.of(formerly.value()),
                        recompute == null ? null : recompute.value());
        if (tags.recompute() != null && !tags.inDram()) {
            problems.at(
                    field,
                    "@Recompute is for fields that are lost when the pool is closed: tag %s with "
                            + "@Tier(DRAM), or remove @Recompute",
                    field);
        }
        if (tags.inDram() && tags.fixedLength() != null) {
            problems.at(
                    field,
                    "@FixedLength says how an array is stored, and a field in DRAM is not: remove"
                            + " one of the two tags");
        }
        if (tags.inDram() && tags.embedded()) {
            problems.at(
                    field,
                    "@Embedded says how an object is stored, and a field in DRAM is not: remove one"
                            + " of the two tags");
        }
        for (String name : tags.formerly()) {
            if (name.contentEquals(field.getSimpleName()) || name.isBlank()) {
                problems.at(
                        field,
                        "@Formerly names what the field was called before, not \"%s\"",
                        name);
            }
        }
        return problems.count() == before ? tags : null;
    }

    private List<StorageTier> tiers(Element field) {
        Tier tier = field.getAnnotation(Tier.class);
        if (tier == null) {
            return List.of();
        }
        List<StorageTier> tiers = List.of(tier.value());
        if (tiers.isEmpty()) {
            problems.at(
                    field, "@Tier names no tier: give at least one, or remove the tag for PMEM");
        }
        Set<StorageTier> seen = EnumSet.noneOf(StorageTier.class);
        for (StorageTier each : tiers) {
            if (!seen.add(each)) {
                problems.at(field, "@Tier names %s twice", each);
            }
        }
        if (seen.contains(StorageTier.DISK)
                && (seen.contains(StorageTier.SSD) || seen.contains(StorageTier.HDD))) {
            problems.at(
                    field,
                    "DISK is the pool's SSD, or its HDD if it has no SSD, so that @Tier names a"
                        + " disk twice: use DISK alone, or SSD and HDD in the order that you want");
        }
        if (tiers.size() > 1 && seen.contains(StorageTier.DRAM)) {
            problems.at(
                    field,
                    "what is in DRAM is lost when the pool is closed, so that DRAM cannot be one of"
                            + " several tiers: use @Tier(DRAM) alone, or remove it");
        }
        return tiers;
    }
}
