//! What a volume says of itself: status, statistics, rankings, recordings.

use std::path::Path;

use terrace_store::error::FsResult;
use terrace_trace::{Facts, Operation, TierFacts};

use super::Volume;
use crate::base::recorder::{Recorded, Recording, Span};
use crate::base::types::{Fallocate, FileMap, Ino, MapFrom, Status, Time, WriteOptions};
use crate::base::why::FileWhy;
use crate::tools::ranking::FileRanking;
use crate::tools::stats::Stats;

impl Volume {
    /// Where the volume's PM is.
    pub fn pm_path(&self) -> &Path {
        self.parts.store.pm.path()
    }

    /// Devices, tiers, usage, health.
    pub fn status(&self) -> Status {
        let mut status = self.reports.status();
        status.notes.extend(self.undone.clone());
        status.scrub = self.scrubs.status();
        status
    }

    /// Where a file's data lies.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` for what has no data.
    pub fn file_map(&self, ino: Ino) -> FsResult<FileMap> {
        self.reports.file_map(ino, MapFrom::default(), usize::MAX)
    }

    /// As [`Self::file_map`], a part: of extents, and of stretches that are dirty in memory, the
    /// first `most` each from there on. It takes as much time as its length, however many there are
    /// before it and behind it.
    ///
    /// # Errors
    /// As [`Self::file_map`].
    pub fn file_map_part(&self, ino: Ino, from: MapFrom, most: usize) -> FsResult<FileMap> {
        self.reports.file_map(ino, from, most)
    }

    /// Why a file's data lies where it does, and what would move it. Takes as long as the file has
    /// extents, and keeps nobody waiting for long.
    ///
    /// # Errors
    /// As [`Self::file_map`].
    pub fn file_why(&self, ino: Ino) -> FsResult<FileWhy> {
        self.reports.file_why(ino)
    }

    /// How full the volume is, and what it has done since it was opened. Takes microseconds and
    /// waits for nobody.
    pub fn stats(&self) -> Stats {
        self.reports.stats()
    }

    /// The files that are used most and least. Takes some milliseconds, however many files there
    /// are: the hottest are found among 256 of each shard that were used lately, the coldest among
    /// 64 that head each list of cold files, and paths that are not known yet among some 16,000
    /// names with each question.
    pub fn file_ranking(&self) -> FileRanking {
        self.ranking.file_ranking()
    }

    /// Begins to record what the volume is asked to do. Ends when [`Self::take_recorded`] is told
    /// to stop. Nothing is lent meanwhile: no call of a program is missed.
    ///
    /// # Errors
    /// `EALREADY`: somebody records already.
    pub fn start_recording(&self) -> FsResult<Recording> {
        let facts = self.facts()?;
        let token = self.parts.recorder.start()?;
        self.parts.lending.take_back_all();
        Ok(Recording { token, facts })
    }

    /// The next block of the recording called `token`, of about `block_bytes` bytes at most. With
    /// `stop` nothing more is recorded, and once an empty block was returned the recording is over.
    ///
    /// # Errors
    /// `ECANCELED`: that recording is over.
    pub fn take_recorded(&self, token: u64, stop: bool, block_bytes: usize) -> FsResult<Recorded> {
        self.parts.recorder.take(token, stop, block_bytes)
    }

    fn facts(&self) -> FsResult<Facts> {
        let options = &self.parts.options;
        let tiers = self.stats().tiers.into_iter().map(|tier| TierFacts {
            tier: tier.tier,
            capacity_bytes: tier.capacity_bytes,
            used_bytes: tier.used_bytes,
        });
        Ok(Facts {
            program: env!("CARGO_PKG_VERSION").into(),
            started_unix_ns: Time::now().0,
            tiers: tiers.collect(),
            cache_bytes: options.cache_bytes,
            pm_full_percent: options.pm_full_percent,
            writeback_seconds: options.writeback_seconds,
            durable: options.durable,
        })
    }

    /// Records a write of `len` bytes that was done. Where an append landed is known only
    /// afterwards.
    #[inline]
    pub(crate) fn note_write(
        &self,
        span: Option<Span>,
        ino: Ino,
        offset: u64,
        len: usize,
        options: WriteOptions,
    ) {
        if span.is_some() {
            let len = len as u64;
            let end = if options.append {
                self.parts.attributes.getattr(ino).map(|attr| attr.size).ok()
            } else {
                None
            };
            let offset = end.map_or(offset, |end| end.saturating_sub(len));
            let durable = options.durable || self.parts.options.durable;
            self.parts.recorder.note(span, Operation::Write, ino, (offset, len), durable);
        }
    }

    #[inline]
    pub(crate) fn note_fallocate(
        &self,
        span: Option<Span>,
        mode: Fallocate,
        ino: Ino,
        offset: u64,
        len: u64,
    ) {
        let operation = match mode {
            Fallocate::Allocate => Operation::Allocate,
            // Neither data nor size: nothing that placement sees.
            Fallocate::AllocateKeepSize => return,
            Fallocate::PunchHole | Fallocate::ZeroRangeKeepSize => Operation::Deallocate,
            Fallocate::ZeroRange => {
                let part = span.map(Span::untimed);
                self.parts.recorder.note(part, Operation::Deallocate, ino, (offset, len), false);
                Operation::Allocate
            }
        };
        self.parts.recorder.note(span, operation, ino, (offset, len), false);
    }
}
