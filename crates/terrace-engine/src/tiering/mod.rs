//! The floor of tiers: where a write goes, what data moves to another tier, and when.
//!
//! | component | does |
//! |---|---|
//! | [`placement::Placement`] | PM or page cache, as `terrace-policy` decides |
//! | [`conditions::Conditions`] | says whether migration is on, and which tiers are full |
//! | [`relocate::Relocator`] | copy, validate, publish |
//! | [`select::Selector`] | which files' blocks move |
//! | [`pins::Pins`] | data that belongs to one tier whatever the policy says |
//! | [`cold_logs::ColdLogs`] | logs of cold inodes move to disks |
//! | [`schedule::Schedule`] | when data moves: a thread per shard, and the pulse |
//! | [`relief::Relief`] | room in PM for metadata, at once |
//! | [`room::Room`] | waiting for room that is on its way back |
//! | [`by_hand::ByHand`] | a user moves a part of a file |
//! | [`drain::Drain`] | everything on one disk moves elsewhere |
//!
//! They share [`gate::Gate`], between data that moves and programs that look for room, and
//! [`round::Rounds`], attempts to move something and why they were in vain. It uses `pageio`,
//! `inode` and what lies below. The floors below tell it of reads, writes and filling PM through
//! `inode::activity`; the floor above asks `Placement` where a write goes, and `Room` for room.

pub(crate) mod by_hand;
pub(crate) mod cold;
pub(crate) mod cold_logs;
pub(crate) mod conditions;
pub(crate) mod drain;
pub(crate) mod gate;
pub(crate) mod hot;
mod hot_files;
pub(crate) mod pins;
pub(crate) mod placement;
pub(crate) mod relief;
pub(crate) mod relocate;
pub(crate) mod room;
pub(crate) mod round;
pub(crate) mod schedule;
pub(crate) mod select;

use terrace_store::sync::atomic::AtomicBool;
use terrace_store::sync::{Arc, Mutex};

use self::by_hand::ByHand;
use self::cold_logs::ColdLogs;
use self::conditions::Conditions;
use self::drain::Drain;
use self::gate::Gate;
use self::pins::Pins;
use self::placement::Placement;
use self::relief::Relief;
use self::relocate::Relocator;
use self::room::Room;
use self::round::Rounds;
use self::schedule::Schedule;
use self::select::Selector;
use crate::base::counters::Counters;
use crate::base::options::OpenOptions;
use crate::base::tuning::Tuning;
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::health::Health;
use crate::inode::kin::Kin;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::inode::wear::Wear;
use crate::pageio::PageIo;

/// The components that other floors use.
#[derive(Debug)]
pub(crate) struct Tiering {
    pub placement: Arc<Placement>,
    pub conditions: Arc<Conditions>,
    pub selector: Arc<Selector>,
    pub schedule: Arc<Schedule>,
    pub relief: Arc<Relief>,
    pub room: Arc<Room>,
    pub by_hand: ByHand,
    pub drain: Arc<Drain>,
}

/// What tiering is built on.
pub(crate) struct Below {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub wear: Arc<Wear>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub inodes: Arc<Inodes>,
    pub kin: Arc<Kin>,
    pub pages: Arc<PageIo>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub options: Arc<OpenOptions>,
}

impl Tiering {
    /// The components, composed from the bottom up.
    pub fn new(below: Below) -> Self {
        let Below { store, health, devices, wear, cache, activity, commits, .. } = below;
        let Below { inodes, kin, pages, counters, tuning, options, .. } = below;
        let placement = Arc::new(Placement {
            store: store.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            inodes: inodes.clone(),
            kin: kin.clone(),
            counters: counters.clone(),
            tuning: tuning.clone(),
            options,
        });
        let conditions = Arc::new(Conditions {
            store: store.clone(),
            health: health.clone(),
            tuning: tuning.clone(),
        });
        let (gate, rounds) = (Arc::<Gate>::default(), Arc::new(Rounds::new(inodes.clone())));
        let relocator = Arc::new(Relocator {
            store: store.clone(),
            health: health.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            devices: devices.clone(),
            conditions: conditions.clone(),
            pages: pages.clone(),
            counters: counters.clone(),
            wear: wear.clone(),
            buffers: Default::default(),
        });
        let selector = Arc::new(Selector {
            store: store.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            inodes: inodes.clone(),
            kin,
            counters: counters.clone(),
            tuning: tuning.clone(),
            relocator: relocator.clone(),
            turnover: Default::default(),
            hot: (0..store.shards()).map(|_| Mutex::default()).collect(),
        });
        let pins = Pins {
            store: store.clone(),
            activity: activity.clone(),
            inodes: inodes.clone(),
            selector: selector.clone(),
        };
        let cold_logs = Arc::new(ColdLogs {
            store: store.clone(),
            health: health.clone(),
            devices: devices.clone(),
            activity: activity.clone(),
            inodes: inodes.clone(),
            pages: pages.clone(),
            counters: counters.clone(),
            tuning: tuning.clone(),
            conditions: conditions.clone(),
            wear: wear.clone(),
            under_way: (0..store.shards()).map(|_| Mutex::default()).collect(),
        });
        let relief = Arc::new(Relief {
            store: store.clone(),
            inodes: inodes.clone(),
            conditions: conditions.clone(),
            gate: gate.clone(),
            relocator: relocator.clone(),
            selector: selector.clone(),
            cold_logs: cold_logs.clone(),
            rounds: rounds.clone(),
            turn: Default::default(),
        });
        let room = Arc::new(Room {
            store: store.clone(),
            health: health.clone(),
            inodes: inodes.clone(),
            pages: pages.clone(),
            conditions: conditions.clone(),
            gate: gate.clone(),
            relief: relief.clone(),
            counters: counters.clone(),
        });
        let by_hand = ByHand {
            store: store.clone(),
            activity: activity.clone(),
            inodes: inodes.clone(),
            pages: pages.clone(),
            gate: gate.clone(),
            relocator: relocator.clone(),
            cold_logs: cold_logs.clone(),
        };
        let drain = Arc::new(Drain {
            store: store.clone(),
            health: health.clone(),
            devices: devices.clone(),
            inodes: inodes.clone(),
            pages: pages.clone(),
            gate: gate.clone(),
            relocator: relocator.clone(),
            cold_logs: cold_logs.clone(),
            removals: Default::default(),
        });
        let schedule = Arc::new(Schedule {
            store: store.clone(),
            health: health.clone(),
            activity: activity.clone(),
            counters: counters.clone(),
            tuning: tuning.clone(),
            conditions: conditions.clone(),
            wear,
            gate: gate.clone(),
            relocator: relocator.clone(),
            selector: selector.clone(),
            pins,
            cold_logs,
            rounds,
            started: AtomicBool::new(false),
            pulse: Default::default(),
            pace: Default::default(),
        });
        Self { placement, conditions, selector, schedule, relief, room, by_hand, drain }
    }
}
