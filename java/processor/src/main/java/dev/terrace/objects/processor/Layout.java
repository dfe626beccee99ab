package dev.terrace.objects.processor;

import dev.terrace.objects.StorageTier;
import dev.terrace.objects.processor.PlainClass.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/// A tagged class flattened into the fields of a record.
final class Layout {
    /// The greatest number of bytes of an array that shares a buffer with other values.
    private static final int SMALL_ARRAY_BYTES_MAX = 256;

    private final Problems problems;
    private final List<Slot> slots = new ArrayList<>();
    private final Set<String> constants = new HashSet<>(Set.of("TYPE", "COPIER"));

    /// Slots by their name without regard to case, to find those that are hard to tell apart.
    private final Map<String, Slot> byName = new HashMap<>();

    private final Level root;
    private final Set<Slot> grouped;

    /// The fields of one class: of the tagged one, or of one embedded.
    ///
    /// @param javaName "" for the tagged class, `home` or `homeGeo` for one embedded
    /// @param presence the slot that says whether what is embedded is there
    record Level(String javaName, PlainClass of, Optional<Slot> presence, List<Member> members) {
        boolean isRoot() {
            return presence.isEmpty();
        }

        String capitalized() {
            return Names.capitalized(javaName);
        }

        /// This and all that lie in it.
        Stream<Level> all() {
            Stream<Level> inner = members.stream().flatMap(each -> each.inner().stream());
            return Stream.concat(Stream.of(this), inner.flatMap(Level::all));
        }
    }

    /// A field with its slot.
    ///
    /// @param inner what is embedded in it, if anything: then the slot says whether it is there
    record Member(Field field, Slot slot, Optional<Level> inner) {}

    /// Where a class is embedded.
    private record Place(
            String javaName, List<String> schemaNames, List<StorageTier> tiers, List<Slot> within) {
        static final Place ROOT = new Place("", List.of(""), List.of(), List.of());

        Optional<Slot> presence() {
            return within.isEmpty() ? Optional.empty() : Optional.of(within.getLast());
        }
    }

    Layout(PlainClass type, Problems problems) {
        this.problems = problems;
        this.root = level(type, Place.ROOT);
        checkFormerNames();
        grouped = grouped();
        root.members().forEach(this::checkApart);
    }

    List<Slot> slots() {
        return slots;
    }

    Level root() {
        return root;
    }

    /// Whether the value of a slot shares a buffer with those of others.
    boolean isGrouped(Slot slot) {
        return grouped.contains(slot);
    }

    private Set<Slot> grouped() {
        Map<List<StorageTier>, List<Slot>> byTiers =
                root.all()
                        .flatMap(level -> level.members().stream())
                        .filter(member -> !member.field().apart())
                        .map(Member::slot)
                        .filter(Layout::isSmall)
                        .collect(Collectors.groupingBy(Slot::tiers));
        return byTiers.values().stream()
                .filter(slots -> slots.size() > 1)
                .flatMap(List::stream)
                .collect(Collectors.toSet());
    }

    /// Whether a value lies outside of the record, and is small: of one length, or a text of an
    /// embedded object. Setting one value of a group stores all of them.
    private static boolean isSmall(Slot slot) {
        boolean isOutside = !slot.isVolatile() && !slot.tiers().equals(List.of(StorageTier.PMEM));
        return isOutside
                && switch (slot.shape()) {
                    case Shape.Primitive _, Shape.Boxed _, Shape.Enumeration _ -> true;
                    case Shape.Converted shape -> shape.isOfOneLength();
                    case Shape.Text _ -> !slot.within().isEmpty();
                    case Shape.PrimitiveArray(var kind, var _, int length) ->
                            length > 0 && (long) length * kind.width() <= SMALL_ARRAY_BYTES_MAX;
                    default -> false;
                };
    }

