//! Log migration: the logs of cold inodes give their pages in PM back (TPFS, section 5.6).
//!
//! 1. Under the inode's lock, for a moment: what is live of the log is written anew, in DRAM.
//! 2. Without locks: that goes to free blocks of a disk, together with others, and is made durable.
//!    What is short enough for the inode's record needs no disk.
//! 3. Under the lock again: if the log is still what it was, the journal replaces it. Then its
//!    pages are free.
//!
//! So no program waits for a disk on account of a log that moves. One that is written again goes on
//! in the record, then in pages, and comes back to PM as a whole when it is compacted.

use std::collections::BTreeSet;

use terrace_layout::{ArchiveEntry, BLOCK_BYTES, BlockAddr, INLINE_SLOTS};
use terrace_media::AlignedBuf;
use terrace_policy::{Moment, Pressure, log_is_cold};
use terrace_store::alloc::Run;
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::BLOCK;
use terrace_store::log::Log;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{Purpose, Tiers};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, Mutex};

use crate::base::counters::{Counter, Counters};
use crate::base::tuning::Tuning;
use crate::base::types::{Ino, Time};
use crate::base::words::tier_name;
use crate::inode::activity::Activity;
use crate::inode::device_table::DeviceTable;
use crate::inode::health::Health;
use crate::inode::resident::rewrite::Replacement;
use crate::inode::resident::{Inner, Inode};
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::inode::wear::{Permit, Wear};
use crate::pageio::PageIo;
use crate::tiering::conditions::Conditions;
use crate::tiering::round::{Direction, Round};

/// Logs that a disk makes durable together, and blocks of them.
const LOGS_PER_FLUSH: usize = 256;
const BLOCKS_PER_FLUSH: u64 = 1024;
/// Records that are looked at, and logs that are read in vain, before a round that finds nothing
/// ends until the next second.
const RECORDS_PER_LOOK: u64 = 1 << 16;
const LOADS_IN_VAIN_MAX: usize = 256;

/// A log that is on its way.
pub(crate) struct LeavingLog {
    inode: Arc<Inode>,
    new: Replacement,
    /// Change and access times, and modification time, as they are in it.
    times: (Time, Time, Time),
}

impl LeavingLog {
    fn disk_blocks(&self) -> u64 {
        self.new.draft.disk_blocks()
    }
}

/// Logs that move together.
#[derive(Default)]
struct Batch {
    logs: Vec<LeavingLog>,
    disk_blocks: u64,
    /// Inodes that nobody else had in DRAM.
    strangers: Vec<Arc<Inode>>,
    loaded_in_vain: usize,
    /// Inodes whose logs would be written anew for little ([`is_dear`]): the last to be asked.
    dear: Vec<Ino>,
}

impl Batch {
    fn is_full(&self, most_blocks: u64) -> bool {
        self.logs.len() >= LOGS_PER_FLUSH || self.disk_blocks >= most_blocks
    }
}

/// Which logs are taken.
#[derive(Clone, Copy)]
struct Look {
    pressure: Pressure,
    /// Those that are dear are left for later.
    leaves_dear: bool,
    /// Also those that need room on a disk.
    to_disk: bool,
}

/// Whether most of a log lies on a disk already, and would be written once more for the few pages
/// that it has in PM: as that of a directory does to which names are added.
fn is_dear(inner: &Inner) -> bool {
    inner
        .log
        .archive()
        .is_some_and(|archive| archive.blocks() > 8 * inner.log.pages().count() as u64)
}

