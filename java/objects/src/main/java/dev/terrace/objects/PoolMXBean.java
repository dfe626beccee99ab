package dev.terrace.objects;

import java.util.Map;

/// An open pool as programs that watch this one see it, by JMX: the numbers of [Pool#statistics()]
/// and a few more. The platform's server has a bean for each pool that was opened with
/// [PoolOptions#withJmx()], from then on until the pool is closed, by the name
///
/// `dev.terrace.objects:type=Pool,access=write,directory="/pmem/people"`
///
/// with `access=read` for a read-only pool, and the absolute path of the directory, without
/// symbolic links, as [javax.management.ObjectName#quote(String)] gives it. If another class loader
/// of the process has loaded this library, too, and has a bean of that name, the next name has
/// `number=2` in addition, and so on.
///
/// All attributes can only be read. None of them waits for a transaction, but for [#getTiers()] if
/// commits have overtaken it 64 times. An attribute that cannot be read is an
/// [IllegalStateException] that says why.
public interface PoolMXBean {
    /// The bytes of a tier.
    ///
    /// @param used bytes in use
    /// @param capacity bytes of its files; of the remote tier, of all segments
    record TierBytes(long used, long capacity) {}

    /// The pool's directory.
    String getDirectory();

    /// Whether the pool was opened to be read.
    boolean isReadOnly();

    /// Whether the pool is sealed.
    boolean isSealed();

    /// The number of transactions, and of single words that were set on their own, since the pool
    /// was opened.
    long getCommits();

    /// The number of transactions that were rolled back since then.
    long getRollbacks();

    /// Bytes written to the log since then.
    long getLogBytes();

    /// The bytes of each tier, as of one commit, by the tiers' names: see [PoolStatistics#tiers()].
    Map<String, TierBytes> getTiers();

    /// Bytes of values that have returned to persistent memory since the pool was opened.
    long getPromotedBytes();

    /// Bytes of values that had to leave persistent memory since then.
    long getDemotedBytes();

    /// The number of values that were read from the remote tier since then.
    long getSegmentReads();

    /// The bytes of these values.
    long getSegmentReadBytes();

    /// The number of segments that were written to the remote tier since the pool was opened.
    long getSegmentWrites();

    /// The bytes of these segments.
    long getSegmentWrittenBytes();

    /// Bytes of values of the remote tier that are kept in memory now.
    long getCachedBytes();
}
