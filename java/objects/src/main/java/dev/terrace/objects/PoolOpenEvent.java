package dev.terrace.objects;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import org.jspecify.annotations.Nullable;

/// The event of the Java Flight Recorder for a pool that was opened.
@Name("dev.terrace.objects.PoolOpen")
@Label("Pool Open")
@Category("Terrace Objects")
@Description("A pool's files were opened, or made, recovery included")
final class PoolOpenEvent extends Event {
    @Label("Pool")
    @Nullable String pool;

    @Label("Only To Read")
    boolean readOnly;

    @Label("Persistent Memory")
    @Description("Bytes of its file")
    @DataAmount
    long pmemBytes;
}
