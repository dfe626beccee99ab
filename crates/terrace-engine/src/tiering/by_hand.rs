//! Moving a part of a file to a tier because a user asks for it: `terrace evict` and `warm`.

use std::ops::Range;

use terrace_layout::BLOCK_BYTES;
use terrace_policy::Rule;
use terrace_store::error::{FsError, FsResult};
use terrace_store::index::Extent;
use terrace_store::sync::Arc;

use crate::base::patience;
use crate::base::types::{FileMoved, Ino};
use crate::base::words::tier_name;
use crate::inode::activity::Activity;
use crate::inode::resident::Inode;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::PageIo;
use crate::tiering::cold_logs::ColdLogs;
use crate::tiering::gate::Gate;
use crate::tiering::relocate::route::routes_to;
use crate::tiering::relocate::{Order, Relocator, Wanted};

/// See the module.
#[derive(Debug)]
pub(crate) struct ByHand {
    pub store: Arc<Store>,
    pub activity: Arc<Activity>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub gate: Arc<Gate>,
    pub relocator: Arc<Relocator>,
    pub cold_logs: Arc<ColdLogs>,
}

impl ByHand {
    /// Moves one stretch, see [`Volume::move_some`](crate::Volume::move_some).
    pub fn move_range(&self, ino: Ino, tier: u8, offset: u64, len: u64) -> FsResult<FileMoved> {
        let inode = self.inodes.get(ino)?;
        self.check_tier(tier)?;
        inode.shared()?.file()?;
        if let Some(pin) = inode.tiers.pin.get().filter(|&pin| pin != tier) {
            let message = format!("it is pinned to {}: `terrace unpin` lifts that", tier_name(pin));
            return Err(FsError::with_message(libc::EPERM, message));
        }
        let blocks = match len {
            0 => 0..0,
            _ => offset / BLOCK_BYTES..offset.saturating_add(len).div_ceil(BLOCK_BYTES),
        };
        let moved = self.move_blocks(&inode, tier, blocks);
        self.relocator.buffers.release();
        self.activity.note_moved(&inode);
        moved
    }

    fn move_blocks(&self, inode: &Arc<Inode>, tier: u8, blocks: Range<u64>) -> FsResult<FileMoved> {
        if inode.pages.has_dirty() {
            self.inodes.before_closing(|| self.pages.flush_file(inode))?;
        }
        if tier == 0 && inode.shared()?.log.archive().is_some() {
            self.inodes
                .before_closing(|| self.inodes.mutate(|| self.cold_logs.bring_to_pm(inode)))?;
        }
        let routes = routes_to(&self.store.space, tier);
        let mut result = FileMoved::default();
        let mut rest = blocks;
        if let Some(stretch) = inode.next_stretch(&mut rest, &|_| true)? {
            let stretches = std::slice::from_ref(&stretch);
            for route in &routes {
                let there =
                    |extent: &Extent| route.from.contains(self.store.space.tier_of(extent.addr));
                let wanted = Wanted { there: &there, such: None };
                let order = Order {
                    stretches,
                    wanted,
                    tiers: route.to,
                    keep_cached: false,
                    rule: Rule::ByHand,
                };
                let _under_way = self.gate.begin_by_hand()?;
                let relocate = || self.relocator.relocate(inode, order).all();
                match self.inodes.before_closing(|| patience::endure(relocate)) {
                    Ok(blocks) => result.moved_bytes += blocks * BLOCK_BYTES,
                    Err(error) if !error.is_no_room() => return Err(error),
                    Err(_) => {}
                }
            }
            let is_below =
                |extent: &Extent| tier > 0 && self.store.space.tier_of(extent.addr) > tier;
            let is_left = |extent: &Extent| {
                self.store.space.tier_of(extent.addr) != tier && !is_below(extent)
            };
            result.below_bytes += self.count_blocks(inode, &stretch, &is_below)? * BLOCK_BYTES;
            result.left_bytes += self.count_blocks(inode, &stretch, &is_left)? * BLOCK_BYTES;
            let next = inode.next_stretch(&mut rest, &|_| true)?;
            result.next_bytes = next.map(|next| next.start * BLOCK_BYTES);
        }
        Ok(result)
    }

    fn check_tier(&self, tier: u8) -> FsResult<()> {
        let last = self.store.space.tiers().last().unwrap_or(0);
        if tier <= last {
            return Ok(());
        }
        let message = format!("tier {tier}: the volume's tiers are 0 (PM) to {last}");
        Err(FsError::with_message(libc::EINVAL, message))
    }

    fn count_blocks(
        &self,
        inode: &Inode,
        among: &Range<u64>,
        wanted: &dyn Fn(&Extent) -> bool,
    ) -> FsResult<u64> {
        let inner = inode.shared()?;
        let mut blocks = 0;
        for (start, extent) in inner.file()?.index.overlaps(among.start, among.end) {
            let (a, b) =
                (start.max(among.start), (start + u64::from(extent.blocks)).min(among.end));
            blocks += if wanted(&extent) { b - a } else { 0 };
        }
        Ok(blocks)
    }
}
