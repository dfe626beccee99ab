package dev.terrace.objects.placement;

import dev.terrace.objects.StorageTier;
import java.util.Objects;

/// Something that values can be kept on: j of the paper's section 3.4.
///
/// @param name what answers call it
/// @param tier the tag of fields that lie on it; never [StorageTier#DISK], which is a pool's SSD or
///   HDD
/// @param capacityBytes how much there is room for: S; `Long.MAX_VALUE` if that does not matter
/// @param failureProbability how likely it loses what lies on it, within the time that the profile
///   is of, from 0 to 1: P. For memory of the process that is how likely the process ends and goes
///   on later
/// @param durable whether what lies on it is there after the process has ended
/// @param byteAddressable whether a single element of an array is read for its own bytes; if not,
///   the whole value is
/// @param simulated whether its costs are made up, not measured: answers say so
/// @param note how its costs came about; may be empty
/// @param read what reading a value costs, serialization included
/// @param write what writing a value costs, serialization and its transaction included
public record Device(
        String name,
        StorageTier tier,
        long capacityBytes,
        double failureProbability,
        boolean durable,
        boolean byteAddressable,
        boolean simulated,
        String note,
        CostTable read,
        CostTable write) {

    /// Checks the numbers.
    public Device {
        Objects.requireNonNull(read);
        Objects.requireNonNull(write);
        Objects.requireNonNull(note);
        if (name.isBlank()) {
            throw new IllegalArgumentException("a device has no name: give it one");
        }
        if (tier == StorageTier.DISK) {
            throw new IllegalArgumentException("device " + name + " is a DISK: say SSD or HDD");
        }
        if (capacityBytes < 0) {
            throw new IllegalArgumentException(
                    "device "
                            + name
                            + " has room for "
                            + capacityBytes
                            + " bytes: that is not negative");
        }
        if (!(failureProbability >= 0 && failureProbability <= 1)) {
            throw new IllegalArgumentException(
                    "device "
                            + name
                            + " fails with a probability of "
                            + failureProbability
                            + ": that is from 0 to 1");
        }
    }

    /// A device of a tier, with what is usual there: only memory of the process is not durable,
    /// only that and persistent memory have bytes to address; room for anything, no failures.
    public static Device of(StorageTier tier, CostTable read, CostTable write) {
        boolean isMemory = tier == StorageTier.DRAM || tier == StorageTier.PMEM;
        return new Device(
                tier.name(),
                tier,
                Long.MAX_VALUE,
                0,
                tier != StorageTier.DRAM,
                isMemory,
                false,
                "",
                read,
                write);
    }

    /// The same, with room for so many bytes.
    public Device capacity(long bytes) {
        return new Device(
                name,
                tier,
                bytes,
                failureProbability,
                durable,
                byteAddressable,
                simulated,
                note,
                read,
                write);
    }

    /// The same, which fails so often.
    public Device failure(double probability) {
        return new Device(
                name,
                tier,
                capacityBytes,
                probability,
                durable,
                byteAddressable,
                simulated,
                note,
                read,
                write);
    }

    /// The same, whose costs are made up.
    public Device asSimulated() {
        return new Device(
                name,
                tier,
                capacityBytes,
                failureProbability,
                durable,
                byteAddressable,
                true,
                note,
                read,
                write);
    }

    /// The same, with a word on how its costs came about.
    public Device noted(String words) {
        return new Device(
                name,
                tier,
                capacityBytes,
                failureProbability,
                durable,
                byteAddressable,
                simulated,
                words,
                read,
                write);
    }

    /// Its name, and whether it is simulated.
    public String label() {
        return simulated ? name + " (simulated)" : name;
    }
}
