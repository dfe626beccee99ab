package dev.terrace.objects.placement;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredSize;
import dev.terrace.objects.ValueType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/// Makes a problem of a profile: F and B are what it counted, C is the devices' tables at the mean
/// size of accesses, R what it measured.
final class ProblemBuilder {
    private final Profile profile;
    private final List<Device> devices;
    private final PlacementOptions options;
    private final int pmem;

    ProblemBuilder(Profile profile, List<Device> devices, PlacementOptions options) {
        this.profile = profile;
        this.devices = devices;
        this.options = options;
        pmem = devices.stream().map(Device::tier).toList().indexOf(StorageTier.PMEM);
        if (pmem < 0) {
            throw new IllegalArgumentException(
                    "none of the devices is PMEM, where the records of all objects lie: add it");
        }
    }

    PlacementProblem build() {
        List<PlacementField> fields = new ArrayList<>();
        long[] reserved = new long[devices.size()];
        for (ClassProfile type : profile.classes()) {
            reserved[pmem] =
                    PlacementProblem.plus(reserved[pmem], times(type.objects(), overhead(type)));
            for (FieldProfile field : type.fields()) {
                fields.add(field(type, field));
            }
        }
        Set<FieldName> known = new HashSet<>(fields.stream().map(PlacementField::name).toList());
        options.rules().keySet().stream()
                .sorted(Comparator.naturalOrder())
                .filter(name -> !known.contains(name))
                .findFirst()
                .ifPresent(name -> {
                    throw new IllegalArgumentException(
                            "a rule is of "
                                    + name
                                    + ", which the profile has not: it has "
                                    + known.stream().sorted().toList());
                });
        return new PlacementProblem(devices, Arrays.stream(reserved).boxed().toList(), fields);
    }

    /// Bytes of a record that are none of its fields': its header, the bits of boxed values, and
    /// what it is rounded up by as it is tagged now. Each field outside of the record counts with a
    /// slot of its own, since only the answer tells which of them share one.
    private static long overhead(ClassProfile type) {
        List<FieldSpec> specs =
                type.fields().stream()
                        .map(FieldProfile::field)
                        .map(spec -> spec.on(spec.tiers().toArray(StorageTier[]::new)))
                        .toList();
        return StoredSize.record(specs) - specs.stream().mapToLong(StoredSize::inRecord).sum();
    }

    private PlacementField field(ClassProfile type, FieldProfile field) {
        FieldName name = new FieldName(type.name(), field.field().name());
        FieldFootprint footprint = FieldFootprint.of(field);
        String why = whyUntagged(type, field.field());
        List<Choice> choices = new ArrayList<>();
        int stays = present(field.field());
        for (Device device : devices) {
            boolean isPossible = why.isEmpty() || devices.indexOf(device) == stays;
            String refusal = isPossible ? refusal(name, field, device) : why;
            choices.add(choice(type, field, footprint, device, options.rule(name), refusal));
        }
        return new PlacementField(name, why.isEmpty(), choices);
    }

    /// The device of a field that cannot be placed; -1 if its tags name none.
    private int present(FieldSpec spec) {
        boolean isInRecord = spec.kind() == FieldKind.REFERENCE && !spec.isVolatile();
        return isInRecord ? pmem : PlacementProblem.deviceOf(devices, spec.tiers());
    }

    /// Why no tag of a field can say where it lies; empty if one can.
    private String whyUntagged(ClassProfile type, FieldSpec spec) {
        if (options.keepsGroups() && spec.grouped()) {
            return "it shares a buffer with other fields, so it stays on "
                    + spec.tiers()
                    + " until its tags change";
        }
        if (spec.isVolatile() && spec.kind() == FieldKind.REFERENCE) {
            return "an object that is kept in memory cannot be stored";
        }
        if (spec.kind() == FieldKind.REFERENCE && !spec.isCollection()) {
            return "a reference lies in the record";
        }
        if (spec.isCollection() && spec.target().contains("Set<")) {
            return "the elements of a set lie in persistent memory";
        }
        if (spec.isCollection() && !holdsBuffers(spec.target())) {
            return "a collection of numbers, days or objects lies in persistent memory";
        }
        boolean isMark =
                type.fields().stream()
                        .anyMatch(field -> field.field().name().startsWith(spec.name() + "."));
        return isMark ? "whether an embedded object is there is said in the record" : "";
    }

