//! What a volume has done since it was opened.
//!
//! Every counter stands in one table, with its name, its unit and what it counts; `terrace stats`,
//! the metrics for Prometheus and their documentation are made from it. Counting is a plain add on
//! memory of the thread's own ([`Striped`]): operations that take a microsecond are counted.

use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use terrace_layout::DEVICES_MAX;
use terrace_media::Striped;
use terrace_policy::Rule;

use crate::base::speeds::Speeds;
use crate::base::waits::Waits;

/// What a counter counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; the counter's name ends in `_bytes`.
    Bytes,
    /// How often something happened, or how many things there were.
    Count,
}

/// Declares the counters: variant, name, unit, help.
macro_rules! counters {
    ($($variant:ident $name:literal $unit:ident $help:literal),* $(,)?) => {
        /// A counter of a volume, from zero when the volume is opened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $help] $variant),*
        }

        impl Counter {
            /// Every counter, in the order in which they are shown.
            pub const ALL: &[Counter] = &[$(Counter::$variant),*];

            /// Its name: lower case, with its unit if that is bytes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name),*
                }
            }

            /// What it counts in.
            pub fn unit(self) -> Unit {
                match self {
                    $(Counter::$variant => Unit::$unit),*
                }
            }

            /// What it counts, in a sentence without its full stop.
            pub fn help(self) -> &'static str {
                match self {
                    $(Counter::$variant => $help),*
                }
            }
        }
    };
}

counters! {
    PmReads "pm_reads" Count
        "Reads of which PM had some or all",
    ReadPm "pm_read_bytes" Bytes
        "Bytes of files read from PM",
    PmWrites "pm_writes" Count
        "Writes that went to PM",
    WrittenPm "pm_written_bytes" Bytes
        "Bytes that writes asked for and that went to PM",
    ReadCache "cache_read_bytes" Bytes
        "Bytes of files read from the page cache",
    WrittenCache "cache_written_bytes" Bytes
        "Bytes that writes asked for and that went to the page cache",
    CacheHits "cache_hits" Count
        "Blocks that reads found in the page cache",
    CacheMisses "cache_misses" Count
        "Blocks that reads had to get from a disk",
    PlacedSynchronous "placed_synchronous_bytes" Bytes
        "Bytes written to PM because the file is a synchronous one",
    PlacedSmall "placed_small_bytes" Bytes
        "Bytes written to PM because the write was small",
    PlacedLargeAsync "placed_large_async_bytes" Bytes
        "Bytes written to the page cache because the write was large and the file is an \
         asynchronous one",
    PlacedBulk "placed_bulk_bytes" Bytes
        "Bytes written to the page cache because nobody waits for them and data is leaving PM",
    PlacedPast "placed_past_bytes" Bytes
        "Bytes written to the page cache because a disk took long writes sooner than PM",
    PlacedPmFull "placed_pm_full_bytes" Bytes
        "Bytes written to the page cache because PM had too little room",
    PlacedJoinsDirty "placed_joins_dirty_bytes" Bytes
        "Bytes written to the page cache because older versions of their blocks were dirty there",
    PlacedPinned "placed_pinned_bytes" Bytes
        "Bytes written to PM or the page cache because the file is pinned",
    PredictedRight "predicted_right" Count
        "Predictions that came true, one per write",
    PredictedWrong "predicted_wrong" Count
        "Predictions that did not come true, one per write",
    Fsyncs "fsyncs" Count
        "Calls of fsync and fdatasync that reached the daemon",
    Loans "loans" Count
        "Times that a file was lent to a process, which then has it in PM by itself",
    LoansBroken "loans_broken" Count
        "Loans that ended in the middle of a call: the process was stopped or has died",
    DirectReads "direct_reads" Count
        "Reads by processes themselves, of files that were lent to them",
    DirectReadBytes "direct_read_bytes" Bytes
        "Bytes of these reads",
    DirectWrites "direct_writes" Count
        "Writes by processes themselves, to files that were lent to them",
    DirectWrittenBytes "direct_written_bytes" Bytes
        "Bytes of these writes",
    Stalls "writer_stalls" Count
        "Writes that had to wait for writeback to get pages of the page cache",
    WrittenBack "written_back_bytes" Bytes
        "Bytes that writeback took from the page cache to a disk",
    MigratedWrite "migrated_write_bytes" Bytes
        "Bytes that migration took from PM to a disk because they had not been written for long",
    MigratedRead "migrated_read_bytes" Bytes
        "Bytes that migration took from PM to a disk, and kept in the page cache, because they \
         were read often",
    MigratedReverse "migrated_reverse_bytes" Bytes
        "Bytes that migration took from a disk to PM",
    MigratedDemoted "migrated_demoted_bytes" Bytes
        "Bytes that migration took from a disk tier to the next because that tier was nearly full",
    MigratedLogs "migrated_log_bytes" Bytes
        "Bytes of log pages in PM that migration gave back, because nobody had changed their \
         inodes for long, or PM had no room left",
    MigratedPinned "migrated_pinned_bytes" Bytes
        "Bytes that migration took to the tier that their file is pinned to",
    MigratedByHand "migrated_by_hand_bytes" Bytes
        "Bytes that terrace evict, warm, pin and device moved to another device",
    MigrationsOvertaken "migrated_in_vain_bytes" Bytes
        "Bytes that migration copied in vain, because a program changed them meanwhile",
    GroupsWritten "migration_groups" Count
        "Groups of blocks that migration wrote to a disk, each with one sequential write",
}

