//! One operation, and its bytes.
//!
//! A record is a tag byte (operation in the low four bits, then flags), then LEB128 numbers: the
//! time since the record before it in microseconds; the inode's difference to the record before it,
//! zigzag, unless the tag says that it is the same; offset and length, where the operation has
//! them; since format 3, nanoseconds that it took, and who asked for it. An offset that goes on
//! where the inode's last record in this block ended is left out, and offset and length in whole
//! blocks are counted in blocks. Nothing refers to an earlier block.

use std::collections::HashMap;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A regular file was made.
    Create,
    /// Bytes that there were were read.
    Read,
    /// Bytes were written.
    Write,
    /// The file was synchronized.
    Fsync,
    /// The size became `offset`.
    Truncate,
    /// Space was reserved, and the file grew if it ended before the range.
    Allocate,
    /// The range became zeros or a hole.
    Deallocate,
    /// The file's last name and user are gone, and its data with them.
    Remove,
    /// The file that was just made is of the kinds `offset`, among the files of its directory, and
    /// `len`, among all. Since format 2.
    Kinds,
}

impl Operation {
    /// All of them, by their number in a tag.
    pub const ALL: [Self; 9] = [
        Self::Create,
        Self::Read,
        Self::Write,
        Self::Fsync,
        Self::Truncate,
        Self::Allocate,
        Self::Deallocate,
        Self::Remove,
        Self::Kinds,
    ];

    fn has_offset(self) -> bool {
        self.has_len() || self == Self::Truncate
    }

    fn has_len(self) -> bool {
        matches!(self, Self::Kinds) || self.has_range()
    }

    fn has_range(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Allocate | Self::Deallocate)
    }
}

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it ended: microseconds since recording began.
    pub time_us: u64,
    /// How long it took in the file system, in nanoseconds; 0 if that is not known.
    pub took_ns: u64,
    /// Which thread of a program asked for it: threads have numbers from 1, as they come. 0 if that
    /// is not known.
    pub caller: u64,
    /// What was done.
    pub operation: Operation,
    /// A write that was durable when it returned.
    pub durable: bool,
    /// Which file.
    pub ino: u64,
    /// First byte; the new size for [`Operation::Truncate`]; a number for [`Operation::Kinds`];
    /// else 0.
    pub offset: u64,
    /// Bytes; a number for [`Operation::Kinds`]; 0 for operations without a range.
    pub len: u64,
}

/// Longest record: tag and six numbers.
pub(crate) const RECORD_BYTES_MAX: usize = 1 + 6 * 10;

const BLOCK_BYTES: u64 = 4096;
const OPERATION_MASK: u8 = 0x0f;
const DURABLE: u8 = 0x10;
const SAME_INO: u8 = 0x20;
const CONTINUES: u8 = 0x40;
const IN_BLOCKS: u8 = 0x80;

/// What a record is told by its difference to: the same for encoder and decoder.
#[derive(Debug)]
pub(crate) struct Context {
    time_us: u64,
    ino: u64,
    /// Where the last record of each inode ended.
    ends: HashMap<u64, u64>,
    /// Records say how long operations took, and who asked for them.
    is_timed: bool,
}

impl Context {
    /// At the start of a block.
    pub fn new(time_us: u64) -> Self {
        Self { time_us, ino: 0, ends: HashMap::new(), is_timed: true }
    }

    /// The same, of format 2 and before.
    pub fn untimed(time_us: u64) -> Self {
        Self { is_timed: false, ..Self::new(time_us) }
    }

    fn end(&self, ino: u64) -> u64 {
        self.ends.get(&ino).copied().unwrap_or(0)
    }

    fn follow(&mut self, record: &Record) {
        (self.time_us, self.ino) = (record.time_us, record.ino);
        if record.operation.has_range() {
            self.ends.insert(record.ino, record.offset.wrapping_add(record.len));
        }
    }

    /// Appends a record; its time is not before that of the one before it.
    pub fn encode(&mut self, record: &Record, out: &mut Vec<u8>) {
        let Record { operation, ino, .. } = *record;
        let offset = if operation.has_offset() { record.offset } else { 0 };
        let len = if operation.has_len() { record.len } else { 0 };
        let same_ino = ino == self.ino;
        let continues = operation.has_range() && offset == self.end(ino);
        let in_blocks = offset.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES);
        let unit = if in_blocks { BLOCK_BYTES } else { 1 };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            operation as u8
                | flag(record.durable, DURABLE)
                | flag(same_ino, SAME_INO)
                | flag(continues, CONTINUES)
                | flag(in_blocks, IN_BLOCKS),
        );
        put(out, record.time_us.saturating_sub(self.time_us));
        if !same_ino {
            put(out, zigzag(ino.wrapping_sub(self.ino)));
        }
        if operation.has_offset() && !continues {
            put(out, offset / unit);
        }
        if operation.has_len() {
            put(out, len / unit);
        }
        if self.is_timed {
            put(out, record.took_ns);
            put(out, record.caller);
        }
        self.follow(&Record { offset, len, ..*record });
    }

    /// Takes the first record from `bytes`; `None` if there is none that an encoder could have
    /// made.
    pub fn decode(&mut self, bytes: &mut &[u8]) -> Option<Record> {
        let (&tag, rest) = bytes.split_first()?;
        *bytes = rest;
        let operation = *Operation::ALL.get(usize::from(tag & OPERATION_MASK))?;
        let unit = if tag & IN_BLOCKS != 0 { BLOCK_BYTES } else { 1 };
        let time_us = self.time_us.checked_add(take(bytes)?)?;
        let ino = if tag & SAME_INO != 0 {
            self.ino
        } else {
            self.ino.wrapping_add(unzigzag(take(bytes)?))
        };
        let offset = match operation.has_offset() {
            false => 0,
            true if tag & CONTINUES != 0 => self.end(ino),
            true => take(bytes)?.checked_mul(unit)?,
        };
        let len = if operation.has_len() { take(bytes)?.checked_mul(unit)? } else { 0 };
        let (took_ns, caller) = match self.is_timed {
            true => (take(bytes)?, take(bytes)?),
            false => (0, 0),
        };
        let durable = tag & DURABLE != 0;
        let record = Record { time_us, took_ns, caller, operation, durable, ino, offset, len };
        self.follow(&record);
        Some(record)
    }
}

fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back_and_longer_ones_are_refused() {
        for number in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(take(&mut &bytes[..]), Some(number));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None, "{number} cut short");
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(
            take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..]),
            None,
            "65 bits"
        );
    }

    #[test]
    fn operations_are_numbered_as_they_are_listed() {
        assert!(
            Operation::ALL
                .iter()
                .enumerate()
                .all(|(number, &operation)| operation as usize == number)
        );
    }

    #[test]
    fn what_goes_on_in_sequence_takes_six_bytes() {
        let mut out = Vec::new();
        let mut context = Context::new(0);
        for at in 0..100 {
            let write = Record {
                time_us: at * 20,
                took_ns: 2000,
                caller: 1,
                operation: Operation::Write,
                durable: false,
                ino: 7,
                offset: at * 4096,
                len: 4096,
            };
            context.encode(&write, &mut out);
        }
        assert_eq!(out.len(), 601, "the first names its inode");
    }
}
