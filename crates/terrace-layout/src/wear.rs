//! The wear record: how much was ever written to each device of the volume.
//!
//! It stands in the page of shard 0, behind the journal, in two slots. A writer fills the slot that
//! does not count, and makes it durable. So a crash leaves one that is whole.

use crate::crc::crc_with_hole;
use crate::field::media_struct;
use crate::{BLOCK, DEVICES_MAX, JOURNAL_OFFSET, JournalRecord, MediaStruct};
use zerocopy::IntoBytes;

/// First word of a wear record.
pub const WEAR_MAGIC: u64 = u64::from_le_bytes(*b"TERRWEAR");
/// Byte of the first slot in the page of shard 0.
pub const WEAR_OFFSET: u64 = 1024;
/// Bytes of a slot; the second follows the first.
pub const WEAR_SLOT_BYTES: u64 = 1024;
/// Slots.
pub const WEAR_SLOTS: u64 = 2;

const _: () = assert!(size_of::<WearRecord>() as u64 <= WEAR_SLOT_BYTES);
const _: () = assert!(WEAR_OFFSET + WEAR_SLOTS * WEAR_SLOT_BYTES <= BLOCK as u64);
const _: () = assert!(
    JOURNAL_OFFSET + size_of::<JournalRecord>() as u64 <= WEAR_OFFSET,
    "the journal ends before the first slot"
);

media_struct! {
    /// What was written to one device.
    pub struct WearRow [48] {
        /// When counting began; 0: there is no such device.
        pub since_ns: i64,
        /// Bytes written since then, by whomever.
        pub written: u64,
        /// Those that movers wrote.
        pub moved: u64,
        /// Those that movers wrote beyond their budget.
        pub overdrawn: u64,
        /// Budget of movers in bytes per day; 0: none.
        pub per_day: u64,
        /// What movers had left of it when the record was made; below 0: overdrawn.
        pub level: i64,
    }
}

media_struct! {
    /// What was written to the devices of a volume.
    pub struct WearRecord [832] {
        /// [`WEAR_MAGIC`].
        pub magic: u64,
        /// CRC32C of the record, this field taken as zero.
        pub crc: u32,
        /// Zero.
        pub reserved0: u32,
        /// Counts the records; the higher one of two counts.
        pub sequence: u64,
        /// When counting began.
        pub since_ns: i64,
        /// When this record was made.
        pub made_ns: i64,
        /// Bytes that programs wrote.
        pub programs: u64,
        /// Bytes written to disks that have left the volume.
        pub departed: u64,
        /// Zero.
        pub reserved1: u64,
        /// By device, as in the device table.
        pub rows: [WearRow; 16],
    }
}

/// What the two slots hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WearFound {
    /// The record that counts.
    Record(Box<WearRecord>),
    /// Nobody has counted yet.
    Nothing,
    /// Both slots hold something, and neither a record that is whole.
    Damaged,
}

impl WearRecord {
    /// A record of nothing.
    pub fn empty() -> Self {
        Self::from_bytes(&[0; size_of::<Self>()])
    }

    /// Sets the checksum.
    pub fn seal(&mut self) {
        self.magic = WEAR_MAGIC;
        self.crc = crc_with_hole(0, self.as_bytes(), 8);
    }

    /// The slot that a record goes to: not that of the one before it.
    pub fn slot(&self) -> u64 {
        self.sequence % WEAR_SLOTS
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let record = Self::from_bytes(bytes);
        let is_whole =
            record.magic == WEAR_MAGIC && record.crc == crc_with_hole(0, record.as_bytes(), 8);
        is_whole.then_some(record)
    }

    /// The record that counts, in the bytes of the slots. A slot that a crash has torn is no
    /// damage: the other one holds the record before it, or nothing yet.
    pub fn find(slots: &[u8; (WEAR_SLOTS * WEAR_SLOT_BYTES) as usize]) -> WearFound {
        let slots = || slots.chunks_exact(WEAR_SLOT_BYTES as usize);
        let newest = slots().filter_map(Self::decode).max_by_key(|record| record.sequence);
        match newest {
            Some(record) => WearFound::Record(Box::new(record)),
            None if slots().any(|slot| slot.iter().all(|&byte| byte == 0)) => WearFound::Nothing,
            None => WearFound::Damaged,
        }
    }
}

const _: () = assert!(DEVICES_MAX == 16, "a row for each device");

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: usize = WEAR_SLOT_BYTES as usize;

    fn record(sequence: u64) -> WearRecord {
        let mut record = WearRecord { sequence, programs: 7 * sequence, ..WearRecord::empty() };
        record.seal();
        record
    }

    fn slots(records: [Option<WearRecord>; 2]) -> [u8; 2 * SLOT] {
        let mut bytes = [0; 2 * SLOT];
        for record in records.iter().flatten() {
            let at = record.slot() as usize * SLOT;
            bytes[at..at + size_of::<WearRecord>()].copy_from_slice(record.as_bytes());
        }
        bytes
    }

    #[test]
    fn the_newest_record_that_is_whole_counts() {
        assert_eq!(WearRecord::find(&slots([None, None])), WearFound::Nothing);
        let mut both = slots([Some(record(4)), Some(record(5))]);
        assert_eq!(WearRecord::find(&both), WearFound::Record(Box::new(record(5))));
        both[SLOT + 100] ^= 1;
        assert_eq!(WearRecord::find(&both), WearFound::Record(Box::new(record(4))), "a torn slot");
        both[50] ^= 1;
        assert_eq!(WearRecord::find(&both), WearFound::Damaged);
    }

    #[test]
    fn a_first_record_that_a_crash_has_torn_is_nothing() {
        let mut first = slots([Some(record(1)), None]);
        first[SLOT + 200] ^= 1;
        assert_eq!(WearRecord::find(&first), WearFound::Nothing);
    }

    #[test]
    fn every_byte_of_a_record_is_vouched_for() {
        let good = slots([None, Some(record(3))]);
        for at in SLOT..SLOT + size_of::<WearRecord>() {
            let mut bytes = good;
            bytes[at] ^= 0x40;
            assert_eq!(WearRecord::find(&bytes), WearFound::Nothing, "byte {at}");
        }
    }
}
