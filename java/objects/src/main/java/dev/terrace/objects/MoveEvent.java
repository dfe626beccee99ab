package dev.terrace.objects;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import org.jspecify.annotations.Nullable;

/// The event of the Java Flight Recorder for values of a pool that have moved.
@Name("dev.terrace.objects.Move")
@Label("Move")
@Category("Terrace Objects")
@Description("Values were moved to another tier, or closer together")
final class MoveEvent extends Event {
    @Label("Pool")
    @Nullable String pool;

    @Label("Why")
    @Description("demotion, promotion, compaction or retagging")
    @Nullable String why;

    @Label("Bytes Moved")
    @DataAmount
    long bytes;

    /// Begins an event now.
    static MoveEvent begun(String pool, String why) {
        MoveEvent event = new MoveEvent();
        event.pool = pool;
        event.why = why;
        event.begin();
        return event;
    }

    /// Ends the event, and records it if any value has moved.
    void end(long moved) {
        bytes = moved;
        if (moved > 0) {
            commit();
        }
    }
}
