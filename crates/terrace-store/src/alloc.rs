//! Free space of one device, in DRAM.
//!
//! A device is divided into groups of `group_blocks`; a group is a bitmap (set: in use) behind its
//! own lock. Shards start in different groups and stay in theirs as long as it has room, so they
//! rarely meet.
//!
//! Invariants:
//! * A block is handed out only while its bit is clear, and taken back only while it is set. A
//!   block that is taken back twice had two owners on media: nobody can tell what else is wrong, so
//!   the volume must not be written any more (`freed_twice`).
//! * `free` is the number of clear bits in all groups.
//! * No run of clear bits of a group is longer than its `longest`.
//! * Before blocks are freed, the commit is durable after which nothing on media refers to them.
//! * Free space is not kept on media while mounted; a clean unmount writes it (see `checkpoint`), a
//!   crash rebuilds it.

use std::ops::Range;

use crate::error::{FsError, FsResult};
use crate::planted::{Bug, planted};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A run of blocks on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First block.
    pub start: u64,
    /// Blocks.
    pub len: u64,
}

/// Loads a group's bitmap words from the checkpoint when the group is first needed; `None` if it is
/// damaged, an error if it cannot be read now.
pub type GroupLoader = Box<dyn Fn(u64) -> FsResult<Option<Vec<u64>>> + Send + Sync>;

struct Group {
    /// `None`: still in the checkpoint.
    words: Option<Vec<u64>>,
    /// What was freed since, in blocks of the group, while the checkpoint could not be read.
    freed: Vec<Run>,
    free: u64,
    /// At most so many free blocks follow on each other: a search for more would be in vain.
    longest: u64,
    /// Where the next search starts, in blocks of the group, by [`Use`].
    cursors: [u64; 2],
}

/// What blocks are for. Searches for the one start far from those for the other, so that log pages
/// do not cut files into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Data of files.
    Data,
    /// Logs and tables.
    Metadata,
}

impl Use {
    /// Where in a group its blocks are looked for first.
    fn start(self, group_blocks: u64) -> u64 {
        match self {
            Use::Data => 0,
            Use::Metadata => group_blocks / 8 * 7,
        }
    }
}

impl Group {
    fn new(words: Option<Vec<u64>>, free: u64, group_blocks: u64) -> Self {
        Self {
            words,
            freed: Vec::new(),
            free,
            longest: group_blocks,
            cursors: [Use::Data, Use::Metadata].map(|what| what.start(group_blocks)),
        }
    }

    /// A run of `want` free blocks of a loaded group, the next from the cursor on; if there is none
    /// and not `exact`, the longest. `first`: where its use looks first. If `exact`, `longest` is
    /// not below `want`.
    fn find(&mut self, want: u64, exact: bool, cursor: u64, first: u64) -> Option<Run> {
        debug_assert!(!exact || want <= self.longest);
        let words = self.words.as_ref().expect("loaded");
        let most = want.min(self.longest);
        let mut longest: Option<Run> = None;
        for starts in [cursor..u64::MAX, first..cursor, 0..first.min(cursor)] {
            match find_run(words, starts, most) {
                Some(run) if run.len == most => return Some(run),
                Some(run) if longest.is_none_or(|longest| longest.len < run.len) => {
                    longest = Some(run);
                }
                _ => {}
            }
        }
        self.longest = longest.map_or(0, |run| run.len);
        longest.filter(|_| !exact)
    }
}

/// A number in cache lines of its own, two since processors fetch them in pairs. Threads that
/// change it do not slow down those that read what lies beside it in memory.
#[repr(align(128))]
struct OwnLine(AtomicU64);

/// Allocator of one device.
pub struct DeviceAlloc {
    group_blocks: u64,
    blocks: u64,
    groups: Vec<Mutex<Group>>,
    free: OwnLine,
    /// Group in which each shard allocates.
    homes: Vec<AtomicUsize>,
    loader: Option<GroupLoader>,
    /// Why a group could not be read the last time that one had to be.
    trouble: Mutex<Option<FsError>>,
    /// A group could not be loaded, or blocks are in use by nobody: this session must not write a
    /// checkpoint.
    damaged: AtomicBool,
    /// One more than a block that was taken back while it was free; 0: none was.
    freed_twice: AtomicU64,
}

impl std::fmt::Debug for DeviceAlloc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceAlloc")
            .field("blocks", &self.blocks)
            .field("free", &self.free.0)
            .finish_non_exhaustive()
    }
}

