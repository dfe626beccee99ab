//! Data that programs read goes where it is read faster: read migration and reverse migration
//! (formula (2)).

use terrace_layout::BLOCK_BYTES;
use terrace_policy::{HOT_FILES_MAX, Pressure, Rule, is_read_dominated};
use terrace_store::error::FsResult;
use terrace_store::file::FileData;
use terrace_store::index::Extent;
use terrace_store::space::Tiers;
use terrace_store::sync::Arc;

use crate::base::words::tier_name;
use crate::inode::resident::Inode;
use crate::tiering::cold::{Cold, TOGETHER_FILES_MAX, Together};
use crate::tiering::relocate::buffers::BUFFER_BLOCKS;
use crate::tiering::relocate::{Order, Wanted};
use crate::tiering::round::{Direction, Round};
use crate::tiering::select::{ALONE_BLOCKS, Selection, Selector, TRIED_FILES_MAX};

/// Files that are looked for in a second of the policy's clock.
#[derive(Clone, Copy)]
struct Look<'a> {
    shard: usize,
    second: u64,
    rule: Rule,
    /// Whether a file that is read may move; false, too, if somebody is writing it at the moment.
    may_move: &'a dyn Fn(&Inode) -> bool,
}

impl Selector {
    /// Relocates read-hot data of read-dominated files from PM to a disk and into the page cache,
    /// in this second of the policy's clock.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate_read_hot(&self, shard: usize, second: u64) -> FsResult<Round> {
        let params = self.tuning.params();
        let (used, budget) =
            (self.cache.clean_pages() + self.cache.dirty_pages(), self.cache.budget_pages());
        // Data that does not fit would be read from the disk.
        let room = budget.saturating_sub(used);
        let in_pm = |extent: &Extent| extent.addr.is_pm();
        let may_move = |inode: &Inode| {
            has_data_there(inode, &in_pm, |file| {
                let blocks = file.size.div_ceil(BLOCK_BYTES);
                is_read_dominated(inode.reading.blocks_read_since_write(), blocks, &params)
            })
        };
        let selection = Selection {
            wanted: Wanted { there: &in_pm, such: None },
            spares: None,
            tiers: Tiers::from(1),
            keep_cached: true,
            most: room,
            rule: Rule::ReadMigration,
        };
        let look = Look { shard, second, rule: selection.rule, may_move: &may_move };
        let direction = Direction { from: tier_name(0), to: "the disks" };
        let mut round = Round::Stuck(
            "read migration: no read-dominated file has data in PM, or the cache is full".into(),
        );
        let mut last = None;
        for _ in 0..TRIED_FILES_MAX {
            if room == 0 || !round.may_try_another() {
                break;
            }
            let Some(inode) = self.next_hot(look) else { break };
            last = Some(inode.ino.0);
            round = round.after(self.relocate_selection(&inode, selection), &direction)?;
        }
        self.hot[shard].lock().end_round(last, &round);
        Ok(round)
    }

    /// Relocates data of the files that are read most from disks to PM, up to `room` blocks: the
    /// first one that has much comes alone, or those before it that have little come together. In
    /// this second of the policy's clock.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate_reverse(&self, shard: usize, second: u64, room: u64) -> FsResult<Round> {
        let on_disk = |extent: &Extent| !extent.addr.is_pm() && !extent.unwritten();
        let order = Order {
            stretches: &[],
            wanted: Wanted { there: &on_disk, such: None },
            tiers: Tiers { first: 0, last: 0 },
            keep_cached: false,
            rule: Rule::ReverseMigration,
        };
        let direction = Direction { from: "the disks".to_owned(), to: "PM" };
        let mut round =
            Round::Stuck("reverse migration: nothing that is read fits into PM".to_owned());
        if room == 0 {
            return Ok(round);
        }
        let most = room.min(self.blocks_at_once());
        let may_move = |inode: &Inode| has_data_there(inode, &on_disk, |_| true);
        let look = Look { shard, second, rule: order.rule, may_move: &may_move };
        let (mut together, mut last) = (Together::default(), None);
        for _ in 0..TOGETHER_FILES_MAX {
            // Small files go through one buffer.
            let left = match together.blocks() {
                0 => most,
                blocks => most.min(BUFFER_BLOCKS).saturating_sub(blocks),
            };
            if left == 0 || !round.may_try_another() {
                break;
            }
            let Some(inode) = self.next_hot(look) else { break };
            last = Some(inode.ino.0);
            let pieces = self.find_pieces(&inode, order.wanted, None, left);
            match pieces.map(|pieces| Cold { such: None, pressure: Pressure::Low, pieces }) {
                Ok(cold) if cold.blocks() == 0 => {}
                Ok(cold) if cold.blocks() <= ALONE_BLOCKS => together.add(inode, cold),
                Ok(_) if !together.files.is_empty() => break,
                Ok(cold) => {
                    let moved = self.relocate_groups(&inode, cold.pieces, order);
                    round = round.after(moved, &direction)?;
                }
                Err(error) => round = round.after_failure(error)?,
            }
        }
        if !together.files.is_empty() {
            let moved = self.relocate_together(shard, &together, &|_| order);
            round = round.after(moved, &direction)?;
        }
        self.hot[shard].lock().end_round(last, &round);
        Ok(round)
    }

    /// The hottest file of those that were read, are not pinned and might move when all files were
    /// last looked at, and still may.
    fn next_hot(&self, look: Look<'_>) -> Option<Arc<Inode>> {
        let hot = &self.hot[look.shard];
        let needs_look = hot.lock().needs_look(look.rule, look.second);
        if needs_look {
            let found = self.look_at_all(look);
            hot.lock().remember(look.rule, look.second, found, HOT_FILES_MAX);
        }
        loop {
            let ino = hot.lock().pop()?;
            let inodes = self.inodes.shards[look.shard].inodes.read();
            let may_move = |inode: &&Arc<Inode>| is_free(inode) && (look.may_move)(inode);
            if let Some(inode) = inodes.get(&ino).filter(may_move) {
                return Some(inode.clone());
            }
        }
    }

    fn look_at_all(&self, look: Look<'_>) -> Vec<(i64, u64)> {
        let inodes = self.inodes.shards[look.shard].inodes.read();
        let is_read =
            |inode: &&Arc<Inode>| is_free(inode) && inode.reading.blocks_read_since_write() > 0;
        let files = inodes.values().filter(is_read).filter(|inode| (look.may_move)(inode));
        files.map(|inode| (inode.reading.mean_time_ns(), inode.ino.0)).collect()
    }
}

fn is_free(inode: &Inode) -> bool {
    inode.is_file() && inode.tiers.pin.get().is_none()
}

/// Whether a file has data that lies there, and is `such`; false if somebody is writing it.
fn has_data_there(
    inode: &Inode,
    there: &dyn Fn(&Extent) -> bool,
    such: impl Fn(&FileData) -> bool,
) -> bool {
    let inner = inode.inner.try_read();
    let is_there = |file: &FileData| file.index.iter().any(|(_, extent)| there(&extent));
    inner.is_some_and(|inner| inner.file().is_ok_and(|file| such(file) && is_there(file)))
}
