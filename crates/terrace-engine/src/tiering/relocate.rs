//! Moving a file's data to another tier, while programs go on using the file: copy, validate,
//! publish.
//!
//! 1. Under the inode's lock, for a moment: the runs to copy are looked up, and from now on the
//!    file notes which blocks are changed. `Inode::moving` stays locked until the end: one move at
//!    a time.
//! 2. Without the inode's lock: the data is read (and verified, where it has checksums), written to
//!    its new place, and made durable.
//! 3. Under the lock again: copies of blocks that were changed meanwhile are given up, the others
//!    are committed, a buffer at a time. Then their old places are free.
//!
//! Small pieces of several files are copied together: they are written side by side, and one flush
//! makes all of them durable.
//!
//! So no program waits for a disk because its file moves. A crash may leave a file partly moved,
//! but each block is valid in one place: the old one or the new one. The copy may hold garbage if a
//! block was freed and used anew while it was read; but then it has been overtaken, too, and its
//! copy is given up.

mod ahead;
pub(crate) mod buffers;
mod commit;
pub(crate) mod route;
mod together;

use std::ops::Range;

use terrace_layout::{BLOCK_BYTES, WriteEntry, data_crc};
use terrace_policy::{ColdCut, Rule};
use terrace_store::error::{FsError, FsResult};
use terrace_store::file::{BLOCK, DataRun, covered_bytes, read_write_entry};
use terrace_store::index::Extent;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Tiers;
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, MutexGuard, spawn_scoped, thread};

use self::ahead::ReadAhead;
use self::buffers::{BUFFER_BLOCKS, Buffer, Buffers, Copied};
use crate::base::counters::{Counter, Counters};
use crate::inode::activity::Activity;
use crate::inode::cache::{BlankPage, PageCache};
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::health::Health;
use crate::inode::resident::{Inner, Inode};
use crate::inode::store::Store;
use crate::inode::wear::{Permit, Wear};
use crate::pageio::PageIo;
use crate::pageio::fetch::Checksums;
use crate::pageio::runs::{Destination, Placed};
use crate::tiering::conditions::Conditions;

/// Blocks of a file that are looked at together when all of it moves, and made durable together: 64
/// MiB.
pub(crate) const STRETCH_BLOCKS: u64 = 16384;

/// Which of a file's extents move.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// By where they are.
    pub there: &'a (dyn Fn(&Extent) -> bool + Sync),
    /// By the time of their entries, if that matters; asked of those only.
    pub such: Option<ColdCut>,
}

/// Stretches of a file and where they are to go.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// File blocks, ascending; at least one stretch.
    pub stretches: &'a [Range<u64>],
    pub wanted: Wanted<'a>,
    /// The first is 0 for PM.
    pub tiers: Tiers,
    /// Copies of what goes to a disk are left in the page cache, if there is room without writing
    /// back.
    pub keep_cached: bool,
    /// Why it moves.
    pub rule: Rule,
}

/// A piece of the stretch as it was looked up.
struct SourceRun {
    block: u64,
    extent: Extent,
    entry: WriteEntry,
    checksums: Checksums,
}

/// A move under way.
struct Relocation<'a> {
    inode: &'a Arc<Inode>,
    order: Order<'a>,
    /// What is allocated and holds nothing.
    reserved: Vec<SourceRun>,
    /// What is copied, ascending.
    written: Vec<SourceRun>,
    /// Size of the file.
    committed: u64,
    _alone: MutexGuard<'a, ()>,
}

/// Pieces of a file that are read into a buffer.
#[derive(Clone, Copy)]
struct Part<'a> {
    /// The file's number among those that are copied together.
    number: usize,
    inode: &'a Inode,
    pieces: &'a [SourceRun],
    /// Size of the file.
    committed: u64,
    /// The parts of the buffer that have been read ahead.
    ahead: &'a ReadAhead,
}

/// Copies that went through one buffer, to be committed together.
struct Copy<'a> {
    /// What was copied, ascending.
    pieces: &'a [SourceRun],
    runs: Vec<DataRun>,
    /// Pages for the cache.
    kept: Vec<(u64, BlankPage)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Relocator {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub devices: Arc<DeviceTable>,
    pub conditions: Arc<Conditions>,
    pub pages: Arc<PageIo>,
    pub counters: Arc<Counters>,
    pub wear: Arc<Wear>,
    pub buffers: Buffers,
}