impl DeviceAlloc {
    /// From the bitmaps that a scan of the logs produced; `words` covers whole groups, bits past
    /// `blocks` are set here.
    pub fn from_bitmap(blocks: u64, group_blocks: u64, shards: usize, mut words: Vec<u64>) -> Self {
        let words_per_group = (group_blocks / 64) as usize;
        words.resize(blocks.div_ceil(group_blocks) as usize * words_per_group, 0);
        for block in blocks..words.len() as u64 * 64 {
            words[(block / 64) as usize] |= 1 << (block % 64);
        }
        let groups: Vec<_> = words
            .chunks(words_per_group)
            .map(|w| {
                let free = w.iter().map(|x| u64::from(x.count_zeros())).sum();
                Mutex::new(Group::new(Some(w.to_vec()), free, group_blocks))
            })
            .collect();
        Self::new(blocks, group_blocks, shards, groups, None)
    }

    /// From a checkpoint: free counts now, bitmaps when needed.
    pub fn from_summaries(
        blocks: u64,
        group_blocks: u64,
        shards: usize,
        free_counts: &[u32],
        loader: GroupLoader,
    ) -> Self {
        let groups = free_counts
            .iter()
            .map(|&free| Mutex::new(Group::new(None, u64::from(free), group_blocks)))
            .collect();
        Self::new(blocks, group_blocks, shards, groups, Some(loader))
    }

    fn new(
        blocks: u64,
        group_blocks: u64,
        shards: usize,
        groups: Vec<Mutex<Group>>,
        loader: Option<GroupLoader>,
    ) -> Self {
        let free = groups.iter().map(|g| g.lock().free).sum();
        let homes = (0..shards).map(|s| AtomicUsize::new(s * groups.len() / shards)).collect();
        Self {
            group_blocks,
            blocks,
            groups,
            free: OwnLine(AtomicU64::new(free)),
            homes,
            loader,
            trouble: Mutex::default(),
            damaged: false.into(),
            freed_twice: 0.into(),
        }
    }

    /// Blocks of the device.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks that nobody has.
    #[inline]
    pub fn free_blocks(&self) -> u64 {
        self.free.0.load(Ordering::Relaxed)
    }

    /// A run of up to `want` blocks for `shard`: one of exactly `want` if a group has it, else the
    /// longest that the first group with room offers. `None` if the device is full.
    pub fn alloc(&self, shard: usize, want: u64, what: Use) -> Option<Run> {
        debug_assert!(want > 0);
        let want = want.min(self.group_blocks);
        let home_slot = &self.homes[shard % self.homes.len()];
        let home = home_slot.load(Ordering::Relaxed);
        for exact in [true, false] {
            for i in 0..self.groups.len() {
                let g = (home + i) % self.groups.len();
                if let Some(run) = self.alloc_in_group(g, want, exact, what) {
                    if i != 0 {
                        home_slot.store(g, Ordering::Relaxed);
                    }
                    return Some(run);
                }
            }
            if want == 1 {
                break;
            }
        }
        None
    }

    fn alloc_in_group(&self, g: usize, want: u64, exact: bool, what: Use) -> Option<Run> {
        let mut group = self.groups[g].lock();
        let least = if exact { want } else { 1 };
        if group.free < least || group.longest < least || !self.is_loaded(g, &mut group) {
            return None;
        }
        let cursor = group.cursors[what as usize];
        let found = group.find(want, exact, cursor, what.start(self.group_blocks))?;
        if planted(Bug::AllocInTwoSteps) {
            drop(group);
            group = self.groups[g].lock();
        }
        set_bits(group.words.as_mut().expect("loaded"), found);
        group.free -= found.len;
        group.cursors[what as usize] = found.start + found.len;
        self.free.0.fetch_sub(found.len, Ordering::AcqRel);
        Some(Run { start: g as u64 * self.group_blocks + found.start, len: found.len })
    }

