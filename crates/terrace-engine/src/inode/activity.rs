//! What the tiering floor is told of: reads and writes, data that has come to a tier, PM that fills
//! up. All floors speak to it here; who moves data reads what was noted, and sleeps on the bells.

use terrace_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_store::sync::{Arc, Condvar, Mutex};

use crate::base::recent::Recent;
use crate::base::types::Time;
use crate::base::words::{counted, tier_name};
use crate::inode::lists::Lists;
use crate::inode::resident::{Body, Inner, Inode};
use crate::inode::store::Store;

/// Something that a thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// There is something to do.
    pub rung: Mutex<bool>,
    pub wake: Condvar,
}

impl Bell {
    /// There is something to do.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.wake.notify_all();
    }
}

/// What is noted of the files of one shard.
#[derive(Debug, Default)]
pub(crate) struct ShardActivity {
    pub lists: Mutex<Lists>,
    pub recent: Recent,
    /// Its mover has something to do.
    pub mover: Bell,
    /// The mover knows, or tried in vain and is to be left alone until the pulse wakes it: writers
    /// need not.
    pub notified: AtomicBool,
}

impl ShardActivity {
    /// Tells the mover that there is something to do.
    pub fn notify(&self) {
        self.notified.store(true, Ordering::Relaxed);
        self.mover.ring();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Activity {
    store: Arc<Store>,
    pub shards: Vec<ShardActivity>,
    /// Free PM blocks below which data is to leave PM, as of the last look at the traffic.
    pub floor_blocks: AtomicU64,
    /// The pulse rests; whoever does something wakes it.
    pub resting: AtomicBool,
    pub pulse: Bell,
}

impl Activity {
    /// Of a volume of which nothing is known yet.
    pub fn new(store: Arc<Store>) -> Self {
        let shards = (0..store.shards()).map(|_| ShardActivity::default()).collect();
        Self {
            store,
            shards,
            floor_blocks: AtomicU64::new(0),
            resting: AtomicBool::new(false),
            pulse: Bell::default(),
        }
    }

    /// A file is gone.
    pub fn forget(&self, inode: &Inode) {
        self.shards[inode.shard].lists.lock().forget(inode.ino);
    }
}

impl Activity {
    /// The attribute of an inode, whose lock the caller holds, says this now.
    pub fn set_pin(&self, inode: &Inode, inner: &Inner, pin: Option<u8>) {
        inode.tiers.pin.set(pin);
        if !inode.is_file() {
            return;
        }
        if pin.is_some() {
            inode.tiers.unlist_everywhere();
            self.shards[inode.shard].lists.lock().forget(inode.ino);
        }
        self.note_pinned(inode, self.is_stray(pin, inner));
        match pin {
            Some(_) => self.note_traffic(),
            None => self.list_everywhere(inode, inner),
        }
    }

    /// A file has been loaded or made, has got a pin or lost it, or has got data on a device.
    pub fn note_pinned(&self, inode: &Inode, is_stray: bool) {
        self.shards[inode.shard].lists.lock().pins.note(inode.ino, inode.tiers.pin.get(), is_stray);
    }

    /// A pinned file, whose lock the caller holds, has got data in this tier.
    #[inline]
    pub fn note_pinned_data_in(&self, inode: &Inode, tier: u8) {
        if inode.tiers.pin.get().is_some_and(|pin| pin != tier) {
            self.note_pinned(inode, true);
        }
    }

    /// Whether data of a file that is pinned so lies on another tier.
    pub fn is_stray(&self, pin: Option<u8>, inner: &Inner) -> bool {
        let Body::File(file) = &inner.body else {
            return false;
        };
        pin.is_some_and(|pin| {
            file.index.iter().any(|(_, extent)| self.store.space.tier_of(extent.addr) != pin)
        })
    }

    /// Whether data waits to be brought to the tier that it is pinned to.
    pub fn has_strays(&self) -> bool {
        self.shards.iter().any(|shard| !shard.lists.lock().pins.strays.is_empty())
    }

    /// Pinned files that have been used since the mount, and those of them that have data
    /// elsewhere.
    pub fn count_pinned(&self) -> (u64, u64) {
        let of = |shard: &ShardActivity| {
            let lists = shard.lists.lock();
            (lists.pins.tiers.len() as u64, lists.pins.strays.len() as u64)
        };
        self.shards.iter().map(of).fold((0, 0), |(files, strays), (f, s)| (files + f, strays + s))
    }

    /// Why nothing can leave a tier, if pins have to do with it.
    pub fn pinned_in_words(&self, shard: usize, tier: u8) -> Option<String> {
        let count = self.shards[shard].lists.lock().pins.counts[usize::from(tier)];
        (count > 0).then(|| {
            let files = counted(count, "file is", "files are");
            format!(
                "{files} pinned to {0}, and no other has data to give away there",
                tier_name(tier)
            )
        })
    }

    /// Called after every read and write: wakes who should look.
    #[inline]
    pub fn note_traffic(&self) {
        if self.resting.load(Ordering::Relaxed) {
            self.wake_pulse();
        }
    }

    /// Called after a write to PM: wakes the shard's mover if PM is too full.
    #[inline]
    pub fn note_pm_use(&self, shard: usize) {
        if self.store.space.pm().free_blocks() < self.floor_blocks.load(Ordering::Relaxed) {
            let mover = &self.shards[shard];
            if !mover.notified.load(Ordering::Relaxed) {
                mover.notify();
            }
        }
    }

    #[cold]
    fn wake_pulse(&self) {
        self.resting.store(false, Ordering::Relaxed);
        self.pulse.ring();
    }

    /// Lists a file in every tier where it has data.
    pub fn list_everywhere(&self, inode: &Inode, inner: &Inner) {
        let Body::File(file) = &inner.body else {
            return;
        };
        if inode.deleted.load(Ordering::Acquire) {
            return;
        }
        let mut tiers: Vec<u8> =
            file.index.iter().map(|(_, extent)| self.store.space.tier_of(extent.addr)).collect();
        tiers.sort_unstable();
        tiers.dedup();
        tiers.iter().for_each(|&tier| self.note_data_in(inode, tier, file.heat.mean()));
    }

    /// The file has data in a tier: it may be found cold there.
    #[inline]
    pub fn note_data_in(&self, inode: &Inode, tier: u8, mean: Time) {
        if inode.tiers.pin.get().is_some() {
            return self.note_pinned_data_in(inode, tier);
        }
        if inode.tiers.list(tier) {
            self.shards[inode.shard].lists.lock().of_tier(tier).note(inode.ino.0, mean.0);
        }
    }
}
