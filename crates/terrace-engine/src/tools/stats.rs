//! How full a volume is and what it has done: [`Stats`], over the life of a mount or between two
//! moments of it. As JSON, it may be of a daemon of another version: what that does not know is
//! zero here.

use serde::{Deserialize, Serialize};
use terrace_layout::BLOCK_BYTES;
use terrace_store::superblock::uuid_text;

use crate::base::counters::{Counter, CounterSnapshot, Passage};
use crate::base::speeds::SpeedStats;
use crate::base::waits::WaitStats;
use crate::base::wear::VolumeWear;
use crate::base::words::{device_name, tier_name};
use crate::ops::lending::LoanStats;
use crate::tools::status::Reports;

/// One tier: how full it is, and what its devices did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierStats {
    /// Its number; 0 is PM.
    pub tier: u8,
    /// `pm`, `disk1`, `disk2`, …
    pub name: String,
    /// Size of its devices in bytes.
    pub capacity_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Reads: of PM, those of file data; of disks, all that the devices did.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Writes: to PM, those of file data; to disks, all that the devices did.
    pub writes: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
    /// Bytes of files that were read from this tier: of disks less than `read_bytes`, which has
    /// read-ahead, checksums and scrubs in it.
    pub file_read_bytes: u64,
    /// Bytes that were read from this tier of disks into the page cache, read-ahead included.
    pub fetched_bytes: u64,
    /// Bytes that programs wrote to this tier at once: to PM.
    pub file_written_bytes: u64,
    /// Bytes that writeback brought to this tier of disks.
    pub written_back_bytes: u64,
    /// Bytes of files that moved to this tier from another.
    pub moved_in_bytes: u64,
    /// Bytes of files that moved from this tier to another.
    pub moved_out_bytes: u64,
}

impl TierStats {
    /// The same levels, and what was done after `earlier`.
    fn since(&self, earlier: &TierStats) -> TierStats {
        let since = |of: fn(&TierStats) -> u64| of(self).saturating_sub(of(earlier));
        TierStats {
            reads: since(|tier| tier.reads),
            read_bytes: since(|tier| tier.read_bytes),
            writes: since(|tier| tier.writes),
            written_bytes: since(|tier| tier.written_bytes),
            file_read_bytes: since(|tier| tier.file_read_bytes),
            fetched_bytes: since(|tier| tier.fetched_bytes),
            file_written_bytes: since(|tier| tier.file_written_bytes),
            written_back_bytes: since(|tier| tier.written_back_bytes),
            moved_in_bytes: since(|tier| tier.moved_in_bytes),
            moved_out_bytes: since(|tier| tier.moved_out_bytes),
            ..self.clone()
        }
    }
}

/// The page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStats {
    /// Bytes that it may take.
    pub budget_bytes: u64,
    /// Bytes of clean pages.
    pub clean_bytes: u64,
    /// Bytes of dirty pages.
    pub dirty_bytes: u64,
}

/// How full a volume is now, and what it did in a period that ends now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Volume UUID.
    pub uuid: String,
    /// Length of the period: since the volume was opened, unless made by [`Stats::since`].
    pub elapsed_ms: u64,
    /// The tiers, PM first.
    pub tiers: Vec<TierStats>,
    /// The page cache.
    pub cache: CacheStats,
    /// Operations of programs that wait, or waited in the period, by what they wait for.
    pub waits: Vec<WaitStats>,
    /// How long reads and writes took, as far as they were timed.
    pub speeds: Vec<SpeedStats>,
    /// Loans to processes.
    pub loans: LoanStats,
    /// What was counted in the period.
    pub counters: CounterSnapshot,
    /// Bytes stored to PM in the period, for file data and everything else.
    pub pm_stored_bytes: u64,
    /// Fences of PM in the period.
    pub pm_fences: u64,
    /// Bytes stored to PM per byte that writes asked for and that went there; `None` if there were
    /// none.
    pub pm_write_amplification: Option<f64>,
    /// Share of the predictions that came true, 0 to 1; `None` if there were none.
    pub predictor_accuracy: Option<f64>,
    /// What was written to the devices since counting began, whatever the period.
    pub wear: VolumeWear,
}