    /// Whether the elements or values of a collection of this type may lie outside of its nodes.
    private static boolean holdsBuffers(String collection) {
        Stream<String> values =
                ValueType.all().stream()
                        .filter(type -> type.kind() != FieldKind.LONG)
                        .map(ValueType::name);
        return Stream.concat(Stream.of("java.lang.String", "byte[]"), values)
                .anyMatch(name -> collection.endsWith(name + ">"));
    }

    private String refusal(FieldName name, FieldProfile field, Device device) {
        FieldRule rule = options.rule(name);
        if (!rule.allowed().contains(device.tier())) {
            return "a rule keeps it off " + device.tier();
        }
        if (rule.durable() && !device.durable()) {
            return "a rule says that it must be durable";
        }
        if (device.tier() == StorageTier.DRAM && field.field().isCollection()) {
            return "a durable collection cannot be kept in memory";
        }
        if (device.tier() == StorageTier.DRAM && field.field().fixedLength() > 0) {
            return "an array of a fixed length lies in the record";
        }
        boolean mayBeLost =
                rule.mayBeLost()
                        || field.field().isVolatile()
                        || field.recomputations() > 0
                        || rule.recomputeNanos().containsKey(device.tier());
        return options.model() == CostModel.EXPECTED && !device.durable() && !mayBeLost
                ? "nothing computes it again when it is lost"
                : "";
    }

    private Choice choice(
            ClassProfile type,
            FieldProfile field,
            FieldFootprint footprint,
            Device device,
            FieldRule rule,
            String refusal) {
        double measured =
                field.recomputations() == 0
                        ? 0
                        : (double) field.recomputeNanos() / field.recomputations();
        double recompute = rule.recomputeNanos().getOrDefault(device.tier(), measured);
        double failure =
                options.model()
                        .failureNanos(
                                field.accesses(),
                                type.objects(),
                                recompute,
                                device.failureProbability());
        Long[] bytes = new Long[devices.size()];
        Arrays.fill(bytes, 0L);
        bytes[devices.indexOf(device)] = times(type.objects(), footprint.bytesOn(device.tier()));
        bytes[pmem] =
                PlacementProblem.plus(
                        bytes[pmem], times(type.objects(), footprint.pmemBytes(device.tier())));
        return new Choice(accessNanos(field, footprint, device), failure, List.of(bytes), refusal);
    }

    /// F · C. A value on a device that is not byte-addressable is read and written as a whole for
    /// each of its elements. A value that is short enough for its slot is read from persistent
    /// memory, for any tag.
    private double accessNanos(FieldProfile field, FieldFootprint footprint, Device device) {
        double whole = footprint.valueBytes();
        double readBytes = field.reads() == 0 ? whole : (double) field.bytesRead() / field.reads();
        double writtenBytes =
                field.writes() == 0 ? whole : (double) field.bytesWritten() / field.writes();
        double elementRead = device.byteAddressable() ? footprint.elementBytes() : whole;
        boolean writesElements =
                device.tier() == StorageTier.DRAM
                        || device.tier() == StorageTier.PMEM && footprint.isInlineOnPmem();
        double elementWritten = writesElements ? footprint.elementBytes() : whole;
        return cost(field.reads(), accessed(footprint, device, readBytes).read(), readBytes)
                + cost(field.elementReads(), accessed(footprint, device, whole).read(), elementRead)
                + cost(
                        field.writes(),
                        accessed(footprint, device, writtenBytes).write(),
                        writtenBytes)
                + cost(
                        field.elementWrites(),
                        accessed(footprint, device, whole).write(),
                        elementWritten);
    }

    private Device accessed(FieldFootprint footprint, Device device, double bytes) {
        boolean isElsewhere =
                device.tier() == StorageTier.DRAM || footprint.isOutside(device.tier(), bytes);
        return isElsewhere ? device : devices.get(pmem);
    }

    private static double cost(long accesses, CostTable table, double bytes) {
        return accesses == 0 ? 0 : accesses * table.nanos(bytes);
    }

    private static long times(long objects, long bytes) {
        return Math.multiplyHigh(objects, bytes) != 0 || objects * bytes < 0
                ? Long.MAX_VALUE
                : objects * bytes;
    }
}