impl Counter {
    /// The counter of the bytes that a rule has placed or moved.
    pub(crate) fn of_rule(rule: Rule) -> Counter {
        match rule {
            Rule::Synchronous | Rule::Durable => Counter::PlacedSynchronous,
            Rule::Small | Rule::DisksFull | Rule::OwnBlocks => Counter::PlacedSmall,
            Rule::Pinned => Counter::PlacedPinned,
            Rule::LargeAsync => Counter::PlacedLargeAsync,
            Rule::Bulk => Counter::PlacedBulk,
            Rule::Past => Counter::PlacedPast,
            Rule::PmFull | Rule::Reserved => Counter::PlacedPmFull,
            Rule::JoinsDirty | Rule::Unnoted | Rule::Unknown => Counter::PlacedJoinsDirty,
            Rule::Direct => Counter::DirectWrittenBytes,
            Rule::Cold
            | Rule::ColdMean
            | Rule::ColdWhole
            | Rule::ColdPart
            | Rule::ColdTogether
            | Rule::ColdMeanTogether
            | Rule::ColdWholeTogether
            | Rule::ColdPartTogether
            | Rule::Relief => Counter::MigratedWrite,
            Rule::Demoted => Counter::MigratedDemoted,
            Rule::ReadMigration => Counter::MigratedRead,
            Rule::ReverseMigration => Counter::MigratedReverse,
            Rule::MovedToPin => Counter::MigratedPinned,
            Rule::ByHand | Rule::Drained => Counter::MigratedByHand,
        }
    }
}

/// How many counters there are.
const COUNTERS: usize = Counter::ALL.len();
/// Tiers that are told apart; each needs a device.
const TIERS: usize = DEVICES_MAX;

/// Bytes that come to a tier and leave it, beside those that programs write to PM and read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Programs have read it from a disk.
    Read,
    /// It was read from a disk into the page cache.
    Fetched,
    /// Writeback has brought it.
    WrittenBack,
    /// It has come from another tier.
    MovedIn,
    /// It has gone to another tier.
    MovedOut,
}

/// How many kinds of passages there are.
const PASSAGES: usize = Passage::MovedOut as usize + 1;