    fn is_loaded(&self, g: usize, group: &mut Group) -> bool {
        if group.words.is_some() {
            return true;
        }
        match self.loader.as_ref().map_or(Ok(None), |load| load(g as u64)) {
            Ok(Some(mut words)) => {
                for run in std::mem::take(&mut group.freed) {
                    let twice = run.len - self.clear(g, &mut words, run);
                    group.free -= twice;
                    self.free.0.fetch_sub(twice, Ordering::AcqRel);
                }
                group.words = Some(words);
                *self.trouble.lock() = None;
                true
            }
            Err(error) => {
                *self.trouble.lock() = Some(error);
                false
            }
            Ok(None) => {
                // A damaged bitmap: use the group for nothing and let the next mount rebuild it
                // from the logs.
                if !self.damaged.swap(true, Ordering::AcqRel) {
                    tracing::warn!(
                        "checkpoint: bitmap of group {g} is damaged; its free space is unusable \
                         until the next mount"
                    );
                }
                self.free.0.fetch_sub(group.free, Ordering::AcqRel);
                group.free = 0;
                group.freed.clear();
                false
            }
        }
    }

    /// Why free space cannot be found now although there is some.
    pub fn trouble(&self) -> Option<FsError> {
        self.trouble.lock().clone()
    }

    /// Clears the bits of a run of group `g`; returns how many were set.
    fn clear(&self, g: usize, words: &mut [u64], run: Run) -> u64 {
        let cleared = clear_bits(words, run);
        if cleared < run.len {
            self.freed_twice.store(g as u64 * self.group_blocks + run.start + 1, Ordering::Release);
        }
        cleared
    }

    /// Takes back a run; if some of it is free already, see [`Self::freed_twice`].
    pub fn free(&self, run: Run) {
        let mut start = run.start;
        let end = run.start + run.len;
        while start < end {
            let g = (start / self.group_blocks) as usize;
            let in_group = (end - start).min(self.group_blocks - start % self.group_blocks);
            let mut group = self.groups[g].lock();
            let part = Run { start: start % self.group_blocks, len: in_group };
            self.is_loaded(g, &mut group);
            let Group { words, longest, .. } = &mut *group;
            let taken = match words {
                Some(words) => {
                    let cleared = self.clear(g, words, part);
                    if *longest < self.group_blocks {
                        *longest = (*longest).max(clear_around(words, part));
                    }
                    cleared
                }
                // A damaged group takes nothing back.
                None if self.damaged.load(Ordering::Acquire) => 0,
                None => {
                    group.freed.push(part);
                    in_group
                }
            };
            group.free += taken;
            self.free.0.fetch_add(taken, Ordering::AcqRel);
            start += in_group;
        }
    }

    /// Takes the blocks of a run that nobody has; returns them.
    pub fn take_free(&self, run: Run) -> Vec<Run> {
        let (mut taken, end) = (Vec::<Run>::new(), (run.start + run.len).min(self.blocks));
        for block in run.start..end {
            let g = (block / self.group_blocks) as usize;
            let mut group = self.groups[g].lock();
            let one = Run { start: block % self.group_blocks, len: 1 };
            if !self.is_loaded(g, &mut group) || !is_clear(group.words.as_ref(), one.start) {
                continue;
            }
            set_bits(group.words.as_mut().expect("loaded"), one);
            group.free -= 1;
            self.free.0.fetch_sub(1, Ordering::AcqRel);
            match taken.last_mut() {
                Some(last) if last.start + last.len == block => last.len += 1,
                _ => taken.push(Run { start: block, len: 1 }),
            }
        }
        taken
    }

    /// Blocks were lost on the way: a checkpoint would not be true.
    pub fn forbid_checkpoint(&self) {
        self.damaged.store(true, Ordering::Release);
    }

