//! Runs of adjacent pages on disks: where they go, writing them, making them durable. Nothing
//! refers to them before a commit does.

use std::collections::BTreeSet;
use std::io::IoSlice;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CRC_SLOTS_BLOCKS_MAX, CRCS_PER_BLOCK, crc_blocks_for, data_crc,
    seal_crc_block,
};
use terrace_media::AlignedBuf;
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::{BLOCK, DataRun, covered_bytes};
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{BlockSource, Purpose, Tiers};

use crate::base::patience;
use crate::inode::cache::DirtyPage;
use crate::pageio::PageIo;

/// Blocks of the longest run: 16 MiB.
pub(crate) const RUN_BLOCKS_MAX: u64 = 4096;
/// Runs up to this long keep their checksums in the log.
pub(crate) const LOG_CRCS_MAX: u64 = 32;

/// A block of a file on its way to a disk.
pub(crate) trait Page {
    /// File block.
    fn block(&self) -> u64;
    /// Tells pages of several files apart.
    fn file(&self) -> usize;
    /// Its bytes.
    fn data(&self) -> &[u8];
    /// CRC32C of them.
    fn crc(&self) -> u32 {
        data_crc(self.data())
    }
}

impl Page for DirtyPage {
    fn block(&self) -> u64 {
        self.block
    }

    fn file(&self) -> usize {
        self.file
    }

    fn data(&self) -> &[u8] {
        self.data()
    }
}

/// Where runs go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a> {
    pub shard: usize,
    pub tiers: Tiers,
    /// Disks that are left alone.
    pub avoided: &'a [u16],
}

/// A run of pages and where it goes.
pub(crate) struct Placed<'a, P> {
    pub pages: &'a [P],
    pub addr: BlockAddr,
    crcs: Vec<u32>,
    crc_run: Option<(BlockAddr, u64)>,
}

/// Blocks of a disk that are allocated and not yet used.
struct Room {
    device: u16,
    start: u64,
    blocks: u64,
}

impl<P: Page> Placed<'_, P> {
    /// First block, of its checksums if they have blocks.
    fn start(&self) -> BlockAddr {
        self.crc_run.map_or(self.addr, |(addr, _)| addr)
    }

    /// The block behind the last.
    fn end(&self) -> BlockAddr {
        self.addr.offset(self.pages.len() as u64)
    }

    /// Blocks that it takes, with those of its checksums.
    pub fn blocks(&self) -> u64 {
        self.pages.len() as u64 + self.crc_run.map_or(0, |(_, blocks)| blocks)
    }

    /// The run without its pages.
    pub fn run(&self) -> DataRun {
        DataRun {
            blocks: self.pages.len() as u64,
            crcs: self.crcs.clone(),
            crc_run: self.crc_run,
            ..DataRun::new(self.pages[0].block(), self.addr)
        }
    }
}

