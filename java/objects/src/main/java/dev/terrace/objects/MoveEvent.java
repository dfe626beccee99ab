package dev.terrace.objects;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import org.jspecify.annotations.Nullable;

/// Values of a pool have moved, as a recording of the Java Flight Recorder shows it.
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

    /// One that begins now.
    static MoveEvent begun(String pool, String why) {
        MoveEvent event = new MoveEvent();
        event.pool = pool;
        event.why = why;
        event.begin();
        return event;
    }

    /// That is all, if it was anything.
    void end(long moved) {
        bytes = moved;
        if (moved > 0) {
            commit();
        }
    }
}