    /// Whether a checkpoint of this allocator would be false.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire) || self.freed_twice().is_some()
    }

    /// The start of a run that was taken back although some of it was free: it had two owners.
    #[inline]
    pub fn freed_twice(&self) -> Option<u64> {
        self.freed_twice.load(Ordering::Acquire).checked_sub(1)
    }

    /// Allocation groups.
    pub fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Reads the bitmap of a group from the checkpoint and tells whether it is whole, or why it
    /// cannot be read; `None` for a group that is loaded: nobody will read its bitmap any more. A
    /// damaged one is out of use from then on, as if it had been needed.
    pub fn verify_checkpointed(&self, g: u64) -> Option<FsResult<bool>> {
        let loader = self.loader.as_ref()?;
        let group = &self.groups[g as usize];
        if group.lock().words.is_some() {
            return None;
        }
        // Not under the lock: others allocate meanwhile.
        Some(match loader(g) {
            Ok(None) => Ok(self.is_loaded(g as usize, &mut group.lock())),
            read => read.map(|_| true),
        })
    }

    /// Visits every group's bitmap words and free count; `None` for one that was never loaded (it
    /// is as it was in the checkpoint).
    ///
    /// # Errors
    /// A group that has changed cannot be read.
    pub fn visit_groups(&self, mut visit: impl FnMut(u64, Option<&[u64]>, u64)) -> FsResult<()> {
        for (g, group) in self.groups.iter().enumerate() {
            let mut group = group.lock();
            if !group.freed.is_empty() && !self.is_loaded(g, &mut group) {
                let damaged = "checkpoint: a bitmap is damaged";
                return Err(self
                    .trouble()
                    .unwrap_or_else(|| FsError::with_message(libc::EIO, damaged)));
            }
            visit(g as u64, group.words.as_deref(), group.free);
        }
        Ok(())
    }

    /// Visits every run of blocks in use, in order.
    pub fn visit_used(&self, mut visit: impl FnMut(Run)) {
        for (g, group) in self.groups.iter().enumerate() {
            let mut group = group.lock();
            if !self.is_loaded(g, &mut group) {
                continue;
            }
            let words = group.words.as_ref().expect("loaded");
            let base = g as u64 * self.group_blocks;
            let limit = self.group_blocks.min(self.blocks - base);
            let mut at = 0;
            while let Some(start) = next_bit(words, at, true).filter(|&s| s < limit) {
                let end = next_bit(words, start, false).unwrap_or(limit).min(limit);
                visit(Run { start: base + start, len: end - start });
                at = end;
            }
        }
    }
}

fn is_clear(words: Option<&Vec<u64>>, block: u64) -> bool {
    words.is_some_and(|words| words[(block / 64) as usize] >> (block % 64) & 1 == 0)
}

/// First block at or after `from` whose bit is `set`.
fn next_bit(words: &[u64], from: u64, set: bool) -> Option<u64> {
    let mut index = (from / 64) as usize;
    let mut mask = !0u64 << (from % 64);
    while index < words.len() {
        let word = if set { words[index] } else { !words[index] } & mask;
        if word != 0 {
            return Some(index as u64 * 64 + u64::from(word.trailing_zeros()));
        }
        index += 1;
        mask = !0;
    }
    None
}

/// End of the run of clear bits that starts at `start`, no farther than `limit`.
fn run_end(words: &[u64], start: u64, limit: u64) -> u64 {
    let last = limit.div_ceil(64) as usize;
    next_bit(&words[..last], start, true).map_or(limit, |end| end.min(limit))
}

/// How many clear bits follow on each other around a run of them.
fn clear_around(words: &[u64], run: Run) -> u64 {
    let end = next_bit(words, run.start, true).unwrap_or(words.len() as u64 * 64);
    let mut index = (run.start / 64) as usize;
    // The bits of this word below the run, then whole words.
    let mut set = words[index] & !(!0 << (run.start % 64));
    while set == 0 && index > 0 {
        index -= 1;
        set = words[index];
    }
    end - (index as u64 * 64 + u64::from(64 - set.leading_zeros()))
}

/// The first run of `want` clear bits that starts in `starts`; if there is none, the longest.
fn find_run(words: &[u64], starts: Range<u64>, want: u64) -> Option<Run> {
    let total = words.len() as u64 * 64;
    let mut longest: Option<Run> = None;
    let mut at = starts.start;
    while let Some(start) = next_bit(words, at, false).filter(|&start| start < starts.end) {
        let end = run_end(words, start, (start + want).min(total));
        let run = Run { start, len: end - start };
        if run.len == want {
            return Some(run);
        }
        if longest.is_none_or(|longest| longest.len < run.len) {
            longest = Some(run);
        }
        at = end;
    }
    longest
}

fn for_masks(run: Run, mut each: impl FnMut(usize, u64)) {
    let (mut at, end) = (run.start, run.start + run.len);
    while at < end {
        let bits = (64 - at % 64).min(end - at);
        let mask = (!0u64 >> (64 - bits)) << (at % 64);
        each((at / 64) as usize, mask);
        at += bits;
    }
}

fn set_bits(words: &mut [u64], run: Run) {
    for_masks(run, |w, mask| {
        assert!(words[w] & mask == 0, "block allocated twice");
        words[w] |= mask;
    });
}

/// Returns how many of them were set.
fn clear_bits(words: &mut [u64], run: Run) -> u64 {
    let mut cleared = 0;
    for_masks(run, |w, mask| {
        cleared += u64::from((words[w] & mask).count_ones());
        words[w] &= !mask;
    });
    cleared
}

#[cfg(test)]
mod tests;