impl PageIo {
    /// Blocks for all `holes` in PM (if that is the first of `tiers`), or on disks of these tiers.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn take_runs_on(
        &self,
        shard: usize,
        holes: &[(u64, u64)],
        tiers: Tiers,
    ) -> FsResult<Vec<(u64, BlockAddr, u64)>> {
        let collect = || self.collect_runs(shard, holes, tiers);
        if tiers.first == 0 {
            collect()
        } else {
            self.store.space.beside_promises(holes.iter().map(|h| h.1).sum(), collect)
        }
    }

    fn collect_runs(
        &self,
        shard: usize,
        holes: &[(u64, u64)],
        tiers: Tiers,
    ) -> FsResult<Vec<(u64, BlockAddr, u64)>> {
        let source = self.store.space.source(shard, Purpose::Ordinary);
        let mut runs = Vec::new();
        for &(start, blocks) in holes {
            let mut done = 0;
            while done < blocks {
                let want = (blocks - done).min(u64::from(u32::MAX));
                let found = match tiers.first {
                    0 => source
                        .alloc_data(want)
                        .map(|run| (0, run))
                        .ok_or(FsError::new(libc::ENOSPC)),
                    _ => self.store.space.alloc_disk(shard, want, tiers, &[]),
                };
                let (device, run) = found.inspect_err(|_| self.give_back(&runs))?;
                runs.push((start + done, BlockAddr::new(device, run.start), run.len));
                done += run.len;
            }
        }
        Ok(runs)
    }

    pub fn give_back(&self, runs: &[(u64, BlockAddr, u64)]) {
        for &(_, addr, blocks) in runs {
            self.store.space.free(addr, blocks);
        }
    }

    /// Writes pages to disk, not durably yet; returns where they went. If a disk does not take
    /// them, another may; each attempt begins with the disk that should have them, so that one that
    /// has returned is found to work again.
    ///
    /// # Errors
    /// `ENOSPC`, or what the disk said that should have them.
    pub fn write_pages<'a, P: Page>(
        &self,
        pages: &'a [P],
        to: Destination<'_>,
    ) -> FsResult<Vec<Placed<'a, P>>> {
        let (mut avoided, mut first_error) = (to.avoided.to_vec(), None);
        loop {
            let (mut placed, tried) = (Vec::new(), avoided.len());
            let found = self.place_runs(pages, to, &avoided, &mut placed);
            let Err(error) = found.and_then(|()| self.write_runs(&placed, &mut avoided)) else {
                return Ok(placed);
            };
            placed.iter().for_each(|p| self.free_placed(p));
            let error = match first_error {
                Some(first) if !patience::is_lost(&error) => first,
                _ => error,
            };
            if avoided.len() == tried {
                return Err(error);
            }
            first_error = Some(error);
        }
    }

    /// Finds room for every run of adjacent pages, on disks that are not `avoided`: side by side,
    /// as far as a disk has such room, so that they are written together.
    fn place_runs<'a, P: Page>(
        &self,
        pages: &'a [P],
        to: Destination<'_>,
        avoided: &[u16],
        placed: &mut Vec<Placed<'a, P>>,
    ) -> FsResult<()> {
        let mut rest_blocks = pages.len() as u64;
        let mut room = Room { device: 0, start: 0, blocks: 0 };
        for run in pages.chunk_by(|a, b| a.block() + 1 == b.block() && a.file() == b.file()) {
            let mut rest = run;
            while !rest.is_empty() {
                let want = (rest.len() as u64).min(RUN_BLOCKS_MAX);
                let need = want + if want > LOG_CRCS_MAX { crc_blocks_for(want) } else { 0 };
                if room.blocks < need {
                    self.give_back_room(room);
                    let all = rest_blocks.min(RUN_BLOCKS_MAX).max(need);
                    let (device, found) =
                        self.store.space.alloc_disk(to.shard, all, to.tiers, avoided)?;
                    room = Room { device, start: found.start, blocks: found.len };
                }
                // A shorter run than asked for holds fewer pages, its checksums first.
                let (crc_blocks, blocks) = split_run(room.blocks.min(need), want);
                let (head, tail) = rest.split_at(blocks as usize);
                placed.push(Placed {
                    pages: head,
                    addr: BlockAddr::new(room.device, room.start + crc_blocks),
                    crcs: head.iter().map(Page::crc).collect(),
                    crc_run: (crc_blocks > 0)
                        .then(|| (BlockAddr::new(room.device, room.start), crc_blocks)),
                });
                room.start += crc_blocks + blocks;
                room.blocks -= crc_blocks + blocks;
                rest_blocks -= blocks;
                rest = tail;
            }
        }
        self.give_back_room(room);
        Ok(())
    }

    fn give_back_room(&self, room: Room) {
        if room.blocks > 0 {
            self.store.space.free(BlockAddr::new(room.device, room.start), room.blocks);
        }
    }

    /// Writes the runs, those that lie side by side with one sequential write. `failing` gets the
    /// disk that did not take one.
    fn write_runs<P: Page>(
        &self,
        placed: &[Placed<'_, P>],
        failing: &mut Vec<u16>,
    ) -> FsResult<()> {
        for runs in placed.chunk_by(|a, b| a.end() == b.start()) {
            let mut rest = runs;
            while !rest.is_empty() {
                patience::go_on()?;
                let (together, later) = rest.split_at(written_together(rest));
                self.write_side_by_side(together, failing)?;
                rest = later;
            }
        }
        Ok(())
    }

    fn write_side_by_side<P: Page>(
        &self,
        runs: &[Placed<'_, P>],
        failing: &mut Vec<u16>,
    ) -> FsResult<()> {
        let are_written =
            |run: &&Placed<'_, P>| run.crc_run.is_some() && !planted(Bug::ChecksumsAfterFlush);
        let crc_blocks: Vec<AlignedBuf> =
            runs.iter().filter(are_written).map(|run| crc_block_bytes(&run.crcs)).collect();
        let mut checksums = crc_blocks.iter();
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        for run in runs {
            if are_written(&run) {
                slices.extend(checksums.next().map(|bytes| IoSlice::new(bytes)));
            }
            slices.extend(run.pages.iter().map(|page| IoSlice::new(page.data())));
        }
        let start = match planted(Bug::ChecksumsAfterFlush) {
            true => runs[0].addr,
            false => runs[0].start(),
        };
        let member = self.store.space.disk(start.device())?;
        member.disk.write_vectored_at(start.byte(), &slices).inspect_err(|e| {
            self.health.disk_failed(start.device(), e);
            failing.push(start.device());
        })?;
        Ok(())
    }

    /// Makes runs durable that have been written.
    ///
    /// # Errors
    /// A disk that cannot flush is fatal.
    pub fn flush_placed<P>(&self, placed: &[Placed<'_, P>]) -> FsResult<()> {
        if planted(Bug::DiskNotFlushed) {
            return Ok(());
        }
        self.flush_disks(placed.iter().map(|run| run.addr.device()).collect())?;
        for (run, (addr, _)) in placed.iter().filter_map(|run| Some((run, run.crc_run?))) {
            if planted(Bug::ChecksumsAfterFlush) {
                self.store
                    .space
                    .disk(addr.device())?
                    .disk
                    .write_at(addr.byte(), &crc_block_bytes(&run.crcs))?;
            }
        }
        Ok(())
    }

    /// Waits until these disks have made durable what they took.
    ///
    /// # Errors
    /// A disk that cannot flush is fatal, also for those whose flush comes after: a kernel says
    /// only once what became of writes, to whoever asks first.
    pub fn flush_disks(&self, devices: BTreeSet<u16>) -> FsResult<()> {
        devices.into_iter().try_for_each(|device| {
            let flushed = self.store.space.disk(device)?.disk.flush();
            if let Err(error) = flushed {
                self.health.disk_failed(device, &error);
                let error = FsError::fatal(error);
                self.health.turn_read_only(&error);
                return Err(error);
            }
            if self.health.is_read_only() {
                return fail(libc::EIO);
            }
            self.health.disk_works(device);
            Ok(())
        })
    }

    /// Stores as many pages in PM as it takes, run by run; durable with the next fence.
    /// `committed`: size of the file.
    pub fn store_in_pm<'a, P: Page>(
        &self,
        shard: usize,
        pages: &'a [P],
        committed: u64,
    ) -> Vec<Placed<'a, P>> {
        let source = self.store.space.source(shard, Purpose::Ordinary);
        let longest = if self.store.data_crc { CRC_SLOTS_BLOCKS_MAX } else { RUN_BLOCKS_MAX };
        let mut placed = Vec::new();
        for mut rest in pages.chunk_by(|a, b| a.block() + 1 == b.block()) {
            while !rest.is_empty() {
                let Some(found) = source.alloc_data(longest.min(rest.len() as u64)) else {
                    return placed;
                };
                let (head, tail) = rest.split_at(found.len as usize);
                for (i, page) in (found.start..).zip(head) {
                    self.store.pm.write_nt(i * BLOCK_BYTES, page.data());
                }
                let crc =
                    |page: &P| data_crc(&page.data()[..covered_bytes(page.block(), committed)]);
                let crcs =
                    if self.store.data_crc { head.iter().map(crc).collect() } else { Vec::new() };
                placed.push(Placed {
                    pages: head,
                    addr: BlockAddr::pm(found.start),
                    crcs,
                    crc_run: None,
                });
                rest = tail;
            }
        }
        placed
    }

    /// Gives back where a run was to go.
    pub fn free_placed<P>(&self, run: &Placed<'_, P>) {
        self.store.space.free(run.addr, run.pages.len() as u64);
        if let Some((addr, blocks)) = run.crc_run {
            self.store.space.free(addr, blocks);
        }
    }

    /// What of the runs is to be committed, those blocks whose flag says so, and gives back the
    /// rest. Also returns the blocks of the rest.
    pub fn sift(
        &self,
        runs: impl IntoIterator<Item = (DataRun, Vec<bool>)>,
    ) -> (Vec<DataRun>, Vec<u64>) {
        let (mut survivors, mut overtaken) = (Vec::new(), Vec::new());
        for (run, current) in runs {
            let before = survivors.len();
            surviving_runs(&run, &current, &mut survivors);
            for (i, _) in (0..).zip(&current).filter(|(_, is_current)| !**is_current) {
                self.store.space.free(run.addr.offset(i), 1);
                overtaken.push(run.file_block + i);
            }
            if survivors.len() == before
                && let Some((addr, blocks)) = run.crc_run
            {
                self.store.space.free(addr, blocks);
            }
        }
        (survivors, overtaken)
    }

    /// Gives back runs that could not be committed.
    pub fn free_runs(&self, runs: &[DataRun]) {
        let mut crc_runs = BTreeSet::new();
        for run in runs {
            self.store.space.free(run.addr, run.blocks);
            crc_runs.extend(run.crc_run);
        }
        crc_runs.into_iter().for_each(|(addr, blocks)| self.store.space.free(addr, blocks));
    }
}

