package dev.terrace.objects;

import dev.terrace.objects.internal.store.Usage;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import javax.management.InstanceAlreadyExistsException;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.StandardMBean;
import org.jspecify.annotations.Nullable;

/// The bean of an open pool.
///
/// Invariants: what goes wrong with a bean never fails the opening or the closing of its pool; a
/// program that watches needs no class of this library.
final class PoolBean implements PoolMXBean {
    private static final System.Logger LOG = System.getLogger(PoolBean.class.getName());

    private final Pool pool;
    private final PoolFiles files;

    private PoolBean(Pool pool, PoolFiles files) {
        this.pool = pool;
        this.files = files;
    }

    /// Gives a pool its bean, and returns the bean's name; null if there can be none.
    static @Nullable ObjectName register(Pool pool, PoolFiles files) {
        try {
            StandardMBean bean =
                    new StandardMBean(new PoolBean(pool, files), PoolMXBean.class, true);
            for (int number = 1; ; number++) {
                ObjectName name = name(files.directory(), files.isReadOnly(), number);
                try {
                    ManagementFactory.getPlatformMBeanServer().registerMBean(bean, name);
                    return name;
                } catch (InstanceAlreadyExistsException taken) {
                    continue;
                }
            }
        } catch (JMException | RuntimeException | LinkageError e) {
            LOG.log(System.Logger.Level.WARNING, pool.name() + " is open without a bean", e);
            return null;
        }
    }

    /// Takes the bean of a pool away, which is about to be closed.
    static void unregister(Pool pool, ObjectName name) {
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
        } catch (InstanceNotFoundException gone) {
            // A program has taken it away.
            return;
        } catch (JMException | RuntimeException | LinkageError e) {
            LOG.log(System.Logger.Level.WARNING, pool.name() + " leaves its bean " + name, e);
        }
    }

    private static ObjectName name(Path directory, boolean isReadOnly, int number)
            throws JMException {
        return new ObjectName(
                "dev.terrace.objects:type=Pool,access="
                        + (isReadOnly ? "read" : "write")
                        + ",directory="
                        + ObjectName.quote(directory.toString())
                        + (number == 1 ? "" : ",number=" + number));
    }

    /// The answer of the pool; its failures as exceptions that other programs know.
    private <T> T told(Supplier<T> work) {
        try {
            return pool.guarded(work);
        } catch (TerraceException e) {
            throw new IllegalStateException(e.getMessage());
        }
    }

    private Usage usage() {
        return pool.store().usage();
    }

    @Override
    public String getDirectory() {
        return files.directory().toString();
    }

    @Override
    public boolean isReadOnly() {
        return files.isReadOnly();
    }

    @Override
    public boolean isSealed() {
        return told(pool::isSealed);
    }

    @Override
    public long getCommits() {
        return usage().counts().commits();
    }

    @Override
    public long getRollbacks() {
        return usage().counts().rollbacks();
    }

    @Override
    public long getLogBytes() {
        return usage().counts().logBytes();
    }

    @Override
    public Map<String, TierBytes> getTiers() {
        Map<String, TierBytes> bytes = new LinkedHashMap<>();
        for (Usage.Tier tier : told(() -> usage().tiers())) {
            bytes.put(tier.name(), new TierBytes(tier.used(), tier.capacity()));
        }
        return bytes;
    }

    @Override
    public long getPromotedBytes() {
        return pool.promotedBytes();
    }

    @Override
    public long getDemotedBytes() {
        return pool.demotedBytes();
    }

    @Override
    public long getSegmentReads() {
        return usage().requests().reads();
    }

    @Override
    public long getSegmentReadBytes() {
        return usage().requests().readBytes();
    }

    @Override
    public long getSegmentWrites() {
        return usage().requests().writes();
    }

    @Override
    public long getSegmentWrittenBytes() {
        return usage().requests().writtenBytes();
    }

    @Override
    public long getCachedBytes() {
        return usage().requests().cachedBytes();
    }
}
