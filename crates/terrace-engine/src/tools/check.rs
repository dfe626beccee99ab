//! Checking an unmounted volume, and repairing what can be repaired without a guess.
//!
//! Invariants:
//! * Without `repair` nothing is stored to any device: committed journal records are imagined,
//!   patches left alone.
//! * The remains of a crash are no damage: unless the volume claims to be clean, unnamed inodes,
//!   pending journals and a superblock copy that was being written are passed over (`repair`
//!   replays the journals and frees the inodes, as the next mount would).
//! * Before a repair stores anything, it makes durable what it builds on, as recovery does: a
//!   daemon that was killed may have left that in a cache only.
//! * A repair changes nothing that another reading of the damage could need. Links, unnamed inodes
//!   and a checkpoint that only wastes space are touched only if names and logs are whole: what is
//!   lost might explain them, and without its checkpoint a volume with such damage cannot be
//!   mounted writable. Only `give_up` makes an end of such damage.

mod blocks;
mod data;
mod give_up;
mod places;
mod repair;
mod superblocks;
mod tree;

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use terrace_layout::{CHECKPOINT_VALID, Superblock, WearFound};
use terrace_media::{Disk, Pm};

#[cfg(all(test, not(shuttle)))]
pub(crate) use self::data::PIECE_BLOCKS;
use crate::base::options::Progress;
use crate::base::types::Ino;
use crate::mount::devices::{Devices, match_devices};
use crate::mount::offline::{Offline, journal};
use crate::mount::recovery::settle_roots;
use terrace_store::checkpoint;
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::{FsError, FsResult};
use terrace_store::superblock::Disks;
use terrace_store::sync::atomic::{AtomicU64, Ordering};
use terrace_store::sync::{Arc, Mutex};
use terrace_store::wear;

/// How to check.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Repair what can be repaired without a guess. Otherwise nothing is stored.
    pub repair: bool,
    /// With `repair`: free the inodes that cannot be read, and remove their names. An inode that
    /// only a lost directory named gets a name in `/lost+found`.
    pub give_up: bool,
    /// Read file data and verify its checksums.
    pub data: bool,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, Serialize)]
pub struct CheckProblem {
    /// The device, and the inode with a path name where there is one.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// It was repaired.
    pub repaired: bool,
    /// Contents of files, or names, are lost.
    pub data_lost: bool,
    /// [`CheckOptions::give_up`] makes an end of it, and of the file.
    pub can_be_given_up: bool,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Inodes in use that names lead to and that could be read.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Entries in their logs.
    pub log_entries: u64,
    /// Blocks of file data, per device.
    pub data_blocks: Vec<u64>,
    /// Blocks whose checksums were compared.
    pub blocks_verified: u64,
    /// What is wrong: what was given up, then the rest in order of place.
    pub problems: Vec<CheckProblem>,
}

/// What can be done about a finding.
#[derive(Debug, Clone)]
enum Remedy {
    Nothing,
    /// Write this copy of a device's superblock anew.
    Superblock {
        device: usize,
        copy: u64,
        good: Box<Superblock>,
    },
    /// Clear the journal of a shard.
    Journal,
    /// Clear the wear record: the next mount counts anew.
    Wear,
    /// Log the true number of links.
    Links {
        ino: Ino,
        count: u32,
    },
    /// Free the record.
    FreeRecord,
    /// Forbid the use of the checkpoint: free space then comes from the logs. `always`: using it
    /// would do harm, so whatever else is wrong.
    DropCheckpoint {
        always: bool,
    },
}

/// What is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// Contents of a file; which blocks are whose is known.
    Contents,
    /// A name, a log, or the knowledge of who owns a block.
    Structure,
}

/// What is wrong.
#[derive(Debug, Clone)]
enum What {
    /// Bytes on media are not as they must be.
    Damage(Damage),
    /// The structures there contradict each other.
    Contradiction(String),
}

impl From<Damage> for What {
    fn from(damage: Damage) -> Self {
        What::Damage(damage)
    }
}