/// Those that are of a file, among all, which are in the order of their files.
pub(crate) fn of_file<T>(all: &[T], file: usize, file_of: impl Fn(&T) -> usize) -> &[T] {
    let from = all.partition_point(|one| file_of(one) < file);
    let len = all[from..].partition_point(|one| file_of(one) == file);
    &all[from..from + len]
}

/// Checksum blocks and data blocks of a run of `len` blocks that is to hold up to `want`.
fn split_run(len: u64, want: u64) -> (u64, u64) {
    let blocks = len.min(want);
    if blocks <= LOG_CRCS_MAX {
        return (0, blocks);
    }
    let mut crc_blocks = crc_blocks_for(blocks);
    let mut blocks = blocks.min(len - crc_blocks);
    if blocks <= LOG_CRCS_MAX {
        (crc_blocks, blocks) = (0, LOG_CRCS_MAX);
    }
    (crc_blocks.min(crc_blocks_for(blocks)), blocks)
}

/// How many of these runs, which lie side by side, are written at once: at least one.
fn written_together<P: Page>(runs: &[Placed<'_, P>]) -> usize {
    // A run whose checksums are written later leaves a gap.
    if planted(Bug::ChecksumsAfterFlush) {
        return 1;
    }
    let mut all = 0;
    let fit = runs.iter().take_while(|run| {
        all += run.blocks();
        all <= RUN_BLOCKS_MAX
    });
    fit.count().max(1)
}

fn crc_block_bytes(crcs: &[u32]) -> AlignedBuf {
    let mut bytes = AlignedBuf::new(crc_blocks_for(crcs.len() as u64) as usize * BLOCK);
    for (block, crcs) in bytes.chunks_mut(BLOCK).zip(crcs.chunks(CRCS_PER_BLOCK as usize)) {
        for (slot, crc) in block.chunks_exact_mut(4).zip(crcs) {
            slot.copy_from_slice(&crc.to_le_bytes());
        }
        seal_crc_block(block);
    }
    bytes
}

/// The parts of a run that are still current.
fn surviving_runs(run: &DataRun, current: &[bool], out: &mut Vec<DataRun>) {
    let mut open = false;
    for (i, _) in (0..).zip(current) {
        if !current[i as usize] {
            open = false;
            continue;
        }
        if !open {
            out.push(DataRun {
                crc_run: run.crc_run,
                crc_skip: if run.crc_run.is_some() { i as u32 } else { 0 },
                ..DataRun::new(run.file_block + i, run.addr.offset(i))
            });
            open = true;
        }
        let last = out.last_mut().expect("just opened");
        last.crcs.extend(run.crcs.get(i as usize));
        last.blocks += 1;
    }
}
