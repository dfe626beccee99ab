//! Where a write goes: the papers' decision tree (TPFS, figure 3), asked of `terrace-policy`, and
//! what it learns from each write.

use terrace_layout::{BLOCK_BYTES, FILE_BYTES_MAX, History};
use terrace_policy::{
    ColdCut, Judged, Moment, Overlap, Param, Pressure, Rule, Stroke, Target, is_large,
    is_read_dominated, next_counter, prefers_disk, room_wanted,
};
use terrace_store::error::{FsError, FsResult};
use terrace_store::file::FileData;
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use crate::base::counters::{Counter, Counters};
use crate::base::options::OpenOptions;
use crate::base::tuning::Tuning;
use crate::base::types::{FileOpinion, Ino, Time};
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::kin::Kin;
use crate::inode::resident::Inode;
use crate::inode::store::Store;
use crate::inode::table::Inodes;

/// What was decided about a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub target: Target,
    /// What decided.
    pub rule: Rule,
    /// The counter of the write-size predictor that comes with it.
    pub counter: u8,
}

/// A write, as far as its place depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// First byte, and the one behind the last.
    pub offset: u64,
    pub end: u64,
    /// It is durable when it returns, wherever it goes.
    pub durable: bool,
    /// The newest version of some of its blocks, or the end of the file, is dirty in the page
    /// cache, and must be in one place.
    pub joins_dirty: bool,
    /// The tier that the file is pinned to.
    pub pin: Option<u8>,
    /// It is one of those that go past PM if a disk takes them sooner.
    pub has_turn_past: bool,
}