impl From<String> for What {
    fn from(what: String) -> Self {
        What::Contradiction(what)
    }
}

impl From<&str> for What {
    fn from(what: &str) -> Self {
        What::Contradiction(what.to_owned())
    }
}

/// The words without device and inode.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Damage(damage) => write!(f, "{}", damage.words_and_byte()),
            What::Contradiction(what) => f.write_str(what),
        }
    }
}

/// A problem on its way into the report.
#[derive(Debug, Clone)]
struct Finding {
    device: usize,
    ino: Option<Ino>,
    what: What,
    loss: Loss,
    remedy: Remedy,
    repaired: bool,
    can_be_given_up: bool,
}

impl Finding {
    /// Something that nobody can put right: names or logs are gone.
    fn loss(device: usize, ino: Option<Ino>, what: impl Into<What>) -> Self {
        Finding { loss: Loss::Structure, ..Self::flaw(device, ino, what, Remedy::Nothing) }
    }

    /// An inode or a name that is lost, and with it the use of the volume after a crash, until
    /// somebody gives it up.
    fn hopeless(ino: Ino, what: impl Into<What>) -> Self {
        Finding { can_be_given_up: true, ..Self::loss(0, Some(ino), what) }
    }

    /// Contents that nobody can put right.
    fn contents(device: usize, ino: Ino, what: impl Into<What>) -> Self {
        Finding { loss: Loss::Contents, ..Self::flaw(device, Some(ino), what, Remedy::Nothing) }
    }

    /// Something wrong that costs no contents.
    fn flaw(device: usize, ino: Option<Ino>, what: impl Into<What>, remedy: Remedy) -> Self {
        let what = what.into();
        let device = match &what {
            What::Damage(damage) => damage.device.into(),
            What::Contradiction(_) => device,
        };
        Finding {
            device,
            ino,
            what,
            loss: Loss::Nothing,
            remedy,
            repaired: false,
            can_be_given_up: false,
        }
    }
}

/// A check under way.
struct Check<'a> {
    pm: &'a Arc<Pm>,
    disks: Disks,
    sb: Superblock,
    repair: bool,
    progress: Progress<'a>,
    /// The volume claims that it was unmounted cleanly.
    clean: bool,
    findings: Mutex<Vec<Finding>>,
    blocks_verified: AtomicU64,
}

/// Checks an unmounted volume on opened devices; the disks in any order.
///
/// # Errors
/// A device is missing, foreign or truncated, or no copy of its superblock can be read; with
/// `repair`, the volume has features that this version must not write beside; a repair could not be
/// stored. Damage is no error: it is in the report.
pub fn check(
    pm: &Arc<Pm>,
    disks: &[Arc<dyn Disk>],
    opts: &CheckOptions,
    progress: Progress<'_>,
) -> FsResult<CheckReport> {
    let Devices { sb, disks } = match_devices(pm, disks.to_vec())?;
    if opts.repair && sb.unknown_ro_compat() != 0 {
        return Err(FsError::about(
            pm.path(),
            libc::EROFS,
            format!(
                "features {:#x} are unknown to this version: repair it with a newer terrace",
                sb.unknown_ro_compat()
            ),
        ));
    }
    let clean = checkpoint::usable_header(pm, &sb).is_some();
    let check = Check {
        pm,
        disks,
        sb,
        repair: opts.repair,
        progress,
        clean,
        findings: Mutex::default(),
        blocks_verified: AtomicU64::new(0),
    };
    check.run(opts)
}

