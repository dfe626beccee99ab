//! A run of file blocks, with what its write entry says of it.

use terrace_layout::{BlockAddr, History};
use terrace_policy::Rule;

/// A run of file blocks on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First device block.
    pub addr: BlockAddr,
    /// Position of the write entry; slots are 64 bytes long, so the low bits hold flags, and the
    /// predictor's counter. The highest bits, which no position reaches, hold the number of the
    /// rule.
    pub(super) entry_and_flags: u64,
    /// Blocks of the run.
    pub blocks: u32,
    /// One more than the binary logarithm of the blocks of the write that brought the data; 0:
    /// nobody remembers.
    pub(super) area_log2: u8,
}

const UNWRITTEN: u64 = 1;
const HAS_CRC_BLOCKS: u64 = 2;
const COUNTER_SHIFT: u32 = 2;
const COUNTER_MAX: u8 = 15;
const RULE_SHIFT: u32 = 58;
/// All that is not the position.
const FLAGS: u64 = 63 | 63 << RULE_SHIFT;

impl Extent {
    /// A run of blocks with the position of its entry in the log.
    #[inline]
    pub fn new(
        addr: BlockAddr,
        blocks: u32,
        entry: u64,
        unwritten: bool,
        has_crc_blocks: bool,
    ) -> Self {
        let flags =
            if unwritten { UNWRITTEN } else { 0 } | if has_crc_blocks { HAS_CRC_BLOCKS } else { 0 };
        Self { addr, entry_and_flags: entry | flags, blocks, area_log2: 0 }
    }

    /// The same, with what the policy remembers, in the form in which entries hold it. Tables keep
    /// the counter and the rule.
    #[inline]
    pub fn with_history(self, history: u16) -> Self {
        let History { counter, area_log2, rule } = History::of_word(history);
        let (counter, rule) = (u64::from(counter) << COUNTER_SHIFT, u64::from(rule) << RULE_SHIFT);
        Self { entry_and_flags: self.entry_and_flags | counter | rule, area_log2, ..self }
    }

    /// The rule that put the data there.
    #[inline]
    pub fn rule(&self) -> Rule {
        Rule::of_number((self.entry_and_flags >> RULE_SHIFT) as u8)
    }

    /// Counter of the write-size predictor.
    #[inline]
    pub fn counter(&self) -> u8 {
        (self.entry_and_flags >> COUNTER_SHIFT) as u8 & COUNTER_MAX
    }

    /// Blocks of the write that brought the data, roughly.
    #[inline]
    pub fn area_blocks(&self) -> u64 {
        History { area_log2: self.area_log2, ..History::default() }.area_blocks(self.blocks)
    }

    /// Position of the write entry in PM.
    #[inline]
    pub fn entry(&self) -> u64 {
        self.entry_and_flags & !FLAGS
    }

    /// Allocated, never written.
    #[inline]
    pub fn unwritten(&self) -> bool {
        self.entry_and_flags & UNWRITTEN != 0
    }

    #[inline]
    pub(super) fn has_crc_blocks(&self) -> bool {
        self.entry_and_flags & HAS_CRC_BLOCKS != 0
    }

    /// Whether `next`, at file block `next_start`, goes on where this one, at `start`, ends, in the
    /// file and on the device.
    pub(super) fn touches(&self, start: u64, next: &Extent, next_start: u64) -> bool {
        let blocks = u64::from(self.blocks);
        start + blocks == next_start
            && self.addr.offset(blocks) == next.addr
            && self.unwritten() == next.unwritten()
            && !self.has_crc_blocks()
            && !next.has_crc_blocks()
            && self.blocks.checked_add(next.blocks).is_some()
    }

    /// `blocks` of them, after the first `skip`.
    #[inline]
    pub fn part(&self, skip: u64, blocks: u64) -> Extent {
        self.tail(skip).head(blocks)
    }

    /// The same run, whose entry lies at another position now.
    pub(super) fn with_entry(self, entry: u64) -> Extent {
        Extent { entry_and_flags: entry | (self.entry_and_flags & FLAGS), ..self }
    }

    #[inline]
    pub(super) fn head(&self, blocks: u64) -> Extent {
        Extent { blocks: blocks as u32, ..*self }
    }

    #[inline]
    pub(super) fn tail(&self, skip: u64) -> Extent {
        Extent { addr: self.addr.offset(skip), blocks: self.blocks - skip as u32, ..*self }
    }
}
