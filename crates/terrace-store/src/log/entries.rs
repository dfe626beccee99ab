//! The entries of a log, read by position.

use terrace_layout::{BLOCK_BYTES, SLOT_BYTES};
use terrace_media::Pm;

use super::Log;
use super::archive::{ARCHIVE_START, Archive};
use crate::damage::{Damage, DamageKind, Structure};
use crate::error::FsResult;

/// The entries of a log, to be read by position.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    pm: &'a Pm,
    archive: Option<&'a Archive>,
}

impl<'a> Entries<'a> {
    /// The entries of the log with this archive.
    #[inline]
    pub fn new(pm: &'a Pm, archive: Option<&'a Archive>) -> Self {
        Self { pm, archive }
    }

    /// Fills `buf` from the byte at `position` on.
    ///
    /// # Errors
    /// PM that cannot be read; there is no such position.
    #[inline]
    pub fn read(&self, position: u64, buf: &mut [u8]) -> FsResult<()> {
        if position < ARCHIVE_START {
            return Ok(self.pm.try_read(position, buf)?);
        }
        let from = (position - ARCHIVE_START) as usize;
        let found = self.archive.and_then(|archive| archive.entries.get(from..from + buf.len()));
        buf.copy_from_slice(found.ok_or_else(|| {
            let structure = Structure::ArchivedEntry(from as u64);
            Damage::in_pm(self.pm, structure, DamageKind::Missing)
        })?);
        Ok(())
    }

    /// Asks for an entry before it is needed.
    #[inline]
    pub fn prefetch(&self, position: u64) {
        if position < ARCHIVE_START {
            self.pm.prefetch(position);
        }
    }

    /// Slots from `position` on to the end of the region that it lies in.
    #[inline]
    pub fn room(&self, position: u64) -> u64 {
        match position.checked_sub(ARCHIVE_START) {
            None => (BLOCK_BYTES - position % BLOCK_BYTES) / SLOT_BYTES,
            Some(from) => {
                self.archive.map_or(0, |archive| archive.slots().saturating_sub(from / SLOT_BYTES))
            }
        }
    }
}

impl Log {
    /// To read entries by position.
    #[inline]
    pub fn entries<'a>(&'a self, pm: &'a Pm) -> Entries<'a> {
        Entries::new(pm, self.archive.as_deref())
    }
}
