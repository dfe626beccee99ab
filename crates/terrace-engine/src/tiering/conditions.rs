//! What must be so for data to move: migration is on, and a tier is full.

use terrace_policy::{Param, logs_leave, tier_is_full, used_percent};
use terrace_store::sync::Arc;

use crate::base::tuning::Tuning;
use crate::inode::health::Health;
use crate::inode::store::Store;

/// See the module.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub tuning: Arc<Tuning>,
}

impl Conditions {
    /// Whether data moves by itself.
    pub fn migrates(&self) -> bool {
        self.tuning.get(Param::Migrate) == 1
            && self.store.space.has_disks()
            && !self.health.is_read_only()
    }

    /// How much of PM is in use.
    pub fn pm_used_percent(&self) -> f64 {
        used_percent(self.store.space.pm().blocks(), self.store.space.pm().free_blocks())
    }

    /// Whether PM is so full that logs leave it, too.
    pub fn logs_leave(&self) -> bool {
        logs_leave(self.pm_used_percent(), &self.tuning.params())
    }

    /// A tier of disks that moves data to the next: it is nearly full, and there is a next one
    /// which is not.
    pub fn full_tier(&self) -> Option<(u8, u8)> {
        let tiers: Vec<u8> = self.store.space.tiers().skip(1).collect();
        let moves = |pair: &&[u8]| self.is_full_tier(pair[0]) && !self.is_full_tier(pair[1]);
        tiers.windows(2).find(moves).map(|pair| (pair[0], pair[1]))
    }

    /// How many blocks a tier of disks has beyond the usage above which data is to leave it.
    pub fn blocks_too_many(&self, tier: u8) -> u64 {
        let (blocks, free) = self.store.space.tier_space(tier);
        let most = blocks as f64 * self.tuning.get(Param::TierFull) as f64 / 100.0;
        (blocks - free).saturating_sub(most as u64)
    }

    /// Whether a tier of disks is so full that data is to leave it.
    pub fn is_full_tier(&self, tier: u8) -> bool {
        let (blocks, free) = self.store.space.tier_space(tier);
        tier_is_full(blocks, free, &self.tuning.params())
    }
}
