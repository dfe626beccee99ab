package dev.terrace.objects.placement;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// The integer program of the paper's section 3.4: each field lies on exactly one device, no device
/// takes more than it has room for, and all costs together are to be the least. Fields of all
/// classes that share devices belong to one problem.
///
/// An *assignment* has for each field the number of a device, in the problem's order of both.
///
/// @param devices that fields may lie on; one of a tier
/// @param reservedBytes what is taken of each device whatever is chosen, as for the headers of
///   records
/// @param fields whose places are to be found
public record PlacementProblem(
        List<Device> devices, List<Long> reservedBytes, List<PlacementField> fields) {
    /// Checks that all belong together.
    public PlacementProblem {
        devices = List.copyOf(devices);
        reservedBytes = List.copyOf(reservedBytes);
        fields = List.copyOf(fields);
        if (devices.isEmpty()) {
            throw new IllegalArgumentException("there are no devices: name at least one");
        }
        Set<Object> seen = new HashSet<>();
        for (Device device : devices) {
            if (!seen.add(device.name()) || !seen.add(device.tier())) {
                throw new IllegalArgumentException(
                        "two devices are called "
                                + device.name()
                                + " or are "
                                + device.tier()
                                + ": tags cannot tell them apart. Give one, with the room of both");
            }
        }
        int count = devices.size();
        if (reservedBytes.size() != count) {
            throw new IllegalArgumentException(
                    reservedBytes.size() + " reservations for " + count + " devices");
        }
        for (PlacementField field : fields) {
            boolean fits =
                    field.choices().size() == count
                            && field.choices().stream()
                                    .allMatch(choice -> choice.bytes().size() == count);
            if (!fits || !seen.add(field.name())) {
                throw new IllegalArgumentException(
                        "field "
                                + field.name()
                                + " is there twice, or has not one choice for each of "
                                + count
                                + " devices");
            }
        }
    }

    /// The problem of a program that did what a profile says, on these devices.
    ///
    /// @throws IllegalArgumentException if none of the devices is persistent memory, where all
    ///   records lie, or a rule is of a field that the profile has not
    public static PlacementProblem of(
            Profile profile, List<Device> devices, PlacementOptions options) {
        return new ProblemBuilder(profile, devices, options).build();
    }

    /// Where the fields lie by the tags that they had when the profile was taken: each on the first
    /// of its tiers that is one of the devices.
    ///
    /// @return null if a field's tags name none of them
    public int @Nullable [] tagged(Profile profile) {
        int[] assignment = new int[fields.size()];
        int next = 0;
        for (ClassProfile type : profile.classes()) {
            for (FieldProfile field : type.fields()) {
                int device =
                        field.field().kind() == FieldKind.REFERENCE
                                        && !field.field().isCollection()
                                        && !field.field().isVolatile()
                                ? deviceOf(devices, List.of(StorageTier.PMEM))
                                : deviceOf(devices, field.field().tiers());
                if (device < 0) {
                    return null;
                }
                assignment[next++] = device;
            }
        }
        return assignment;
    }

    /// The number of the first device that tags name, of `DISK` the SSD if there is one; -1 if they
    /// name none.
    static int deviceOf(List<Device> devices, List<StorageTier> tags) {
        List<StorageTier> tiers = devices.stream().map(Device::tier).toList();
        StorageTier disk = tiers.contains(StorageTier.SSD) ? StorageTier.SSD : StorageTier.HDD;
        return tags.stream()
                .mapToInt(tag -> tiers.indexOf(tag == StorageTier.DISK ? disk : tag))
                .filter(device -> device >= 0)
                .findFirst()
                .orElse(-1);
    }

    /// The total cost of an assignment, in nanoseconds.
    public double cost(int[] assignment) {
        double sum = 0;
        for (int i = 0; i < assignment.length; i++) {
            sum += choice(i, assignment[i]).nanos();
        }
        return sum;
    }

    /// The bytes of an assignment on each device; `Long.MAX_VALUE` if a long cannot hold the
    /// number.
    public long[] bytes(int[] assignment) {
        long[] sums = reservedBytes.stream().mapToLong(Long::longValue).toArray();
        for (int i = 0; i < assignment.length; i++) {
            List<Long> bytes = choice(i, assignment[i]).bytes();
            for (int device = 0; device < sums.length; device++) {
                sums[device] = plus(sums[device], bytes.get(device));
            }
        }
        return sums;
    }

    /// By how many bytes an assignment takes more of each device than it has; 0 where it fits.
    public long[] overflow(int[] assignment) {
        long[] over = bytes(assignment);
        Arrays.setAll(
                over, device -> Math.max(0, over[device] - devices.get(device).capacityBytes()));
        return over;
    }

    /// Whether an assignment has each field where it may be, and no device takes more than it has
    /// room for.
    public boolean isFeasible(int[] assignment) {
        for (int i = 0; i < assignment.length; i++) {
            if (!choice(i, assignment[i]).isAllowed()) {
                return false;
            }
        }
        return Arrays.stream(overflow(assignment)).allMatch(over -> over == 0);
    }

    /// The choice of a device for a field.
    Choice choice(int field, int device) {
        return fields.get(field).choices().get(device);
    }

    /// The numbers of the devices that a field may lie on.
    List<Integer> allowed(int field) {
        List<Integer> allowed = new ArrayList<>();
        for (int device = 0; device < devices.size(); device++) {
            if (choice(field, device).isAllowed()) {
                allowed.add(device);
            }
        }
        return allowed;
    }

    /// A sum of numbers that are not negative, `Long.MAX_VALUE` if it is more than that.
    static long plus(long left, long right) {
        long sum = left + right;
        return sum < 0 ? Long.MAX_VALUE : sum;
    }
}
