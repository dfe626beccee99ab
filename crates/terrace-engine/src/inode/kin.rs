//! The policy's [`Siblings`], shared by all components that meet files: they tell what is expected
//! of a new file. Their lock is taken when a file is born and when it shows a trait, a few times in
//! its life.

use terrace_layout::{SIBLING_ROWS_MAX, SiblingRow};
use terrace_policy::{Kind, Kinds, Life, Param, Row, Siblings, Traits};
use terrace_store::file::FileData;
use terrace_store::sync::{Arc, Mutex};

use crate::base::tuning::Tuning;
use crate::base::types::{Ino, Time};
use crate::inode::predictors::TierWords;

/// See the module.
#[derive(Debug)]
pub(crate) struct Kin {
    siblings: Mutex<Siblings>,
    tuning: Arc<Tuning>,
}

impl Kin {
    /// With what the last mount has known.
    pub fn new(tuning: Arc<Tuning>, rows: Vec<SiblingRow>) -> Self {
        let known = rows.into_iter().map(|row| Row {
            kind: Kind(row.kind),
            last_birth: row.last_birth,
            births: row.births,
            showed: row.showed,
        });
        Self { siblings: Mutex::new(Siblings::from_rows(known)), tuning }
    }

    /// The rows for the next mount: those of the kinds that had the latest births.
    pub fn rows(&self) -> Vec<SiblingRow> {
        let siblings = self.siblings.lock();
        let mut known: Vec<&Row> = siblings.rows().filter(|row| row.common().is_some()).collect();
        known.sort_unstable_by_key(|row| std::cmp::Reverse(row.last_birth));
        let row = |row: &&Row| SiblingRow {
            kind: row.kind.0,
            last_birth: row.last_birth,
            births: row.births,
            showed: row.showed,
            reserved: [0; 7],
        };
        known.iter().map(row).take(SIBLING_ROWS_MAX).collect()
    }

    /// The life of a file that is made under this name in a directory.
    pub fn born(&self, directory: Ino, name: &[u8], now: Time) -> Life {
        Life::born(Kinds::of(directory.0, name), now.0)
    }

    /// A file, whose lock the caller holds, is about to be written.
    #[inline]
    pub fn meet(&self, file: &mut FileData) {
        if file.life.is_fresh() {
            self.introduce(file);
        }
    }

    #[cold]
    fn introduce(&self, file: &mut FileData) {
        let common = match self.tuning.get(Param::Siblings) {
            0 => None,
            _ => self.siblings.lock().born(file.life.kinds()),
        };
        file.life.expect(common);
    }

    /// A file, whose lock the caller holds, has shown these for the first time.
    #[inline]
    pub fn note(&self, file: &FileData, shown: Traits) {
        if !shown.is_empty() {
            self.siblings.lock().showed(file.life.kinds(), shown);
        }
    }

    /// How many siblings say what is expected of a file like this one, and whether they are of its
    /// directory. `None`: too few are known, or they are not asked.
    pub fn siblings_of(&self, file: &FileData) -> Option<(u8, bool)> {
        (self.tuning.get(Param::Siblings) == 1)
            .then(|| self.siblings.lock().known(file.life.kinds()))
            .flatten()
    }

    /// Whether nobody waits for what is written to the file, and it stays as it is.
    #[inline]
    pub fn is_bulk(&self, file: &FileData) -> bool {
        file.life.is_bulk(self.tuning.get(Param::AwaitBytes))
    }

    /// By how much a file counts as younger than it is, in nanoseconds.
    pub fn grace_ns(&self, file: &FileData, now: Time) -> i64 {
        let (await_bytes, cold_age) =
            (self.tuning.get(Param::AwaitBytes), self.tuning.get(Param::ColdAge));
        file.life.grace_ns(now.0, await_bytes, cold_age)
    }

    /// The file was written: its place among those that may leave their tier follows. The caller
    /// holds its lock.
    pub fn rank(&self, tiers: &TierWords, file: &FileData, now: Time) {
        tiers.set_times(file.heat.mean(), self.grace_ns(file, now));
    }
}
