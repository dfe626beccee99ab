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
use crate::tiering::cold::{Cold, TOGETHER_FILES_MAX, Together};
use crate::tiering::relocate::{Order, Wanted};
use crate::tiering::round::{Direction, Round};
use crate::tiering::select::{ALONE_BLOCKS, Selection, Selector, TRIED_FILES_MAX};

impl Selector {
    /// Relocates read-hot data of read-dominated files from PM to a disk and into the page cache.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate_read_hot(&self, shard: usize) -> FsResult<Round> {
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
        let files =
            if room == 0 { Vec::new() } else { self.hottest_files(shard, &in_pm, TRIED_FILES_MAX) };
        let files = files.into_iter().filter(|inode| is_dominated(inode) == Some(true));
        let otherwise =
            "read migration: no read-dominated file has data in PM, or the cache is full";
        let direction = Direction { from: tier_name(0), to: "the disks" };
        self.relocate_first(files, selection, &direction, otherwise)
    }

    /// Relocates data of the first of the files of which anything moves.
    fn relocate_first(
        &self,
        files: impl Iterator<Item = Arc<Inode>>,
        selection: Selection<'_>,
        direction: &Direction,
        otherwise: &str,
    ) -> FsResult<Round> {
        let mut round = Round::Stuck(otherwise.to_owned());
        for inode in files {
            if round.may_try_another() {
                round = round.after(self.relocate_selection(&inode, selection), direction)?;
            }
        }
        Ok(round)
    }

    /// Relocates data of the files that are read most from disks to PM, up to `room` blocks: the
    /// first one that has much comes alone, or those before it that have little come together.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate_reverse(&self, shard: usize, room: u64) -> FsResult<Round> {
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
        let mut together = Together::default();
        for inode in self.hottest_files(shard, &on_disk, TOGETHER_FILES_MAX) {
            let left = most.saturating_sub(together.blocks());
            if left == 0 || together.is_enough(most) || !round.may_try_another() {
                break;
            }
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
        Ok(round)
    }

    /// Files of a shard that were read and are not pinned, and of which something lies `there`,
    /// hottest first, up to `most`.
    fn hottest_files(
        &self,
        shard: usize,
        there: &dyn Fn(&Extent) -> bool,
        most: usize,
    ) -> Vec<Arc<Inode>> {
        let inodes = self.inodes.shards[shard].inodes.read();
        let may_move = |inode: &&Arc<Inode>| inode.is_file() && inode.tiers.pin.get().is_none();
        let is_read =
            |inode: &&Arc<Inode>| may_move(inode) && inode.reading.blocks_read_since_write() > 0;
        let has_data_there = |inode: &&Arc<Inode>| {
            let inner = inode.inner.try_read();
            inner.and_then(|inner| {
                inner.file().ok().map(|file| file.index.iter().any(|(_, e)| there(&e)))
            }) == Some(true)
        };
        let files = inodes.values().filter(is_read).filter(has_data_there);
        let mut hot = files.map(|inode| (inode.reading.mean_time_ns(), inode.ino.0)).collect();
        hottest(&mut hot, most);
        hot.iter().filter_map(|(_, ino)| inodes.get(ino).cloned()).collect()
    }
}
