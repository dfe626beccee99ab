//! Counters of messages, one per kind: the cost of a system call is the number of messages it
//! takes.
//!
//! Invariant: every message of a known kind is counted exactly once, before it is answered, so that
//! whoever got the answer also sees the count. BATCH_FORGET counts once per inode, as FORGET.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kind::Message;

const KINDS: usize = Message::ALL.len();

/// Live counters, shared by the threads that answer messages.
#[derive(Debug)]
pub struct MessageCounts([AtomicU64; KINDS]);

impl Default for MessageCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; KINDS])
    }
}

impl MessageCounts {
    /// Counts one message.
    pub(crate) fn add(&self, message: Message) {
        self.0[message as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts at this moment.
    pub fn snapshot(&self) -> MessageSnapshot {
        MessageSnapshot(std::array::from_fn(|kind| self.0[kind].load(Ordering::Relaxed)))
    }
}

/// Counts at one moment, or between two ([`MessageSnapshot::since`]).
///
/// Displays as the kinds that occurred, in protocol order: `LOOKUP, WRITE ×2`; `none` if there were
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSnapshot([u64; KINDS]);

impl MessageSnapshot {
    /// Messages of one kind.
    pub fn of(&self, message: Message) -> u64 {
        self.0[message as usize]
    }

    /// Messages of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// What was counted after `earlier`.
    pub fn since(&self, earlier: &MessageSnapshot) -> MessageSnapshot {
        MessageSnapshot(std::array::from_fn(|kind| self.0[kind].saturating_sub(earlier.0[kind])))
    }

    /// The same without the messages of one kind.
    pub fn without(mut self, message: Message) -> MessageSnapshot {
        self.0[message as usize] = 0;
        self
    }
}

impl fmt::Display for MessageSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for &message in Message::ALL {
            match self.of(message) {
                0 => continue,
                1 => write!(f, "{separator}{}", message.name())?,
                count => write!(f, "{separator}{} ×{count}", message.name())?,
            }
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_hold_only_what_came_in_between() {
        let counts = MessageCounts::default();
        counts.add(Message::Lookup);
        let before = counts.snapshot();
        counts.add(Message::Write);
        counts.add(Message::Write);
        counts.add(Message::Lookup);
        let between = counts.snapshot().since(&before);
        assert_eq!(
            (between.of(Message::Write), between.of(Message::Lookup), between.total()),
            (2, 1, 3)
        );
        assert_eq!(between.to_string(), "LOOKUP, WRITE ×2");
        assert_eq!(between.without(Message::Write).without(Message::Lookup).to_string(), "none");
    }
}