/// The counters of an open volume.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    counted: Striped<COUNTERS>,
    /// By kind of passage and tier.
    passed_bytes: [Striped<TIERS>; PASSAGES],
    /// Operations that wait.
    pub waits: Waits,
    /// How long reads and writes take.
    pub speeds: Speeds,
}

impl Counters {
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        self.counted.add(counter as usize, amount);
    }

    /// So many bytes of files have come to this tier, or left it.
    pub fn add_passed(&self, passage: Passage, tier: u8, bytes: u64) {
        self.passed_bytes[passage as usize].add(usize::from(tier).min(TIERS - 1), bytes);
    }

    /// Bytes of files that have come to this tier, or left it, so far.
    pub fn passed_bytes(&self, passage: Passage, tier: u8) -> u64 {
        self.passed_bytes[passage as usize].total(usize::from(tier).min(TIERS - 1))
    }

    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot(self.counted.totals())
    }
}

/// The counters at one moment, or what was added between two. As JSON: an object of names and
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSnapshot([u64; COUNTERS]);

impl Default for CounterSnapshot {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl CounterSnapshot {
    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// What was added after `earlier`.
    pub fn since(&self, earlier: &CounterSnapshot) -> CounterSnapshot {
        CounterSnapshot(std::array::from_fn(|number| {
            self.0[number].saturating_sub(earlier.0[number])
        }))
    }
}

impl Serialize for CounterSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNTERS))?;
        for &counter in Counter::ALL {
            map.serialize_entry(counter.name(), &self.get(counter))?;
        }
        map.end()
    }
}

/// A daemon of another version may have counters that are unknown here, or lack some: those are 0.
impl<'de> Deserialize<'de> for CounterSnapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = CounterSnapshot;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of counters")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<CounterSnapshot, A::Error> {
                let mut values = [0; COUNTERS];
                while let Some(name) = map.next_key::<String>()? {
                    match Counter::ALL.iter().find(|counter| counter.name() == name) {
                        Some(&counter) => values[counter as usize] = map.next_value()?,
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(CounterSnapshot(values))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_tell_the_unit() {
        for (at, counter) in Counter::ALL.iter().enumerate() {
            let name = counter.name();
            assert_eq!(*counter as usize, at);
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_bytes"), counter.unit() == Unit::Bytes, "{name}");
            assert!(
                Counter::ALL[..at].iter().all(|other| other.name() != name),
                "{name} stands there twice"
            );
            assert!(!counter.help().is_empty() && !counter.help().ends_with('.'), "{name}");
        }
    }

    #[test]
    fn snapshots_go_through_json_and_know_differences() {
        let counters = Counters::default();
        counters.add(Counter::Fsyncs, 2);
        let earlier = counters.snapshot();
        counters.add(Counter::Fsyncs, 3);
        counters.add(Counter::ReadPm, 4096);
        let between = counters.snapshot().since(&earlier);
        let read = |text: &str| serde_json::from_str::<CounterSnapshot>(text).unwrap();
        assert_eq!(read(&serde_json::to_string(&between).unwrap()), between);
        assert_eq!((between.get(Counter::Fsyncs), between.get(Counter::ReadPm)), (3, 4096));
        assert_eq!(
            read(r#"{"fsyncs": 3, "of_the_future": {"a": [1]}, "pm_read_bytes": 4096}"#),
            between
        );
    }

    #[test]
    fn tiers_that_no_volume_has_are_counted_with_the_last() {
        let counters = Counters::default();
        counters.add_passed(Passage::Read, 1, 10);
        counters.add_passed(Passage::Read, 255, 5);
        counters.add_passed(Passage::MovedOut, 0, 7);
        let passed = |passage, tier| counters.passed_bytes(passage, tier);
        assert_eq!([1, 2, 15, 200].map(|tier| passed(Passage::Read, tier)), [10, 0, 5, 5]);
        assert_eq!([0, 1].map(|tier| passed(Passage::MovedOut, tier)), [7, 0]);
    }
}