impl Write {
    fn blocks(&self) -> u64 {
        self.end.div_ceil(BLOCK_BYTES) - self.offset / BLOCK_BYTES
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Placement {
    pub store: Arc<Store>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub inodes: Arc<Inodes>,
    pub kin: Arc<Kin>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub options: Arc<OpenOptions>,
}

impl Placement {
    /// See [`Volume::rehearse_placement`](crate::Volume::rehearse_placement).
    pub fn rehearse(&self, ino: Ino, offset: u64, len: u64, times: u32) -> FsResult<()> {
        let inode = self.inodes.get(ino)?;
        let mut inner = inode.exclusive()?;
        let file = inner.file_mut()?.1;
        let end = offset
            .checked_add(len)
            .filter(|&end| end <= FILE_BYTES_MAX)
            .ok_or(FsError::new(libc::EFBIG))?;
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        for _ in 0..times {
            let joins_dirty =
                file.size > file.committed || self.cache.is_dirty(&inode.pages, from, to);
            let pin = inode.tiers.pin.get();
            let write =
                Write { offset, end, durable: true, joins_dirty, pin, has_turn_past: false };
            let choice = self.choose(file, write)?;
            file.heat.wrote(to - from, file.index.data_blocks(), file.mtime);
            self.learn_from(&inode, file, write, choice, 0);
            self.activity.note_data_in(&inode, 0);
            self.activity.note_pm_use(inode.shard);
        }
        Ok(())
    }

    /// Where a write goes.
    ///
    /// # Errors
    /// Fatal ones.
    #[inline]
    pub fn choose(&self, file: &FileData, write: Write) -> FsResult<Choice> {
        let counter = self.write_counter(file, write);
        let choice = |target, rule| Ok(Choice { target, rule, counter });
        if write.joins_dirty {
            return choice(Target::PageCache, Rule::JoinsDirty);
        }
        let synchronous = write.durable || file.habits.is_synchronous();
        let large = write.pin.is_none()
            && counter > 0
            && is_large(u16::from(counter), &self.tuning.params());
        // A disk that is full is no better place than PM.
        let prefers_disk =
            write.pin.map_or_else(|| prefers_disk(synchronous, large), |tier| tier > 0);
        let as_preferred = |otherwise| if write.pin.is_some() { Rule::Pinned } else { otherwise };
        if prefers_disk && self.store.space.disk_takes(write.blocks()) {
            return choice(Target::PageCache, as_preferred(Rule::LargeAsync));
        }
        if write.pin.is_none() && self.pm_refuses(file, write) {
            return choice(Target::PageCache, Rule::Bulk);
        }
        let in_pm = match (write.durable, synchronous) {
            _ if prefers_disk => Rule::DisksFull,
            (true, _) => Rule::Durable,
            (false, true) => Rule::Synchronous,
            (false, false) => Rule::Small,
        };
        // Most often PM has room for more than the write can need; else what it needs is looked at
        // closely.
        if self.pm_takes(write.blocks() + 1, write.pin)? {
            return match self.goes_past(file, write) {
                true => choice(Target::PageCache, Rule::Past),
                false => choice(Target::Pm, as_preferred(in_pm)),
            };
        }
        match file.needs_no_pm_block(write.offset, write.end, self.store.data_crc) {
            true => choice(Target::Pm, as_preferred(Rule::OwnBlocks)),
            false => choice(Target::PageCache, Rule::PmFull),
        }
    }

    /// Whether PM takes so many blocks more of a file that is pinned to this tier, or to none.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn pm_takes(&self, blocks: u64, pin: Option<u8>) -> FsResult<bool> {
        let (placement, wanted) = (self.store.space.placement, room_wanted(blocks));
        let has_room = |pm| placement.place_write(pm, blocks, false) == Target::Pm;
        // Most often without a look at what can be reclaimed.
        if has_room(self.store.space.pm_space()) || has_room(self.inodes.pm_space(blocks)?) {
            return Ok(true);
        }
        // Only who has another place to go to leaves room to others.
        let yields = wanted == blocks || (pin.is_none() && self.store.space.disk_takes(blocks));
        Ok(!yields && self.store.space.room_for_data() >= blocks)
    }

    /// Whether PM is so full that the write would have to leave it at once, and nobody waits for
    /// it.
    fn pm_refuses(&self, file: &FileData, write: Write) -> bool {
        let floor = self.activity.floor_blocks.load(Ordering::Relaxed);
        !write.durable
            && self.store.space.pm().free_blocks() < floor + write.blocks()
            && self.kin.is_bulk(file)
            && self.store.space.disk_takes(write.blocks())
            && !file.needs_no_pm_block(write.offset, write.end, self.store.data_crc)
    }

    /// Whether the write goes past PM although there is room: a disk takes it sooner, for all that
    /// it or an fsync has to wait for a flush.
    fn goes_past(&self, file: &FileData, write: Write) -> bool {
        write.has_turn_past
            && self.store.space.disk_takes(write.blocks())
            && !file.needs_no_pm_block(write.offset, write.end, self.store.data_crc)
    }

    fn write_counter(&self, file: &FileData, write: Write) -> u8 {
        let blocks = write.blocks();
        if blocks < self.tuning.get(Param::LargeBlocks) {
            return 0;
        }
        let from = write.offset / BLOCK_BYTES;
        let (cached, rest) = file.cached.split(from, from + blocks);
        let on_media = rest.into_iter().flat_map(|gap| file.index.overlaps(gap.start, gap.end));
        let on_media = on_media
            .map(|(_, e)| Overlap { counter: e.counter().into(), area_blocks: e.area_blocks() });
        next_counter(blocks, cached.into_iter().chain(on_media), &self.tuning.params()) as u8
    }

    /// What the policy makes of a file.
    pub fn opinion_of(&self, inode: &Inode, file: &FileData) -> FileOpinion {
        let (params, now) = (self.tuning.params(), Time::now());
        let age = |time_ns: i64| now.0.saturating_sub(time_ns).max(0) as u64 / 1_000_000_000;
        let read_time = inode.reading.mean_time_ns();
        let reads = inode.reading.blocks_read_since_write();
        FileOpinion {
            synchronous: self.options.durable || file.habits.is_synchronous(),
            read_dominated: is_read_dominated(reads, file.size.div_ceil(BLOCK_BYTES), &params),
            bulk: !self.options.durable && self.kin.is_bulk(file),
            brief: file.life.is_brief(now.0),
            cold: file.heat.cold(Pressure::Low, Moment::at(now.0), &params) == Some(ColdCut::Whole),
            mean_write_age_seconds: (file.index.data_blocks() > 0).then(|| age(file.heat.mean().0)),
            mean_read_age_seconds: (read_time != 0).then(|| age(read_time)),
        }
    }

    /// A write has been placed: the file's habits follow, and what is counted and kept in view of
    /// migration. `len` bytes count as written.
    pub fn learn_from(
        &self,
        inode: &Inode,
        file: &mut FileData,
        write: Write,
        choice: Choice,
        len: u64,
    ) {
        inode.reading.note_written();
        self.counters.add(Counter::of_rule(choice.rule), len);
        if choice.rule == Rule::PmFull {
            self.activity.note_pm_full(inode.shard);
        }
        self.note_written(file, write);
        let stroke = Stroke { offset: write.offset, len, durable: write.durable };
        let shown = file.life.wrote(stroke, self.tuning.get(Param::AwaitBytes));
        self.kin.note(file, shown);
        self.kin.rank(&inode.tiers, file, file.mtime);
        self.activity.shards[inode.shard].recent.note(inode.ino);
        self.activity.note_traffic();
    }

    fn note_written(&self, file: &mut FileData, write: Write) {
        let threshold = self.tuning.get(Param::SyncBlocks);
        let judged = match write.durable {
            true => file.habits.wrote_synchronously(threshold),
            false => file.habits.wrote(write.blocks(), threshold),
        };
        self.count_predictions(judged);
    }

    /// The file has been synced: its habits follow.
    pub fn note_synced(&self, file: &mut FileData) {
        let judged = file.habits.synced(self.tuning.get(Param::SyncBlocks));
        self.count_predictions(judged);
        let shown = file.life.synced(self.tuning.get(Param::AwaitBytes));
        self.kin.note(file, shown);
    }

    fn count_predictions(&self, judged: Judged) {
        if judged.right > 0 {
            self.counters.add(Counter::PredictedRight, judged.right.into());
        }
        if judged.wrong > 0 {
            self.counters.add(Counter::PredictedWrong, judged.wrong.into());
        }
    }
}

/// What the entry of a write says of it to the predictor.
pub(crate) fn history_of(choice: Choice, write: Write) -> u16 {
    History::new(choice.counter, write.blocks(), choice.rule.number()).to_word()
}
