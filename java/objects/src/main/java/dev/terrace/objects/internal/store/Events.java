package dev.terrace.objects.internal.store;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/// The events of pools in a recording of the Java Flight Recorder, except opening.
///
/// A single word that is changed, in a transaction or not, has no event: the event would take
/// longer than the change.
final class Events {
    private Events() {}

    /// A transaction has committed.
    @Name("dev.terrace.objects.Commit")
    @Label("Commit")
    @Category("Terrace Objects")
    @Description(
            "A transaction became durable: from the end of its work until its words were in their"
                    + " places")
    @StackTrace(false)
    static final class Commit extends Event {
        @Label("Pool")
        @Nullable String pool;

        @Label("Words")
        @Description("Words that were changed, those that say what is in use included")
        int words;

        @Label("Bytes Logged")
        @DataAmount
        long bytesLogged;
    }

    /// A transaction was rolled back.
    @Name("dev.terrace.objects.Rollback")
    @Label("Rollback")
    @Category("Terrace Objects")
    @Description("A transaction was given up")
    static final class Rollback extends Event {
        @Label("Pool")
        @Nullable String pool;

        @Label("Words")
        @Description("Words that it had changed")
        int words;
    }

    /// A file has grown.
    @Name("dev.terrace.objects.Growth")
    @Label("Growth")
    @Category("Terrace Objects")
    @Description("A pool's file became longer by an extent, which was filled with zeros")
    static final class Growth extends Event {
        @Label("File")
        @Nullable String file;

        @Label("Bytes")
        @Description("Its length now")
        @DataAmount
        long bytes;
    }

    /// The commit of a process that had ended was completed.
    @Name("dev.terrace.objects.Recovery")
    @Label("Recovery")
    @Category("Terrace Objects")
    @Description("A commit was finished that was under way when the last writer ended")
    @StackTrace(false)
    static final class Recovery extends Event {
        @Label("Pool")
        @Nullable String pool;

        @Label("Words")
        int words;
    }

    /// A pool was closed.
    @Name("dev.terrace.objects.PoolClose")
    @Label("Pool Close")
    @Category("Terrace Objects")
    @Description("A pool's files were closed")
    static final class PoolClose extends Event {
        @Label("Pool")
        @Nullable String pool;

        @Label("Commits")
        @Description("Since it was opened, single words included")
        long commits;
    }

    /// A value was read from a disk.
    @Name("dev.terrace.objects.DiskRead")
    @Label("Disk Read")
    @Category("Terrace Objects")
    @Description(
            "A value was read from a disk, or from what the system has cached of it, and its"
                    + " checksum was verified")
    @Enabled(false)
    @StackTrace(false)
    static final class DiskRead extends Event {
        @Label("Disk")
        @Nullable String file;

        @Label("Bytes")
        @DataAmount
        long bytes;

        /// Ends the event.
        void end(Region disk, long length) {
            if (shouldCommit()) {
                file = disk.name();
                bytes = length;
                commit();
            }
        }
    }

    /// An access to a segment of the remote tier.
    @Category("Terrace Objects")
    @StackTrace(false)
    abstract static class OfSegment extends Event {
        @Label("Pool")
        @Nullable String pool;

        @Label("Segment")
        long segment;

        @Label("Bytes")
        @DataAmount
        long bytes;

        /// Ends the event.
        void end(String ofPool, long number, long length) {
            if (shouldCommit()) {
                pool = ofPool;
                segment = number;
                bytes = length;
                commit();
            }
        }
    }

    /// A segment was written to the remote tier, durably.
    @Name("dev.terrace.objects.SegmentWrite")
    @Label("Segment Write")
    @Description("A segment was written to the remote tier, durably")
    static final class SegmentWrite extends OfSegment {}

    /// A value was read from the remote tier.
    @Name("dev.terrace.objects.SegmentRead")
    @Label("Segment Read")
    @Description(
            "A value was read from the remote tier: it was not among those that were read last")
    static final class SegmentRead extends OfSegment {}
}