impl Inode {
    /// Takes the next stretch with something wanted in it off the front of `rest`; `None` if there
    /// is nothing more.
    ///
    /// # Panics
    /// If a loop over the stretches would not get on: nobody would ever end it.
    pub fn next_stretch(
        &self,
        rest: &mut Range<u64>,
        is_wanted: &dyn Fn(&Extent) -> bool,
    ) -> FsResult<Option<Range<u64>>> {
        let inner = self.shared()?;
        let mut extents = inner.file()?.index.overlaps(rest.start, rest.end);
        let Some((first, _)) = extents.find(|(_, extent)| is_wanted(extent)) else {
            return Ok(None);
        };
        let start = first.max(rest.start);
        let stretch = start..start.saturating_add(STRETCH_BLOCKS).min(rest.end);
        assert!(!stretch.is_empty(), "inode {}: nothing is left to move in {rest:?}", self.ino.0);
        rest.start = stretch.end;
        Ok(Some(stretch))
    }
}

/// The outcome of a relocation. Other blocks stay where they are.
#[derive(Debug)]
pub(crate) struct Moved {
    /// Blocks that are elsewhere now.
    pub blocks: u64,
    /// The error that kept others from moving.
    pub failed: FsResult<()>,
}

impl Moved {
    /// How many blocks moved, if nothing kept others from it.
    pub fn all(self) -> FsResult<u64> {
        self.failed.map(|()| self.blocks)
    }

    /// Something could not be moved; the first such error counts, unless a later one is fatal.
    fn note_failure(&mut self, error: FsError) {
        if self.failed.is_ok() || error.is_fatal() {
            self.failed = Err(error);
        }
    }

    /// Goes on with a step that moves some more, unless one before it failed.
    fn go_on(&mut self, step: impl FnOnce() -> FsResult<u64>) {
        if self.failed.is_ok() {
            match step() {
                Ok(blocks) => self.blocks += blocks,
                Err(error) => self.failed = Err(error),
            }
        }
    }
}

impl Relocator {
    /// Relocates the wanted extents of some stretches, all at once. Relocations of one file wait
    /// for one another. It fails with `ENOSPC` where data was to go, `EIO` with the place that
    /// cannot be read or written, `ESTALE` if the file is gone.
    pub fn relocate(&self, inode: &Arc<Inode>, order: Order<'_>) -> Moved {
        let permit = match self.permit_for(&[order]) {
            Ok(permit) => permit,
            Err(error) => return Moved { blocks: 0, failed: Err(error) },
        };
        let begun = match self.begin(inode, order, permit.blocks(), inode.moving.lock()) {
            Ok(Some(begun)) => begun,
            nothing => return Moved { blocks: 0, failed: nothing.map(drop) },
        };
        let (copies, copied) = self.copy_all(&begun, &permit);
        let mut moved = self.commit_copies(&begun, copies);
        moved.go_on(|| self.move_reserved(&begun));
        let ended = inode.inner.write().file_mut().map(|(_, file)| file.end_relocation());
        Moved { failed: moved.failed.and(ended).and(copied), ..moved }
    }

