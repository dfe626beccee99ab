//! Data that programs read goes where it is read faster: read migration and reverse migration
//! (formula (2)).

use terrace_layout::BLOCK_BYTES;
use terrace_policy::{Pressure, Rule, hottest, is_read_dominated};
use terrace_store::error::FsResult;
use terrace_store::index::Extent;
use terrace_store::space::Tiers;
use terrace_store::sync::Arc;

use crate::base::words::tier_name;
use crate::inode::resident::Inode;
use crate::tiering::cold::{Cold, Together};
use crate::tiering::relocate::{Order, Wanted};
use crate::tiering::round::{Direction, Round};
use crate::tiering::select::{ALONE_BLOCKS, Selection, Selector, TRIED_FILES_MAX};

/// Most files of a shard that are remembered as hot.
const HOT_FILES_MAX: usize = 65_536;

/// Files that are read, as of the last look at all files of a shard. A look takes as long as there
/// are files in DRAM, so it serves all rounds of a second.
#[derive(Debug, Default)]
pub(crate) struct HotFiles {
    /// Inode numbers, the hottest last.
    files: Vec<u64>,
    /// For which migration, and in which second.
    looked: Option<(Rule, u64)>,
    /// There were more than are remembered.
    has_more: bool,
}

/// Which files are looked for.
#[derive(Clone, Copy)]
struct Look<'a> {
    shard: usize,
    second: u64,
    rule: Rule,
    there: &'a dyn Fn(&Extent) -> bool,
}

impl Selector {
    /// Relocates read-hot data of read-dominated files from PM to a disk and into the page cache, in
    /// this second of the policy's clock.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate_read_hot(&self, shard: usize, second: u64) -> FsResult<Round> {
        let params = self.tuning.params();
        let (used, budget) =
            (self.cache.clean_pages() + self.cache.dirty_pages(), self.cache.budget_pages());
        // Data that does not fit would be read from the disk.
        let room = budget.saturating_sub(used);
        let is_dominated = |inode: &Inode| {
            let blocks = inode.inner.try_read()?.file().ok()?.size.div_ceil(BLOCK_BYTES);
            Some(is_read_dominated(inode.reading.blocks_read_since_write(), blocks, &params))
        };
        let in_pm = |extent: &Extent| extent.addr.is_pm();
        let selection = Selection {
            wanted: Wanted { there: &in_pm, such: None },
            spares: None,
            tiers: Tiers::from(1),
            keep_cached: true,
            most: room,
            rule: Rule::ReadMigration,
        };
        let look = Look { shard, second, rule: Rule::ReadMigration, there: &in_pm };
        let direction = Direction { from: tier_name(0), to: "the disks" };
        let mut round = Round::Stuck(
            "read migration: no read-dominated file has data in PM, or the cache is full".into(),
        );
        let (mut last, mut tried) = (None, 0);
        while room > 0 && tried < TRIED_FILES_MAX && round.may_try_another() {
            let Some(inode) = self.next_hot(look) else { break };
            if is_dominated(&inode) == Some(true) {
                round = round.after(self.relocate_selection(&inode, selection), &direction)?;
                tried += 1;
            }
            last = Some(inode);
        }
        self.look_again_at(last, shard);
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
        let look = Look { shard, second, rule: order.rule, there: &on_disk };
        let (mut together, mut last) = (Together::default(), None);
        loop {
            let left = most.saturating_sub(together.blocks());
            if left == 0 || together.is_enough(most) || !round.may_try_another() {
                break;
            }
            let Some(inode) = self.next_hot(look) else { break };
            last = Some(inode.clone());
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
        self.look_again_at(last, shard);
        if !together.files.is_empty() {
            let moved = self.relocate_together(shard, &together, &|_| order);
            round = round.after(moved, &direction)?;
        }
        Ok(round)
    }

    /// The hottest of the files that were read and are not pinned, and of which something lay there
    /// when all files of the shard were last looked at. They are looked at when the second is
    /// another one, when other files are asked for, and when all that were found have been taken
    /// and there were more.
    fn next_hot(&self, look: Look<'_>) -> Option<Arc<Inode>> {
        let mut hot = self.hot[look.shard].lock();
        let is_current = hot.looked == Some((look.rule, look.second));
        if !is_current || (hot.files.is_empty() && hot.has_more) {
            *hot = self.look_at_all(look);
        }
        let inodes = self.inodes.shards[look.shard].inodes.read();
        loop {
            let ino = hot.files.pop()?;
            if let Some(inode) = inodes.get(&ino).filter(|inode| may_move(inode)) {
                return Some(inode.clone());
            }
        }
    }

    /// The file that was taken last may have more to move: it is the next.
    fn look_again_at(&self, last: Option<Arc<Inode>>, shard: usize) {
        self.hot[shard].lock().files.extend(last.map(|inode| inode.ino.0));
    }

    fn look_at_all(&self, look: Look<'_>) -> HotFiles {
        let inodes = self.inodes.shards[look.shard].inodes.read();
        let is_read =
            |inode: &&Arc<Inode>| may_move(inode) && inode.reading.blocks_read_since_write() > 0;
        let has_data_there = |inode: &&Arc<Inode>| {
            let inner = inode.inner.try_read();
            inner.and_then(|inner| {
                inner.file().ok().map(|file| file.index.iter().any(|(_, e)| (look.there)(&e)))
            }) == Some(true)
        };
        let files = inodes.values().filter(is_read).filter(has_data_there);
        let mut hot: Vec<_> =
            files.map(|inode| (inode.reading.mean_time_ns(), inode.ino.0)).collect();
        let has_more = hot.len() > HOT_FILES_MAX;
        hottest(&mut hot, HOT_FILES_MAX);
        let files = hot.into_iter().rev().map(|(_, ino)| ino).collect();
        HotFiles { files, looked: Some((look.rule, look.second)), has_more }
    }
}

fn may_move(inode: &Inode) -> bool {
    inode.is_file() && inode.tiers.pin.get().is_none()
}