impl Check<'_> {
    fn run(mut self, opts: &CheckOptions) -> FsResult<CheckReport> {
        self.superblocks()?;
        if self.repair && !self.clean {
            settle_roots(self.pm, &self.sb, &Offline::load(self.pm, &self.sb).tables)?;
        }
        self.journals()?;
        self.wear()?;
        let given_up = if opts.repair && opts.give_up { self.give_up()? } else { Vec::new() };
        let mut offline = Offline::load(self.pm, &self.sb);
        self.tables(&offline);
        let tree = self.tree(&offline)?;
        self.contested(&offline, &tree);
        let sound = !self.findings.lock().iter().any(|f| f.loss == Loss::Structure);
        self.checkpoint(&mut offline, &tree, sound);
        if opts.data {
            self.data(&tree.extents);
        }
        if self.repair {
            self.repair(&offline, &tree, sound)?;
        }
        for bad in self.pm.bad_ranges() {
            let structure = Structure::Memory(bad.end - bad.start);
            let kind = DamageKind::Unreadable(libc::EIO);
            let damage = Damage::in_pm(self.pm, structure, kind).at(bad.start);
            self.found(Finding::flaw(0, None, damage, Remedy::Nothing));
        }
        let findings = std::mem::take(&mut *self.findings.lock());
        Ok(CheckReport {
            inodes: tree.scan.inodes,
            directories: tree.scan.directories,
            log_entries: tree.log_entries,
            data_blocks: tree.data_blocks,
            blocks_verified: self.blocks_verified.load(Ordering::Relaxed),
            problems: given_up
                .into_iter()
                .chain(self.report(&offline, &tree.names, findings))
                .collect(),
        })
    }

    fn found(&self, finding: Finding) {
        self.findings.lock().push(finding);
    }

    fn device_path(&self, device: usize) -> PathBuf {
        let disk = self.disks.get(&(device as u16));
        disk.map_or(self.pm.path(), |disk| disk.path()).to_owned()
    }

    /// The wear record: no file depends on it.
    fn wear(&self) -> FsResult<()> {
        // A page that cannot be read is the shard's.
        if wear::read(self.pm, &self.sb).is_ok_and(|found| found == WearFound::Damaged) {
            let damage = Damage::in_pm(self.pm, Structure::Wear, DamageKind::Damaged);
            self.found(Finding::flaw(0, None, damage, Remedy::Wear));
            if self.repair {
                wear::clear(self.pm, &self.sb)?;
            }
        }
        Ok(())
    }

    /// Journals: those of a clean volume are empty, and what one holds is not to be believed; those
    /// of another may hold a record, which repair replays.
    fn journals(&self) -> FsResult<()> {
        for shard in 0..self.sb.shards {
            let journal = journal(&self.sb, shard);
            match journal.pending(self.pm) {
                Ok(None) if self.clean || !self.repair => {}
                _ if self.clean => {
                    let kind = DamageKind::Wrong("is not empty".into());
                    let damage = Damage::in_pm(self.pm, Structure::Journal(Some(shard)), kind);
                    self.found(Finding::flaw(0, None, damage, Remedy::Journal));
                    if self.repair {
                        journal.clear(self.pm)?;
                    }
                }
                Ok(_) if self.repair => {
                    journal.replay(self.pm)?;
                }
                Ok(_) => {}
                Err(error) => {
                    let damage = error.into_damage(0, Structure::Journal(Some(shard)), None);
                    self.found(Finding::loss(0, None, damage));
                }
            }
        }
        Ok(())
    }

    fn tables(&self, offline: &Offline) {
        for (&shard, error) in &offline.damage {
            if !offline.has_table(shard) {
                let damage = error.clone().into_damage(0, Structure::InodeTable(shard), None);
                let what = format!(
                    "every inode of shard {shard} is out of reach: {}",
                    damage.words_and_byte()
                );
                self.found(Finding::loss(0, None, what));
            }
        }
        if let Some(at) = offline.strange_word(self.pm) {
            let what = format!(
                "a journal holds a store to byte {at}, which is no head, tail or slot of an \
                 inode's record"
            );
            self.found(Finding::flaw(0, None, what, Remedy::Nothing));
        }
    }

    /// Whether the checkpoint's word says that it is valid, true or not.
    fn checkpoint_claims(&self) -> bool {
        self.pm.load_u64(self.sb.checkpoint_header * terrace_layout::BLOCK_BYTES)
            == CHECKPOINT_VALID
    }
}