fn times_of(inner: &Inner) -> (Time, Time, Time) {
    (inner.meta.ctime, inner.meta.atime, inner.mtime())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ColdLogs {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub activity: Arc<Activity>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub conditions: Arc<Conditions>,
    pub wear: Arc<Wear>,
    /// By shard; held while logs are on their way to a disk.
    pub under_way: Vec<Mutex<()>>,
}

impl ColdLogs {
    /// Migrates logs of inodes of a shard that are cold under this pressure, as many as are made
    /// durable together.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate(&self, shard: usize, pressure: Pressure) -> FsResult<Round> {
        let direction = Direction { from: tier_name(0), to: "the disks" };
        let round = Round::Stuck("no cold file has a log to give away in PM".to_owned());
        let tiers = self.tiers_for_logs();
        let permit = self.wear.ask(tiers, Counter::MigratedLogs, BLOCKS_PER_FLUSH);
        // Some logs need no disk.
        let has_room = self.store.space.room_for(tiers) > 0;
        let most_blocks = permit.as_ref().map_or(0, Permit::blocks);
        let to_disk = has_room && permit.is_ok();
        let Batch { logs, strangers, .. } = self.select(shard, pressure, to_disk, most_blocks);
        if logs.is_empty() {
            return match (has_room, permit) {
                (true, Err(error)) => round.after_failure(error),
                (true, Ok(_)) => Ok(round),
                (false, _) => round.after(fail(libc::ENOSPC), &direction),
            };
        }
        let permit = permit.ok();
        let given = self.relocate(shard, logs, tiers, permit.as_ref());
        let given = given.map(|pages| pages * BLOCK_BYTES);
        strangers.into_iter().for_each(|inode| self.inodes.evict(inode));
        round.after(given, &direction)
    }

    /// Where logs go: to the first tier that is not so full that data is to leave it, since nothing
    /// takes them on to the next. If all are, they go where data does.
    fn tiers_for_logs(&self) -> Tiers {
        Tiers::from(
            self.store
                .space
                .tiers()
                .skip(1)
                .find(|&tier| !self.conditions.is_full_tier(tier))
                .unwrap_or(1),
        )
    }

    /// Logs of cold inodes that have pages, without `to_disk` only those that need none, else up to
    /// about `most_blocks` of a disk: round and round through a shard's table, from where the last
    /// look ended.
    fn select(&self, shard: usize, pressure: Pressure, to_disk: bool, most_blocks: u64) -> Batch {
        let lists = &self.activity.shards[shard].lists;
        let (records, first) =
            (self.inodes.shards[shard].table.read().end().max(1), lists.lock().logs_seen);
        let (mut batch, mut seen) = (Batch::default(), 0);
        let most_blocks = if to_disk { most_blocks.min(BLOCKS_PER_FLUSH) } else { u64::MAX };
        // A thread that needs room looks until there is some, or none anywhere.
        let goes_on = |batch: &Batch, seen: u64| {
            let is_short = seen < RECORDS_PER_LOOK && batch.loaded_in_vain < LOADS_IN_VAIN_MAX;
            !batch.is_full(most_blocks)
                && (is_short || (pressure == Pressure::Highest && batch.logs.is_empty()))
        };
        while seen < records && goes_on(&batch, seen) {
            let index = (first + seen) % records;
            let ino = Ino(index * self.store.shards() as u64 + shard as u64 + 1);
            let leaves_dear = pressure == Pressure::Highest;
            self.look_at_log(ino, Look { pressure, leaves_dear, to_disk }, &mut batch);
            seen += 1;
        }
        for ino in std::mem::take(&mut batch.dear) {
            if batch.logs.is_empty() {
                let look = Look { pressure, leaves_dear: false, to_disk };
                self.look_at_log(ino, look, &mut batch);
            }
        }
        lists.lock().logs_seen = (first + seen) % records;
        batch
    }

    /// Takes the log of an inode, if it is cold and has pages; the inode does not stay in DRAM on
    /// that account. One that is dear may be left for later.
    fn look_at_log(&self, ino: Ino, look: Look, batch: &mut Batch) {
        let Look { pressure, leaves_dear, to_disk } = look;
        if !self.has_log_pages(ino) {
            return;
        }
        let is_resident = self.inodes.shard(ino).inodes.read().contains_key(&ino.0);
        // Inodes that have gone meanwhile, or are damaged, stay as they are.
        let Ok(inode) = self.inodes.get(ino) else {
            return;
        };
        let is_left = leaves_dear && inode.shared().is_ok_and(|inner| is_dear(&inner));
        batch.dear.extend(is_left.then_some(ino));
        let log = if is_left { Ok(None) } else { self.cold_log(&inode, pressure, to_disk) };
        let log = log.unwrap_or_default();
        let is_taken = log.is_some();
        batch.disk_blocks += log.as_ref().map_or(0, LeavingLog::disk_blocks);
        batch.logs.extend(log);
        match is_taken {
            _ if is_resident => {}
            true => batch.strangers.push(inode),
            false => {
                batch.loaded_in_vain += 1;
                self.inodes.evict(inode);
            }
        }
    }

    /// Whether the record of an inode leads to log pages.
    fn has_log_pages(&self, ino: Ino) -> bool {
        self.inodes
            .used_record(ino)
            .is_some_and(|(at, record)| Log::has_pages_on_media(at, &record))
    }

    /// Blocks that the archives on a disk take in PM, as pages, beyond those that they take there:
    /// at most so many. No archive is read.
    pub fn archives_grow_by(&self, device: u16) -> u64 {
        let shards = self.store.shards() as u64;
        let records =
            self.inodes.shards.iter().map(|shard| shard.table.read().end()).max().unwrap_or(0);
        let archive = |ino| {
            let (at, record) = self.inodes.used_record(Ino(ino))?;
            Log::archive_on_media(&self.store.pm, at, &record)
                .filter(|entry| BlockAddr(entry.address).device() == device)
        };
        // The entries in the record come along.
        let pages =
            |entry: ArchiveEntry| Log::pages_max(u64::from(entry.entry_slots) + INLINE_SLOTS);
        let growth = |entry: ArchiveEntry| pages(entry).saturating_sub(entry.blocks());
        (1..=records * shards).filter_map(archive).map(growth).sum()
    }

    /// The log of an inode, if it is cold and has pages to give.
    fn cold_log(
        &self,
        inode: &Arc<Inode>,
        pressure: Pressure,
        to_disk: bool,
    ) -> FsResult<Option<LeavingLog>> {
        let inner = inode.shared()?;
        // A change of the log need not be one of the file: a read that notes its time changes the
        // log.
        let used = inner.meta.ctime.0.max(inode.tiers.log_overtaken_ns());
        let is_cold = log_is_cold(pressure, Moment::at(Time::now().0), used, &self.tuning.params());
        // A file pinned to PM stays there with its log; one that is about to go, or to be written
        // back, is not worth it.
        let is_awaited = inode.pages.has_dirty() && pressure < Pressure::Highest;
        let stays = inode.tiers.pin.get() == Some(0) || is_awaited || inner.meta.nlink == 0;
        if !is_cold || stays || !inner.log.has_pages() {
            Ok(None)
        } else {
            self.leaving_log(inode, &inner, to_disk)
        }
    }

    /// What is live of a log, written anew for the record or, if it may go there, for a disk;
    /// `None` if it is too long.
    fn leaving_log(
        &self,
        inode: &Arc<Inode>,
        inner: &Inner,
        to_disk: bool,
    ) -> FsResult<Option<LeavingLog>> {
        let source = self.store.space.source(inode.shard, Purpose::Freeing);
        let draft = inner.draft(self.store.io(&source), to_disk)?;
        Ok(draft.map(|new| LeavingLog { inode: inode.clone(), new, times: times_of(inner) }))
    }

    /// Relocates logs to disks of these tiers, or to the records; returns how many pages of PM
    /// are free for that. `permit`: what of the disks' budgets it may use, if it is bounded.
    ///
    /// # Errors
    /// `ENOSPC`; what a disk said. Of logs that were moved before it is no error.
    fn relocate(
        &self,
        shard: usize,
        logs: Vec<LeavingLog>,
        tiers: Tiers,
        permit: Option<&Permit>,
    ) -> FsResult<u64> {
        // The removal of a disk waits here for what others have allocated on it.
        let _under_way = self.under_way[shard].lock();
        let (mut placed, mut result) = (Vec::new(), Ok(()));
        let (mut rest, for_record): (Vec<_>, Vec<_>) =
            logs.into_iter().partition(|log| log.disk_blocks() > 0);
        placed.extend(for_record.into_iter().map(|log| (log, BlockAddr(0))));
        // Disks that leave are not to get what would have to leave them again.
        let mut avoided = self.store.space.leaving();
        avoided.extend(permit.iter().flat_map(|permit| &permit.avoided));
        while !rest.is_empty() {
            match self.run_for(shard, &rest, tiers, &avoided) {
                Ok(run) => {
                    if let Err(error) = self.place_logs(run, &mut rest, &mut placed) {
                        // Another disk may take them.
                        avoided.push(run.0);
                        result = result.and(Err(error));
                    }
                }
                Err(error) => {
                    // A shorter one may have room.
                    rest.remove(0);
                    result = result.and(Err(error));
                }
            }
        }
        if placed.is_empty() {
            return result.map(|()| 0);
        }
        let devices: BTreeSet<u16> =
            placed.iter().map(|(_, addr)| addr.device()).filter(|&d| d > 0).collect();
        let mut pages = if planted(Bug::ArchiveNotFlushed) {
            Ok(0)
        } else {
            self.pages.flush_disks(devices).map(|()| 0)
        };
        pages = pages.and_then(|_| self.devices.allow_archives().map(|()| 0));
        for (log, addr) in placed {
            let run = (addr, log.disk_blocks());
            permit.iter().for_each(|permit| permit.wrote(addr.device(), run.1));
            let given = match pages {
                Ok(_) => self.publish(log, addr),
                Err(_) => Ok(None),
            };
            match given {
                Ok(Some(more)) => pages = pages.map(|pages| pages + more),
                Ok(None) if run.1 > 0 => self.store.space.free(run.0, run.1),
                Ok(None) => {}
                Err(error) => pages = Err(error),
            }
        }
        match (pages, result) {
            (Ok(0), Err(error)) => Err(error),
            (pages, _) => pages,
        }
    }

    /// Writes the first of the logs, as many as the run holds, and moves them from `rest` to
    /// `placed`.
    ///
    /// # Errors
    /// What the disk said: nothing has moved.
    fn place_logs(
        &self,
        (device, run): (u16, Run),
        rest: &mut Vec<LeavingLog>,
        placed: &mut Vec<(LeavingLog, BlockAddr)>,
    ) -> FsResult<()> {
        let mut fitting = 0;
        let holds = |log: &&LeavingLog| {
            fitting += log.disk_blocks();
            fitting <= run.len
        };
        let count = rest.iter().take_while(holds).count();
        let mut blocks = AlignedBuf::new(run.len as usize * BLOCK);
        let mut at = 0;
        for log in &rest[..count] {
            log.new.draft.fill(&mut blocks[at as usize * BLOCK..]);
            at += log.disk_blocks();
        }
        let (start, unused) = (BlockAddr::new(device, run.start), run.len - at);
        if unused > 0 {
            self.store.space.free(start.offset(at), unused);
        }
        let written = self
            .store
            .space
            .disk(device)?
            .disk
            .write_at(start.byte(), &blocks[..at as usize * BLOCK]);
        if let Err(error) = written {
            self.health.disk_failed(device, &error);
            self.store.space.free(start, at);
            return Err(FsError::with_message(libc::EIO, error.to_string()));
        }
        let mut next = start;
        for log in rest.drain(..count) {
            let addr = next;
            next = next.offset(log.disk_blocks());
            placed.push((log, addr));
        }
        Ok(())
    }

    /// A run that holds the first of the logs at least, as many as possible at best, on a disk that
    /// is not `avoided`. Where free space is in pieces that are too short for that, the next disk
    /// may do.
    fn run_for(
        &self,
        shard: usize,
        logs: &[LeavingLog],
        tiers: Tiers,
        avoided: &[u16],
    ) -> FsResult<(u16, Run)> {
        let first = logs[0].disk_blocks();
        let (mut want, mut avoided) =
            (logs.iter().map(LeavingLog::disk_blocks).sum(), avoided.to_vec());
        loop {
            match self.take_run(shard, want, tiers, &avoided) {
                Ok((device, run)) if run.len < first => {
                    self.store.space.free(BlockAddr::new(device, run.start), run.len);
                    if want == first {
                        avoided.push(device);
                    }
                }
                Err(error) if error.is_no_room() && want > first => {}
                taken => return taken,
            }
            want = first;
        }
    }

    /// A run of up to `want` blocks that are not promised to dirty pages, on a disk that is not
    /// `avoided`.
    fn take_run(
        &self,
        shard: usize,
        want: u64,
        tiers: Tiers,
        avoided: &[u16],
    ) -> FsResult<(u16, Run)> {
        if self.store.space.room_for(tiers) < want {
            return Err(FsError::new(libc::ENOSPC));
        }
        self.store
            .space
            .beside_promises(want, || self.store.space.alloc_disk(shard, want, tiers, avoided))
    }

    /// Replaces a log by what is durable at `addr`, if nothing has changed meanwhile; returns how
    /// many pages of PM are free then.
    fn publish(&self, log: LeavingLog, addr: BlockAddr) -> FsResult<Option<u64>> {
        let LeavingLog { inode, new, times } = log;
        let mut inner = inode.inner.write();
        let is_gone = inode.deleted.load(Ordering::Acquire);
        let is_current = inner.log.is_as_drafted(&new.draft) && times_of(&inner) == times;
        if is_gone || !(is_current || planted(Bug::ArchiveNotValidated)) {
            inode.tiers.note_log_overtaken();
            self.counters.add(Counter::MigrationsOvertaken, new.draft.disk_blocks() * BLOCK_BYTES);
            return Ok(None);
        }
        let pages = inner.log.pages().count() as u64;
        let source = self.store.space.source(inode.shard, Purpose::Freeing);
        inner.replace_log(new, addr, self.store.io(&source), &self.store.journals[inode.shard])?;
        self.counters.add(Counter::MigratedLogs, pages * BLOCK_BYTES);
        Ok(Some(pages))
    }

    /// Brings a log that lies on a disk to PM, if there is room.
    ///
    /// # Errors
    /// Fatal ones, an entry that cannot be read, `ESTALE` if the inode is gone.
    pub fn bring_to_pm(&self, inode: &Inode) -> FsResult<()> {
        let mut inner = inode.exclusive()?;
        let Some(blocks) = inner.log.archive().map(|archive| archive.blocks()) else {
            return Ok(());
        };
        match self.compact_log(inode, &mut inner) {
            Err(error) if error.is_no_room() => Ok(()),
            done => {
                done.inspect(|()| self.counters.add(Counter::MigratedByHand, blocks * BLOCK_BYTES))
            }
        }
    }

    fn compact_log(&self, inode: &Inode, inner: &mut Inner) -> FsResult<()> {
        let source = self.store.space.source(inode.shard, Purpose::Ordinary);
        inner.compact(self.store.io(&source), &self.store.journals[inode.shard])
    }

    /// Takes the archive of an inode's log off a disk: to another one of `tiers`, or, if there are
    /// none or it is too long, to PM. How many blocks of the disk are free for that.
    ///
    /// # Errors
    /// `ENOSPC`; what a disk said.
    pub fn move_archive(
        &self,
        inode: &Arc<Inode>,
        device: u16,
        tiers: Option<Tiers>,
    ) -> FsResult<u64> {
        let archived = |inner: &Inner| {
            inner
                .log
                .archive()
                .filter(|archive| archive.addr.device() == device)
                .map_or(0, |archive| archive.blocks())
        };
        let blocks = archived(&*inode.shared()?);
        if blocks == 0 {
            return Ok(0);
        }
        let log = match tiers {
            Some(_) => self.leaving_log(inode, &*inode.shared()?, true)?,
            None => None,
        };
        match (log, tiers) {
            (Some(log), Some(tiers)) => drop(self.relocate(inode.shard, vec![log], tiers, None)?),
            _ => self.compact_log(inode, &mut *inode.exclusive()?)?,
        }
        let moved = blocks.saturating_sub(archived(&*inode.shared()?));
        self.counters.add(Counter::MigratedByHand, moved * BLOCK_BYTES);
        Ok(moved)
    }
}