    /// A class may be embedded where its tags matter and where they do not, so only those of the
    /// tagged class itself are checked.
    private void checkApart(Member member) {
        if (member.field().apart() && !isSmall(member.slot())) {
            problems.at(
                    member.slot().element(),
                    "@Apart has no effect: %s is not small, or has no buffer, so it shares none:"
                            + " remove the tag",
                    member.slot().schemaName());
        }
    }

    private Level level(PlainClass type, Place place) {
        List<Member> members = new ArrayList<>();
        for (Field field : type.fields()) {
            Slot slot = slot(field, place);
            members.add(
                    new Member(
                            field,
                            slot,
                            field.shape() instanceof Shape.Embedding(var inner)
                                    ? Optional.of(level(inner, inside(field, slot, place)))
                                    : Optional.empty()));
        }
        return new Level(place.javaName(), type, place.presence(), members);
    }

    private static Place inside(Field field, Slot slot, Place place) {
        List<String> names =
                Stream.concat(Stream.of(slot.schemaName()), slot.formerly().stream())
                        .map(each -> each + ".")
                        .toList();
        List<StorageTier> tiers = field.tiers().isEmpty() ? place.tiers() : field.tiers();
        List<Slot> within = Stream.concat(place.within().stream(), Stream.of(slot)).toList();
        return new Place(slot.javaName(), names, tiers, within);
    }

    private Slot slot(Field field, Place place) {
        String javaName =
                place.within().isEmpty()
                        ? field.name()
                        : place.javaName() + Names.capitalized(field.name());
        // All that it was called before, by all that what it lies in was called; the first is its
        // present name.
        List<String> names =
                place.schemaNames().stream()
                        .flatMap(outer ->
                                Stream.concat(Stream.of(field.name()), field.formerly().stream())
                                        .map(outer::concat))
                        .toList();
        Slot slot =
                new Slot(
                        slots.size(),
                        names.getFirst(),
                        javaName,
                        constant(javaName),
                        field.element(),
                        field.shape(),
                        field.publicType(),
                        tiers(field, place),
                        names.subList(1, names.size()),
                        place.within());
        slots.add(slot);
        Slot other = byName.putIfAbsent(slot.schemaName().toLowerCase(Locale.ROOT), slot);
        if (other != null) {
            problems.at(
                    slot.element(),
                    other.schemaName().equals(slot.schemaName())
                            ? "%s is also a field of a superclass: rename one of the two"
                            : "%s and %s differ only in upper and lower case: rename one of the"
                                    + " two",
                    slot.schemaName(),
                    other.schemaName());
        }
        return slot;
    }

    /// A name for the constants of a slot that no others have: nobody sees it, so an underscore
    /// does it.
    private String constant(String javaName) {
        String name = Names.constant(javaName);
        while (constants.contains(name) || constants.contains(name + "_AT")) {
            name += "_";
        }
        constants.add(name);
        constants.add(name + "_AT");
        return name;
    }

    private static List<StorageTier> tiers(Field field, Place place) {
        if (field.shape() instanceof Shape.Embedding) {
            // Whether an object is there is a byte of the record, wherever its fields are.
            return List.of(StorageTier.PMEM);
        }
        if (!field.tiers().isEmpty()) {
            return field.tiers();
        }
        return place.tiers().isEmpty() ? List.of(StorageTier.PMEM) : place.tiers();
    }

    private void checkFormerNames() {
        Map<String, Slot> owners = new HashMap<>();
        slots.forEach(each -> owners.put(each.schemaName(), each));
        for (Slot slot : slots) {
            for (String name : slot.formerly()) {
                Slot other = owners.putIfAbsent(name, slot);
                if (other != null) {
                    problems.at(
                            slot.element(),
                            "%s was formerly %s, but that is %s: a stored field can become one"
                                    + " field only",
                            slot.schemaName(),
                            name,
                            other.schemaName().equals(name)
                                    ? "the name of another field now"
                                    : "claimed by " + other.schemaName() + " too");
                }
            }
        }
    }
}
