//! The files that are used most and least, for people to look at, with what is known of them
//! without looking at all files.
//!
//! A question takes bounded work, however many files there are:
//! * the hottest are the best of [`RECENT`] files of each shard, of those that were read or written
//!   last;
//! * the coldest are the best of [`LISTED_MAX`] of each list of cold files;
//! * paths are looked for among [`NAMES_MAX`] names, further on with each question, and kept as
//!   long as they are right.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use terrace_layout::BLOCK_BYTES;
use terrace_policy::hottest;
use terrace_store::sync::{Arc, Mutex, limit};

use crate::base::types::Ino;
use crate::base::words::tier_name;
use crate::inode::activity::Activity;
use crate::inode::paths::{Walk, shown};
use crate::inode::resident::Inode;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::tiering::placement::Placement;
use crate::tiering::select::Selector;

/// Files that are looked at in each list of cold ones: those listed there may have become hotter
/// since.
const LISTED_MAX: usize = 64;
/// Files of each kind that are shown.
const SHOWN: usize = 5;
/// Names in which a question looks for paths; a directory counts as [`DIRECTORY_NAMES`] more.
const NAMES_MAX: usize = limit(16384, 16);
/// What it costs to come to a directory, in names.
const DIRECTORY_NAMES: usize = 8;

/// A file, where its data is, and when it was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankedFile {
    /// Inode number.
    pub ino: u64,
    /// One of its paths, from the root of the volume; none if it has not been found yet.
    pub path: Option<String>,
    /// Bytes of it on each tier, by the tier's name, and those in the page cache that wait for a
    /// disk, as `cache`.
    pub bytes: BTreeMap<String, u64>,
    /// As [`FileOpinion`](crate::FileOpinion) has it.
    pub mean_write_age_seconds: Option<u64>,
    /// Likewise.
    pub mean_read_age_seconds: Option<u64>,
}

/// The files of a volume that are used most and least.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRanking {
    /// Those whose blocks were read or written last, on average; the hottest first.
    pub hottest: Vec<RankedFile>,
    /// Those that have not been written for longest, on average, among those that migration may
    /// move; the coldest first.
    pub coldest: Vec<RankedFile>,
}

/// Paths of files that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    known: HashMap<u64, Vec<u8>>,
    walk: Option<Walk>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ranking {
    pub store: Arc<Store>,
    pub inodes: Arc<Inodes>,
    pub activity: Arc<Activity>,
    pub placement: Arc<Placement>,
    pub selector: Arc<Selector>,
    pub paths: Mutex<Paths>,
}

impl Ranking {
    pub fn file_ranking(&self) -> FileRanking {
        let hottest = self.hottest_now();
        let mut coldest = self.coldest_now();
        coldest.retain(|inode| hottest.iter().all(|hot| hot.ino != inode.ino));
        coldest.truncate(SHOWN);
        let mut paths = self.paths.lock();
        self.find_paths(
            &mut paths,
            hottest.iter().chain(&coldest).map(|inode| inode.ino.0).collect(),
        );
        let ranked = |inodes: &[Arc<Inode>]| {
            inodes.iter().filter_map(|inode| self.ranked(inode, &paths)).collect()
        };
        FileRanking { hottest: ranked(&hottest), coldest: ranked(&coldest) }
    }

    fn hottest_now(&self) -> Vec<Arc<Inode>> {
        let mut used = Vec::new();
        for (shard, activity) in self.inodes.shards.iter().zip(&self.activity.shards) {
            let inodes = shard.inodes.read();
            let recent = activity
                .recent
                .inos()
                .filter_map(|ino| inodes.get(&ino))
                .filter(|inode| inode.is_file());
            let time = |inode: &Inode| inode.reading.mean_time_ns().max(inode.tiers.amtime_ns());
            used.extend(recent.map(|inode| (time(inode), inode.ino.0)));
        }
        hottest(&mut used, SHOWN);
        used.into_iter().filter_map(|(_, ino)| self.inodes.get(Ino(ino)).ok()).collect()
    }

    /// Some more than are shown.
    fn coldest_now(&self) -> Vec<Arc<Inode>> {
        let mut cold = Vec::new();
        for shard in 0..self.store.shards() {
            self.selector.scan_some(shard);
            let inodes = self.inodes.shards[shard].inodes.read();
            let lists = self.activity.shards[shard].lists.lock();
            for (listed, ino) in
                lists.cold.iter().flat_map(|list| list.coldest_first().take(LISTED_MAX))
            {
                // A file that is not in DRAM has not changed since it was listed.
                let now = inodes.get(&ino).map_or(listed, |inode| inode.tiers.rank_ns());
                cold.push((now, ino));
            }
        }
        cold.sort_unstable();
        cold.dedup_by_key(|&mut (_, ino)| ino);
        let files = cold.into_iter().filter_map(|(_, ino)| self.inodes.get(Ino(ino)).ok());
        files
            .filter(|inode| inode.is_file() && inode.tiers.pin.get().is_none())
            .take(2 * SHOWN)
            .collect()
    }

    fn ranked(&self, inode: &Arc<Inode>, paths: &Paths) -> Option<RankedFile> {
        let inner = inode.glance().ok()?;
        let file = inner.file().ok()?;
        let mut bytes = BTreeMap::<String, u64>::new();
        for (_, extent) in file.index.iter() {
            *bytes.entry(tier_name(self.store.space.tier_of(extent.addr))).or_default() +=
                u64::from(extent.blocks) * BLOCK_BYTES;
        }
        let dirty = inode.pages.dirty_pages() * BLOCK_BYTES;
        bytes.extend((dirty > 0).then(|| ("cache".to_owned(), dirty)));
        let opinion = self.placement.opinion_of(inode, file);
        Some(RankedFile {
            ino: inode.ino.0,
            path: paths.known.get(&inode.ino.0).map(|path| shown(path)),
            bytes,
            mean_write_age_seconds: opinion.mean_write_age_seconds,
            mean_read_age_seconds: opinion.mean_read_age_seconds,
        })
    }

    /// Makes the paths of these files known, as far as they are found in time.
    fn find_paths(&self, paths: &mut Paths, wanted: Vec<u64>) {
        paths.known.retain(|ino, path| wanted.contains(ino) && self.inodes.is_at(path, Ino(*ino)));
        let mut names = 0;
        while names < NAMES_MAX && paths.known.len() < wanted.len() {
            let Paths { known, walk } = paths;
            let mut note = |ino: Ino, path: Vec<u8>| drop(known.insert(ino.0, path));
            match walk.get_or_insert_with(Walk::new).go_on(
                &self.inodes,
                &|ino| wanted.contains(&ino.0),
                &mut note,
            ) {
                Some(seen) => names += seen + DIRECTORY_NAMES,
                // From the start, with the next question.
                None => {
                    *walk = None;
                    break;
                }
            }
        }
        if paths.known.len() == wanted.len() {
            paths.walk = None;
        }
    }
}