    /// What may be written of orders that go to the same tiers, for the same reason.
    fn permit_for(&self, orders: &[Order<'_>]) -> FsResult<Permit> {
        let stretches = orders.iter().flat_map(|order| order.stretches);
        let blocks = stretches.fold(0u64, |sum, s| sum.saturating_add(s.end - s.start));
        let Order { tiers, rule, .. } = orders[0];
        self.wear.ask(tiers, Counter::of_rule(rule), blocks)
    }

    /// Looks up what is to move, up to `most` blocks; from now on it is noted who changes it.
    fn begin<'a>(
        &self,
        inode: &'a Arc<Inode>,
        order: Order<'a>,
        most: u64,
        alone: MutexGuard<'a, ()>,
    ) -> FsResult<Option<Relocation<'a>>> {
        let mut inner = inode.exclusive()?;
        let pieces = self.pieces(inode, &inner, order, most)?;
        if pieces.is_empty() {
            return Ok(None);
        }
        // Data without a place to go is not even read.
        if self.store.space.room_for(order.tiers) == 0 {
            return Err(FsError::new(libc::ENOSPC));
        }
        let (reserved, written) = pieces.into_iter().partition(|piece| piece.extent.unwritten());
        let (_, file) = inner.file_mut()?;
        let from = order.stretches.iter().map(|stretch| stretch.start).min().expect("a stretch");
        let to = order.stretches.iter().map(|stretch| stretch.end).max().expect("a stretch");
        file.begin_relocation(from, to - from);
        Ok(Some(Relocation {
            inode,
            order,
            reserved,
            written,
            committed: file.committed,
            _alone: alone,
        }))
    }

    /// Looks up what is wanted, up to `most` blocks.
    fn pieces(
        &self,
        inode: &Inode,
        inner: &Inner,
        order: Order<'_>,
        most: u64,
    ) -> FsResult<Vec<SourceRun>> {
        let (file, entries) = (inner.file()?, inner.log.entries(&self.store.pm));
        let overlaps = |s: &Range<u64>| {
            file.index.overlaps(s.start, s.end).map({
                let s = s.clone();
                move |found| (s.clone(), found)
            })
        };
        // Data for which none of the tiers has room stays. With an open end of tiers, their room is
        // not known beforehand.
        let mut room = if order.tiers.last == u8::MAX {
            u64::MAX
        } else {
            self.store.space.room_for(order.tiers)
        };
        room = room.min(most);
        let mut pieces = Vec::new();
        for (stretch, (start, whole)) in order.stretches.iter().flat_map(overlaps) {
            let (a, b) =
                (start.max(stretch.start), (start + u64::from(whole.blocks)).min(stretch.end));
            let b = b.min(a.saturating_add(room));
            if a == b {
                break;
            }
            let extent = whole.part(a - start, b - a);
            // The newest version of a dirty block is on its way to a disk anyway.
            if !(order.wanted.there)(&extent) || self.cache.is_dirty(&inode.pages, a, b) {
                continue;
            }
            let entry = read_write_entry(entries, extent.entry())?;
            if order.wanted.such.is_some_and(|cut| !cut.is_cold(entry.mtime_ns)) {
                continue;
            }
            room -= b - a;
            for block in (a..b).step_by(BUFFER_BLOCKS as usize) {
                let extent = extent.part(block - a, (b - block).min(BUFFER_BLOCKS));
                let checksums = self.pages.checksums_of(entries, &extent, &entry, block)?;
                pieces.push(SourceRun { block, extent, entry, checksums });
            }
        }
        Ok(pieces)
    }

    /// Copies pieces to where they go, a buffer at a time. Pieces that cannot be read do not keep
    /// the others. A write that fails ends it: the copies made before count.
    fn copy_all<'a>(
        &self,
        begun: &'a Relocation<'_>,
        permit: &Permit,
    ) -> (Vec<Copy<'a>>, FsResult<()>) {
        let Relocation { inode, committed, .. } = *begun;
        let parts = buffers_of(&begun.written);
        let longest = parts.iter().map(|pieces| blocks_of(pieces)).max().unwrap_or(0);
        let ahead = &ReadAhead::default();
        let fill = |buffer: &mut Buffer, pieces| {
            self.fill(buffer, Part { number: 0, inode, pieces, committed, ahead })
        };
        self.copy_in_turn(&parts, longest, fill, |pieces, full| {
            self.place(begun, pieces, full, permit)
        })
    }

    /// Copies parts, of at most so many blocks each, one after the other: while one is placed, the
    /// next is read into another buffer. The first failure is returned; one to place a part ends
    /// it.
    fn copy_in_turn<T: Clone + Send, C>(
        &self,
        parts: &[T],
        longest_blocks: u64,
        fill: impl Fn(&mut Buffer, T) -> FsResult<()> + Sync,
        place: impl Fn(T, &Buffer) -> FsResult<C>,
    ) -> (Vec<C>, FsResult<()>) {
        let mut full = self.buffers.take(longest_blocks);
        let mut next = self.buffers.take(if parts.len() > 1 { longest_blocks } else { 0 });
        let mut copies = Vec::new();
        full.blocks.clear();
        let mut failed = parts.first().cloned().map_or(Ok(()), |part| fill(&mut full, part));
        for (i, part) in parts.iter().enumerate() {
            let following = parts.get(i + 1);
            let (placed, read) = thread::scope(|scope| {
                next.blocks.clear();
                let fill_next = following.cloned().map(|part| || fill(&mut next, part));
                let reader = fill_next.and_then(|fill_next| spawn_scoped(scope, fill_next));
                let placed = place(part.clone(), &full);
                (placed, reader.map(|reader| reader.join().expect("a copy does not panic")))
            });
            // The system may have no thread to spare.
            let read_now = || following.cloned().map_or(Ok(()), |part| fill(&mut next, part));
            let read = read.unwrap_or_else(read_now);
            match placed {
                Ok(copy) => copies.push(copy),
                Err(error) => {
                    failed = failed.and(Err(error));
                    break;
                }
            }
            failed = failed.and(read);
            std::mem::swap(&mut full, &mut next);
        }
        self.buffers.give_back(full);
        self.buffers.give_back(next);
        (copies, failed)
    }

    /// Writes what a buffer holds to where it goes.
    fn place<'a>(
        &self,
        begun: &'a Relocation<'_>,
        pieces: &'a [SourceRun],
        buffer: &Buffer,
        permit: &Permit,
    ) -> FsResult<Copy<'a>> {
        let Relocation { inode, order, committed, .. } = *begun;
        let copied = self.not_overtaken(inode, buffer.copied());
        let placed = match order.tiers.first {
            _ if copied.is_empty() => Vec::new(),
            0 => self.pages.store_in_pm(inode.shard, &copied, committed),
            _ => self.write_to_tiers(inode.shard, &copied, order.tiers, permit)?,
        };
        placed.iter().for_each(|run| permit.wrote(run.addr.device(), run.blocks()));
        let kept = self.copies_to_keep(inode, order, copied.iter());
        Ok(Copy { pieces, runs: placed.iter().map(Placed::run).collect(), kept })
    }

    /// The copies of a file without those of blocks that were changed or removed meanwhile: they
    /// need not be written.
    fn not_overtaken<'a>(&self, inode: &Inode, mut copied: Vec<Copied<'a>>) -> Vec<Copied<'a>> {
        let all = copied.len();
        let inner = inode.inner.read();
        let Ok(file) = inner.file() else { return Vec::new() };
        let gone = is_gone(inode);
        copied.retain(|copy| !gone && file.is_current(copy.block));
        let overtaken = (all - copied.len()) as u64;
        self.counters.add(Counter::MigrationsOvertaken, overtaken * BLOCK_BYTES);
        copied
    }

    /// Reads pieces into a buffer, behind what it has, as many as can be read.
    ///
    /// # Errors
    /// The first piece's that cannot be read, and that nobody has overtaken.
    fn fill(&self, buffer: &mut Buffer, part: Part<'_>) -> FsResult<()> {
        let Part { number, inode, pieces, committed, ahead } = part;
        let mut failed = Ok(());
        for piece in pieces {
            let at = buffer.blocks.len() * BLOCK;
            let len = piece.extent.blocks as usize * BLOCK;
            let read_to = ahead.place_of(piece.extent.addr);
            // It comes closer by the pieces before it that could not be read.
            if let Some(from) = read_to.filter(|&from| from > at) {
                buffer.bytes.copy_within(from..from + len, at);
            }
            let data = &mut buffer.bytes[at..at + len];
            match self.copy_piece(piece, committed, data, read_to.is_some()) {
                Ok(crcs) => buffer
                    .blocks
                    .extend((0..).zip(crcs).map(|(i, crc)| (number, piece.block + i, crc))),
                // Blocks that were freed meanwhile may hold anything.
                Err(_) if was_overtaken(inode, piece) => {}
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Reads a piece as programs would, with zeros beyond the committed end of the file; returns
    /// the checksums of its blocks. `is_read`: it has been read ahead.
    fn copy_piece(
        &self,
        piece: &SourceRun,
        committed: u64,
        out: &mut [u8],
        is_read: bool,
    ) -> FsResult<Vec<u32>> {
        let addr = piece.extent.addr;
        let crcs = self.pages.checksum_values(&piece.checksums, u64::from(piece.extent.blocks))?;
        if addr.is_pm() {
            let visible =
                committed.saturating_sub(piece.block * BLOCK_BYTES).min(out.len() as u64) as usize;
            self.store.pm.try_read(addr.byte(), &mut out[..visible])?;
            out[visible..].fill(0);
        } else if !is_read {
            let read = self.store.space.disk(addr.device())?.disk.read_at(addr.byte(), out);
            read.inspect_err(|e| self.health.disk_failed(addr.device(), e))?;
        }
        let verify = |(i, page): (u64, &mut [u8])| {
            let partly = addr.is_pm() && self.store.data_crc;
            let covered =
                if partly { covered_bytes(piece.block + i, piece.entry.size) } else { BLOCK };
            page[covered..].fill(0);
            let stored = &piece.checksums;
            let verified = self.pages.verify(addr.offset(i), stored, i, &page[..covered], &crcs)?;
            // A copy's checksum covers all of the block.
            let same = covered == BLOCK || planted(Bug::MoveCrcOfSource);
            Ok(verified.filter(|_| same).unwrap_or_else(|| data_crc(page)))
        };
        (0..).zip(out.chunks_mut(BLOCK)).map(verify).collect()
    }

    /// Writes copies to disks of these tiers.
    fn write_to_tiers<'a>(
        &self,
        shard: usize,
        copied: &'a [Copied<'a>],
        tiers: Tiers,
        permit: &Permit,
    ) -> FsResult<Vec<Placed<'a, Copied<'a>>>> {
        let to = Destination { shard, tiers, avoided: &permit.avoided };
        self.store.space.beside_promises(copied.len() as u64, || self.pages.write_pages(copied, to))
    }

    /// Copies for the page cache, if they are wanted there and need nobody's place but that of
    /// clean pages.
    fn copies_to_keep<'a>(
        &self,
        inode: &Inode,
        order: Order<'_>,
        copied: impl Iterator<Item = &'a Copied<'a>> + Clone,
    ) -> Vec<(u64, BlankPage)> {
        let wanted = order.keep_cached && order.tiers.first > 0;
        let blanks = wanted
            .then(|| self.cache.take(inode.shard, copied.clone().count()))
            .flatten()
            .unwrap_or_default();
        let fill = |(mut blank, page): (BlankPage, &Copied<'_>)| {
            blank.as_mut_slice().copy_from_slice(page.data);
            (page.block, blank)
        };
        blanks.into_iter().zip(copied).map(fill).collect()
    }
}

fn is_gone(inode: &Inode) -> bool {
    inode.deleted.load(Ordering::Acquire) && !planted(Bug::MoveOfRemoved)
}

/// Parts of a list of pieces that are copied through one buffer each.
fn buffers_of(pieces: &[SourceRun]) -> Vec<&[SourceRun]> {
    let (mut buffers, mut from, mut blocks) = (Vec::new(), 0, 0);
    for (i, piece) in pieces.iter().enumerate() {
        let more = u64::from(piece.extent.blocks);
        if i > from && blocks + more > BUFFER_BLOCKS {
            buffers.push(&pieces[from..i]);
            (from, blocks) = (i, 0);
        }
        blocks += more;
    }
    if from < pieces.len() {
        buffers.push(&pieces[from..]);
    }
    buffers
}

fn blocks_of(pieces: &[SourceRun]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.extent.blocks)).sum()
}

/// Whether somebody has changed something of a piece since the move began, or the file is gone.
fn was_overtaken(inode: &Inode, piece: &SourceRun) -> bool {
    let inner = inode.inner.read();
    is_gone(inode)
        || inner
            .file()
            .is_ok_and(|file| file.is_overtaken(piece.block, u64::from(piece.extent.blocks)))
}
