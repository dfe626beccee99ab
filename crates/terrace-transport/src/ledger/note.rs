//! A text of the file system that a successor gets.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

use super::Ledger;
use crate::planted::AtomicU32;

/// Bytes of a note.
pub const NOTE_BYTES_MAX: usize = 16 << 10;

/// There are two, one of which counts.
#[repr(C)]
pub(super) struct Note {
    len: AtomicU32,
    bytes: [UnsafeCell<u8>; NOTE_BYTES_MAX],
}

impl Ledger {
    /// Keeps a text of the file system for a successor; one that is too long is not kept. Callers
    /// take turns.
    pub fn set_note(&self, text: &str) {
        if text.len() > NOTE_BYTES_MAX {
            return;
        }
        let turn = self.head().note_turn.load(Ordering::Relaxed) + 1;
        let note = &self.head().notes[turn as usize % 2];
        for (place, &byte) in note.bytes.iter().zip(text.as_bytes()) {
            // SAFETY: the other note is the one that counts, and callers take turns.
            unsafe { *place.get() = byte };
        }
        note.len.store(text.len() as u32, Ordering::Relaxed);
        self.head().note_turn.store(turn, Ordering::Release);
    }

    /// The text kept last; empty if none was.
    pub fn note(&self) -> String {
        let turn = self.head().note_turn.load(Ordering::Acquire);
        let note = &self.head().notes[turn as usize % 2];
        let len = note.len.load(Ordering::Relaxed) as usize;
        // SAFETY: nobody writes to the note that counts.
        let bytes = note.bytes[..len].iter().map(|place| unsafe { *place.get() });
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}