impl Stats {
    /// The same levels, and what was done after `earlier`, which is of the same mount.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let mut stats = self.clone();
        stats.elapsed_ms = self.elapsed_ms.saturating_sub(earlier.elapsed_ms);
        for tier in &mut stats.tiers {
            let before = earlier.tiers.iter().find(|before| before.tier == tier.tier);
            *tier = before.map_or_else(|| tier.clone(), |before| tier.since(before));
        }
        for wait in &mut stats.waits {
            let before = earlier.waits.iter().find(|before| before.cause == wait.cause);
            *wait = before.map_or_else(|| wait.clone(), |before| wait.since(before));
        }
        for speed in &mut stats.speeds {
            let is_same = |before: &&SpeedStats| {
                (&before.device, &before.operation) == (&speed.device, &speed.operation)
            };
            let before = earlier.speeds.iter().find(is_same);
            *speed = before.map_or_else(|| speed.clone(), |before| speed.since(before));
        }
        stats.counters = self.counters.since(&earlier.counters);
        stats.pm_stored_bytes = self.pm_stored_bytes.saturating_sub(earlier.pm_stored_bytes);
        stats.pm_fences = self.pm_fences.saturating_sub(earlier.pm_fences);
        stats.with_ratios()
    }

    fn with_ratios(mut self) -> Stats {
        let count = |counter| self.counters.get(counter);
        let (right, wrong) = (count(Counter::PredictedRight), count(Counter::PredictedWrong));
        self.pm_write_amplification = ratio(self.pm_stored_bytes, count(Counter::WrittenPm));
        self.predictor_accuracy = ratio(right, right.saturating_add(wrong));
        self
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Reports {
    pub fn stats(&self) -> Stats {
        self.lending.count();
        let pm = self.store.pm.stats();
        let cache = &self.cache;
        let stats = Stats {
            uuid: uuid_text(&self.devices.sb.lock()),
            elapsed_ms: self.opened.elapsed().as_millis() as u64,
            tiers: self.tiers(),
            cache: CacheStats {
                budget_bytes: cache.budget_pages() * BLOCK_BYTES,
                clean_bytes: cache.clean_pages() * BLOCK_BYTES,
                dirty_bytes: cache.dirty_pages() * BLOCK_BYTES,
            },
            waits: self.counters.waits.stats(),
            speeds: self.speeds(),
            loans: self.lending.stats(),
            counters: self.counters.snapshot(),
            pm_stored_bytes: pm.bytes_stored,
            pm_fences: pm.fences,
            pm_write_amplification: None,
            predictor_accuracy: None,
            wear: self.wear.report(),
        };
        stats.with_ratios()
    }

    /// Of PM and the page cache, and of each disk.
    fn speeds(&self) -> Vec<SpeedStats> {
        let mut speeds = self.counters.speeds.stats();
        for member in self.store.space.members.all() {
            let (name, disk) = (device_name(member.entry.index), member.disk.stats());
            speeds.extend([
                SpeedStats::new(&name, "read", disk.timed_read_bytes, disk.read_ns),
                SpeedStats::new(&name, "long_write", disk.long_written_bytes, disk.long_write_ns),
                SpeedStats::new(&name, "flush", disk.flushes, disk.flush_ns),
            ]);
        }
        speeds
    }

    /// The tiers in order, the devices of each added up.
    fn tiers(&self) -> Vec<TierStats> {
        let mut tiers: Vec<TierStats> = Vec::new();
        let members = self.store.space.members.all();
        let disks = members.iter().map(|m| (m.entry.tier, &m.alloc, Some(m.disk.stats())));
        for (number, alloc, disk) in std::iter::once((0, self.store.space.pm(), None)).chain(disks)
        {
            let at = tiers.iter().position(|tier| tier.tier == number).unwrap_or_else(|| {
                tiers.push(self.empty_tier(number));
                tiers.len() - 1
            });
            let (tier, free_blocks) = (&mut tiers[at], alloc.free_blocks());
            tier.capacity_bytes += alloc.blocks() * BLOCK_BYTES;
            tier.free_bytes += free_blocks * BLOCK_BYTES;
            tier.used_bytes += alloc.blocks().saturating_sub(free_blocks) * BLOCK_BYTES;
            if let Some(disk) = disk {
                tier.reads += disk.reads;
                tier.read_bytes += disk.bytes_read;
                tier.writes += disk.writes;
                tier.written_bytes += disk.bytes_written;
            }
        }
        tiers.sort_by_key(|tier| tier.tier);
        tiers
    }

    /// A tier without devices: what is counted apart from them.
    fn empty_tier(&self, tier: u8) -> TierStats {
        let passed = |passage| self.counters.passed_bytes(passage, tier);
        let of_tier = TierStats {
            tier,
            name: tier_name(tier),
            file_read_bytes: passed(Passage::Read),
            fetched_bytes: passed(Passage::Fetched),
            written_back_bytes: passed(Passage::WrittenBack),
            moved_in_bytes: passed(Passage::MovedIn),
            moved_out_bytes: passed(Passage::MovedOut),
            ..TierStats::default()
        };
        if tier > 0 {
            return of_tier;
        }
        let counted = self.counters.snapshot();
        TierStats {
            reads: counted.get(Counter::PmReads),
            read_bytes: counted.get(Counter::ReadPm),
            writes: counted.get(Counter::PmWrites),
            written_bytes: counted.get(Counter::WrittenPm),
            file_read_bytes: counted.get(Counter::ReadPm),
            file_written_bytes: counted.get(Counter::WrittenPm),
            ..of_tier
        }
    }
}
