//! What a volume is made of: its components, composed from the bottom up.
//!
//! Opening and closing see all of them, and so does the facade. No component does: each holds the
//! ones below it that it needs.

use terrace_layout::Superblock;
use terrace_media::Pm;
use terrace_store::checkpoint;
use terrace_store::itable::InodeTable;
use terrace_store::space::Space;
use terrace_store::sync::{Arc, Mutex};

use crate::base::counters::Counters;
use crate::base::options::OpenOptions;
use crate::base::recorder::Recorder;
use crate::base::tuning::Tuning;
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::dirty::DirtyFiles;
use crate::inode::health::Health;
use crate::inode::kin::Kin;
use crate::inode::resident::loans::{self, Loans};
use crate::inode::store::Store;
use crate::inode::table::{Below, Inodes};
use crate::inode::wear::{Beginning, Wear};
use crate::ops::data::Files;
use crate::ops::lending::Lending;
use crate::ops::names::Names;
use crate::ops::xattr::Attributes;
use crate::pageio::{MakeRoom, PageIo};
use crate::tiering::{self, Tiering};

/// What a volume is opened from.
pub(crate) struct Media {
    pub pm: Arc<Pm>,
    pub sb: Superblock,
    pub space: Space,
    pub tables: Vec<InodeTable>,
    pub cache: Arc<PageCache>,
    pub wear: Beginning,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Parts {
    pub options: Arc<OpenOptions>,
    pub counters: Arc<Counters>,
    pub recorder: Arc<Recorder>,
    pub tuning: Arc<Tuning>,
    pub cache: Arc<PageCache>,
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub wear: Arc<Wear>,
    pub activity: Arc<Activity>,
    pub dirty: Arc<DirtyFiles>,
    pub kin: Arc<Kin>,
    pub inodes: Arc<Inodes>,
    pub loans: Arc<Loans>,
    pub pages: Arc<PageIo>,
    pub tiering: Tiering,
    pub files: Arc<Files>,
    pub lending: Arc<Lending>,
    pub attributes: Attributes,
    pub names: Names,
}

impl Parts {
    /// The components of a volume that has been read from these media.
    pub fn new(media: Media, options: OpenOptions) -> Self {
        let Media { pm, sb, space, tables, cache, wear } = media;
        let options = Arc::new(options);
        let (counters, recorder) = (Arc::<Counters>::default(), Arc::<Recorder>::default());
        let tuning = Arc::new(Tuning::new(&options.params));
        let siblings = checkpoint::siblings(&pm, &sb);
        let store = Arc::new(Store::new(pm, &sb, space));
        let health = Arc::new(Health::new(options.read_only));
        let wear = Arc::new(Wear::new(store.clone(), counters.clone(), sb, wear));
        let devices = Arc::new(DeviceTable::new(store.clone(), health.clone(), wear.clone(), sb));
        let activity = Arc::new(Activity::new(store.clone()));
        let commits = Arc::new(Commits::new(store.clone(), activity.clone(), devices.clone()));
        let dirty = Arc::new(DirtyFiles::new(cache.clone(), store.shards()));
        let kin = Arc::new(Kin::new(tuning.clone(), siblings));
        let below = Below {
            store: store.clone(),
            health: health.clone(),
            devices: devices.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            dirty: dirty.clone(),
            recorder: recorder.clone(),
            kin: kin.clone(),
            options: options.clone(),
        };
        let inodes = Arc::new(Inodes::new(below, tables));
        let loans = Arc::new(Loans::new(
            loans::Below {
                store: store.clone(),
                health: health.clone(),
                counters: counters.clone(),
                tuning: tuning.clone(),
                kin: kin.clone(),
            },
            options.loans.clone(),
        ));
        let pages = Arc::new(PageIo {
            store: store.clone(),
            health: health.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            dirty: dirty.clone(),
            inodes: inodes.clone(),
            counters: counters.clone(),
            tuning: tuning.clone(),
            options: options.clone(),
            crcs: Default::default(),
            later: Default::default(),
            room: Mutex::new(None),
        });
        let tiering = Tiering::new(tiering::Below {
            store: store.clone(),
            health: health.clone(),
            devices: devices.clone(),
            wear: wear.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            inodes: inodes.clone(),
            kin: kin.clone(),
            pages: pages.clone(),
            counters: counters.clone(),
            tuning: tuning.clone(),
            options: options.clone(),
        });
        let room: Arc<dyn MakeRoom> = tiering.relief.clone();
        *pages.room.lock() = Some(Arc::downgrade(&room));
        let files = Arc::new(Files {
            store: store.clone(),
            health: health.clone(),
            cache: cache.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            dirty: dirty.clone(),
            inodes: inodes.clone(),
            pages: pages.clone(),
            placement: tiering.placement.clone(),
            room: tiering.room.clone(),
            counters: counters.clone(),
            options: options.clone(),
        });
        let lending = Arc::new(Lending {
            store: store.clone(),
            health: health.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            inodes: inodes.clone(),
            loans: loans.clone(),
            tuning: tuning.clone(),
            recorder: recorder.clone(),
        });
        let attributes = Attributes {
            store: store.clone(),
            activity: activity.clone(),
            commits: commits.clone(),
            inodes: inodes.clone(),
            room: tiering.room.clone(),
            files: files.clone(),
        };
        let names = Names {
            store: store.clone(),
            devices: devices.clone(),
            activity: activity.clone(),
            commits,
            inodes: inodes.clone(),
            kin: kin.clone(),
            pages: pages.clone(),
            room: tiering.room.clone(),
            rename: Mutex::new(()),
        };
        Self {
            options,
            counters,
            recorder,
            tuning,
            cache,
            store,
            health,
            devices,
            wear,
            activity,
            dirty,
            kin,
            inodes,
            loans,
            pages,
            tiering,
            files,
            lending,
            attributes,
            names,
        }
    }
}
