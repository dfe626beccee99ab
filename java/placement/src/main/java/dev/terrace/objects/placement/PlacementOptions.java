package dev.terrace.objects.placement;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/// How costs are counted, and what is said of fields.
///
/// @param model what failures cost
/// @param rules of fields of which something is said
/// @param keepsGroups whether fields that share a buffer stay where their tags say
public record PlacementOptions(
        CostModel model, Map<FieldName, FieldRule> rules, boolean keepsGroups) {
    private static final PlacementOptions DEFAULTS =
            new PlacementOptions(CostModel.EXPECTED, Map.of(), false);

    /// Copies the rules.
    public PlacementOptions {
        rules = Map.copyOf(rules);
    }

    /// Failures are charged once for each object; nothing is said of any field.
    public static PlacementOptions defaults() {
        return DEFAULTS;
    }

    /// The same, with costs counted so.
    public PlacementOptions model(CostModel newModel) {
        return new PlacementOptions(newModel, rules, keepsGroups);
    }

    /// The same, with a field that must lie on a durable device.
    public PlacementOptions durable(FieldName field) {
        return with(
                field,
                rule ->
                        new FieldRule(
                                true, rule.allowed(), rule.mayBeLost(), rule.recomputeNanos()));
    }

    /// The same, with a field that never lies on these tiers.
    public PlacementOptions never(FieldName field, StorageTier... tiers) {
        return allow(field, EnumSet.complementOf(withDisks(tiers)));
    }

    /// The same, with a field that lies on one of these tiers. With a single one, its place is
    /// fixed.
    public PlacementOptions only(FieldName field, StorageTier... tiers) {
        return allow(field, withDisks(tiers));
    }

    private PlacementOptions allow(FieldName field, Set<StorageTier> tiers) {
        return with(
                field,
                rule -> {
                    Set<StorageTier> both = EnumSet.noneOf(StorageTier.class);
                    both.addAll(tiers);
                    both.retainAll(rule.allowed());
                    return new FieldRule(
                            rule.durable(), both, rule.mayBeLost(), rule.recomputeNanos());
                });
    }

    /// The same, with a field that may lie in memory though nothing computes it again when the
    /// process has ended.
    public PlacementOptions mayBeLost(FieldName field) {
        return with(
                field,
                rule -> new FieldRule(rule.durable(), rule.allowed(), true, rule.recomputeNanos()));
    }

    /// The same, for a pool that is there: what lies within its records stays there, and what lives
    /// in memory only as well, as only other tags can change that, and only for new objects. Fields
    /// that share a buffer stay on their tiers: one alone cannot move.
    public PlacementOptions live(Profile profile) {
        PlacementOptions live = new PlacementOptions(model, rules, true);
        for (ClassProfile type : profile.classes()) {
            for (FieldProfile field : type.fields()) {
                FieldName name = new FieldName(type.name(), field.field().name());
                if (field.field().isVolatile()) {
                    live = live.only(name, StorageTier.DRAM);
                } else if (field.field().isInline() && !field.field().isCollection()) {
                    live = live.only(name, StorageTier.PMEM);
                } else {
                    live = live.never(name, StorageTier.DRAM);
                }
            }
        }
        return live;
    }

    /// The same, with a field of which a value that was lost with a device of this tier takes so
    /// long to have again.
    public PlacementOptions recompute(FieldName field, StorageTier tier, double nanos) {
        return with(
                field,
                rule -> {
                    Map<StorageTier, Double> more = new EnumMap<>(StorageTier.class);
                    more.putAll(rule.recomputeNanos());
                    withDisks(tier).forEach(each -> more.put(each, nanos));
                    return new FieldRule(rule.durable(), rule.allowed(), rule.mayBeLost(), more);
                });
    }

    FieldRule rule(FieldName field) {
        return rules.getOrDefault(field, FieldRule.NONE);
    }

    /// `DISK` is said of SSDs and HDDs.
    private static EnumSet<StorageTier> withDisks(StorageTier... tiers) {
        EnumSet<StorageTier> all = EnumSet.noneOf(StorageTier.class);
        all.addAll(List.of(tiers));
        if (all.contains(StorageTier.DISK)) {
            all.add(StorageTier.SSD);
            all.add(StorageTier.HDD);
        }
        return all;
    }

    private PlacementOptions with(FieldName field, UnaryOperator<FieldRule> change) {
        Map<FieldName, FieldRule> changed = new HashMap<>(rules);
        changed.put(field, change.apply(rule(field)));
        return new PlacementOptions(model, changed, keepsGroups);
    }
}
