//! Damages a specimen, uses it, and judges what came of it.
//!
//! What may come of damage: nothing; a repair from a copy; a refusal to open that names device and
//! place and changes nothing; errors, with device and place, from the files concerned and from no
//! others. Two more are what cannot be avoided: the last entry of a log that committed itself, or
//! the data that it vouches for, may look torn by the crash, and PM data without checksums are what
//! they are. Everything else is a defect: a panic, wrong data, a file that is gone without an
//! error.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_layout::{INODE_BYTES, JournalRecord, MediaStruct, SUPERBLOCK_BLOCKS, Superblock};

use crate::image::{BLOCK, Devices, Image};
use crate::places::{Place, Region};
use crate::specimen::Specimen;
use crate::tree::{Failure, Tree, belongs, read_tree};

/// Bytes stored to a device, whatever was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index of the device.
    pub device: usize,
    /// First byte.
    pub at: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What came of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Nobody noticed: everything is as it was.
    Harmless,
    /// Everything is as it was, and the damage is gone from the device.
    Repaired,
    /// The volume was not opened.
    Refused,
    /// The volume was opened read-only, and everything is as it was.
    ReadOnly,
    /// Some operations fail.
    Fails,
    /// The last change of a file is gone: its entry, or the data that this vouches for, looks as if
    /// a crash had torn it. In the second case the volume says so. If one run of damage hits the
    /// last entries of a log, those changes may all be gone: nothing follows that would miss them.
    RolledBack,
    /// A file, or a directory and what is below it, is not as it is, but as its record or a slot in
    /// that says, which is a former one, or without the change that a journal had committed and has
    /// forgotten: nothing tells that from the newest.
    Older,
    /// Data that no checksum covers was read as it is.
    Unnoticed,
}

/// What opening a damaged volume gave.
#[derive(Debug)]
pub enum Opened {
    /// An error.
    Refused(Failure),
    /// It was opened.
    Open {
        /// What could be seen of it.
        tree: Tree,
        /// Why it is read-only, if it is.
        read_only: Option<String>,
        /// What its status notes.
        notes: Vec<String>,
    },
}

/// The numbers that follow `unit` in a message.
fn numbers<'m>(message: &'m str, unit: &'m str) -> impl Iterator<Item = usize> + 'm {
    let digits =
        |rest: &'m str| &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
    message.split(unit).skip(1).filter_map(move |rest| digits(rest).parse().ok())
}

/// Panics since the start, in whatever thread.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts panics from now on, in whatever thread; returns how many there were.
pub fn count_panics() -> u64 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            print(info);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

/// Devices for one specimen, damaged over and over.
#[derive(Debug)]
pub struct Bench<'s> {
    specimen: &'s Specimen,
    /// The devices.
    pub devices: Devices,
    /// What was put on them.
    image: Image,
    changes: Vec<Change>,
}

impl<'s> Bench<'s> {
    /// A bench for `specimen`.
    pub fn new(specimen: &'s Specimen) -> Bench<'s> {
        let (devices, image) = (Devices::new(&specimen.image), specimen.image.clone());
        Bench { specimen, devices, image, changes: Vec::new() }
    }

    /// Puts the whole volume, and then `changes`, on the devices.
    pub fn damage(&mut self, changes: Vec<Change>) {
        for Change { device, at, bytes } in &self.changes {
            let range = *at..at + bytes.len();
            self.image.0[*device][range.clone()]
                .copy_from_slice(&self.specimen.image.0[*device][range]);
        }
        for Change { device, at, bytes } in &changes {
            self.image.0[*device][*at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.changes = changes;
        self.devices.load(&self.image);
    }

    /// Opens the volume, reads everything, and leaves it without unmounting.
    ///
    /// # Errors
    /// If something panics.
    pub fn open_and_read(&self) -> Result<Opened, String> {
        let use_it = || match self.devices.open(90) {
            Err(error) => Opened::Refused(error.into()),
            Ok(volume) => {
                let tree = read_tree(&volume);
                let status = volume.status();
                volume.abandon();
                Opened::Open { tree, read_only: status.read_only, notes: status.notes }
            }
        };
        let panics = count_panics();
        let opened = catch_unwind(AssertUnwindSafe(use_it)).map_err(|_| "it panics".to_owned())?;
        if PANICS.load(Ordering::Relaxed) == panics {
            Ok(opened)
        } else {
            Err("a thread of it panics".into())
        }
    }

    /// Uses what [`Self::damage`] has put there.
    ///
    /// # Errors
    /// What is defective, in words.
    pub fn judge(&self) -> Result<Outcome, String> {
        match self.open_and_read()? {
            Opened::Refused(failure) => {
                self.names_place(&failure.message)?;
                if self.devices.hold(&self.image) {
                    Ok(Outcome::Refused)
                } else {
                    Err(format!("it was changed, though refused: {}", failure.message))
                }
            }
            Opened::Open { tree, read_only, notes } => {
                if let Some(reason) = &read_only {
                    self.names_place(reason)?;
                }
                let compared = self.compare(&tree)?;
                if compared == Outcome::RolledBack
                    && self.damaged().all(|p| p.region != Region::LastEntry)
                    && !notes.iter().any(|note| self.names_place(note).is_ok())
                {
                    return Err(format!("a change was undone without a word: {notes:?}"));
                }
                Ok(match (compared, read_only) {
                    (Outcome::Harmless, Some(_)) => Outcome::ReadOnly,
                    (Outcome::Harmless, None) if self.is_gone() => Outcome::Repaired,
                    (outcome, _) => outcome,
                })
            }
        }
    }

    /// Whether none of the damage is on the devices any more.
    fn is_gone(&self) -> bool {
        let mut block = [0; BLOCK];
        !self.changes.iter().any(|change| {
            let start = change.at / BLOCK * BLOCK;
            self.devices.read(change.device, start as u64, &mut block);
            // A superblock that was written anew may have got the very byte that was damage in the
            // old one.
            if start / BLOCK < SUPERBLOCK_BLOCKS as usize
                && matches!(Superblock::decode(&block), Ok(Some(_)))
            {
                return false;
            }
            let len = change.bytes.len().min(start + BLOCK - change.at);
            block[change.at - start..][..len] == change.bytes[..len]
        })
    }

    /// A message names a device that was damaged, and where on it: a byte of a damaged structure or
    /// block, such a block, or the inode that it belongs to. Where a last entry was hit, what it
    /// did may show only in what contradicts it: any inode will do. A checksum block in another
    /// one's place shows in the data that it is of.
    fn names_place(&self, message: &str) -> Result<(), String> {
        let device = self.changes.iter().any(|c| message.contains(&self.devices.path(c.device)));
        let in_change = |byte: usize, c: &Change| {
            (c.at / BLOCK..(c.at + c.bytes.len()).div_ceil(BLOCK)).contains(&(byte / BLOCK))
        };
        let byte = |n: usize| {
            self.changes.iter().any(|c| in_change(n, c))
                || self.damaged().any(|p| (p.at..p.at + p.len).contains(&n))
        };
        let of_checksums = |n: usize| {
            let sums = |p: &Place| {
                self.damaged().any(|d| d.region == Region::CrcBlock && d.owner == p.owner)
            };
            self.specimen.places.iter().any(|p| {
                p.region == Region::DiskData && (p.at..p.at + p.len).contains(&n) && sums(p)
            })
        };
        let owners: BTreeSet<u64> = self.damaged().filter_map(|p| p.owner).collect();
        let undone = self.damaged().any(|p| p.region == Region::LastEntry);
        // Of a device without a superblock nobody knows anything.
        let copies = |p: &&Place| {
            p.region == Region::Superblock && message.contains(&self.devices.path(p.device))
        };
        if self.damaged().filter(copies).count() >= SUPERBLOCK_BLOCKS as usize {
            return Ok(());
        }
        let place = numbers(message, "byte ").any(|n| byte(n) || of_checksums(n))
            || numbers(message, "block ").any(|n| byte(n.saturating_mul(BLOCK)))
            || numbers(message, "inode ").any(|n| undone || owners.contains(&(n as u64)));
        if device && place {
            Ok(())
        } else {
            Err(format!("a message without device and place: {message}"))
        }
    }

    /// The structures that were damaged.
    fn damaged(&self) -> impl Iterator<Item = &Place> {
        let hits = |p: &Place, c: &Change| {
            p.device == c.device && p.at < c.at + c.bytes.len() && c.at < p.at + p.len
        };
        self.specimen.places.iter().filter(move |p| self.changes.iter().any(|c| hits(p, c)))
    }

    /// Inodes to which a journal had committed a change, and now reads as empty.
    fn forgotten_by_journals(&self) -> BTreeSet<u64> {
        let mut owners = BTreeSet::new();
        for place in self.damaged().filter(|p| p.region == Region::Journal) {
            let record =
                |image: &Image| JournalRecord::from_bytes(&image.0[place.device][place.at..]);
            let (was, is) = (record(&self.specimen.image), record(&self.image));
            let words =
                was.committed().ok().flatten().filter(|_| matches!(is.committed(), Ok(None)));
            for word in words.unwrap_or_default() {
                let range = |p: &Place| p.at..p.at + p.len;
                let holds = |p: &&Place| {
                    p.region == Region::InodeRecord && range(p).contains(&(word.at as usize))
                };
                owners.extend(self.specimen.places.iter().filter(holds).filter_map(|p| p.owner));
            }
        }
        owners
    }

    /// Whether a structure, or a part of it, is as it was earlier. Only of what stands in a record,
    /// and is not bound to a version, does that matter.
    fn is_former(&self, place: &Place) -> bool {
        let in_record = match place.region {
            Region::InodeRecord | Region::ArchiveEntry => true,
            // Those in pages are bound to the page.
            Region::LogEntry | Region::ChainEntry | Region::LastEntry => {
                let records =
                    self.specimen.places.iter().filter(|p| p.region == Region::InodeRecord);
                records.into_iter().any(|r| (r.at..r.at + INODE_BYTES as usize).contains(&place.at))
            }
            _ => false,
        };
        let is_restored = |c: &Change| {
            let range = c.at.max(place.at)..(c.at + c.bytes.len()).min(place.at + place.len);
            c.device == place.device
                && !range.is_empty()
                && self.image.0[c.device][range.clone()] == self.specimen.former.0[c.device][range]
        };
        in_record && self.changes.iter().any(is_restored)
    }

    /// What a program would see without the last entries of a log, for each log of which several
    /// were hit: their slots may look as if nobody had ever written them.
    fn without_several(&self) -> Vec<Tree> {
        let places = &self.specimen.places;
        let last = places.iter().filter(|p| p.region == Region::LastEntry && self.is_hit(p));
        let mut trees = Vec::new();
        for last in last {
            let of_log = |p: &&Place| {
                p.region == Region::ChainEntry && (p.device, p.owner) == (last.device, last.owner)
            };
            let mut before: Vec<&Place> = places.iter().filter(of_log).collect();
            before.sort_by_key(|p| std::cmp::Reverse(p.at));
            let mut hit = vec![last];
            for place in before {
                let follows = hit.last().is_some_and(|next| place.at + place.len == next.at);
                if !follows || !self.is_hit(place) {
                    break;
                }
                hit.push(place);
                trees.push(self.specimen.tree_without(&hit));
            }
        }
        trees
    }

    /// Whether a byte of a place was changed.
    fn is_hit(&self, place: &Place) -> bool {
        let range = place.at..place.at + place.len;
        self.changes.iter().any(|c| {
            c.device == place.device && range.start < c.at + c.bytes.len() && c.at < range.end
        })
    }

    /// Whether a last entry, or what it vouches for, is not as it was.
    fn looks_torn(&self, entry: &Place) -> bool {
        let hit = |c: &Change, bytes: &Range<usize>| {
            c.device == entry.device && bytes.start < c.at + c.bytes.len() && c.at < bytes.end
        };
        self.changes
            .iter()
            .any(|c| hit(c, &(entry.at..entry.at + entry.len)) || hit(c, &entry.vouches_for))
    }

    fn compare(&self, found: &Tree) -> Result<Outcome, String> {
        let covered = self.specimen.plan.pm_data_checksums
            || self.damaged().all(|p| p.region != Region::PmData);
        let owners: BTreeSet<u64> = self.damaged().filter_map(|p| p.owner).collect();
        let paths: Vec<&String> =
            owners.iter().filter_map(|ino| self.specimen.paths.get(ino)).flatten().collect();
        let concerned = |key: &str| paths.iter().any(|path| belongs(key, path));
        let mut former: BTreeSet<u64> =
            self.damaged().filter(|p| self.is_former(p)).filter_map(|p| p.owner).collect();
        former.extend(self.forgotten_by_journals());
        let former: Vec<&String> =
            former.iter().filter_map(|ino| self.specimen.paths.get(ino)).flatten().collect();
        let may_be_older = |key: &str| former.iter().any(|path| belongs(key, path));
        let several = self.without_several();
        let one = self.specimen.without_last.iter().filter(|(entry, _)| self.looks_torn(entry));
        let older: Vec<&Tree> = one.map(|(_, tree)| tree).chain(&several).collect();
        let mut outcome = Outcome::Harmless;
        for (key, result) in found {
            match (result, self.specimen.truth.get(key)) {
                (Ok(found), Some(Ok(truth))) if found == truth => {}
                (Ok(_), _) if older.iter().any(|tree| tree.get(key) == Some(result)) => {
                    outcome = Outcome::RolledBack
                }
                (Ok(_), Some(Ok(_))) if !covered && concerned(key) && key.contains('#') => {
                    outcome = Outcome::Unnoticed
                }
                (Ok(_), _) if may_be_older(key) => outcome = Outcome::Older,
                (Ok(found), truth) => {
                    return Err(format!("{key} reads as {found}, but is {truth:?}"));
                }
                (Err(failure), _) => {
                    if failure.errno != libc::EIO {
                        return Err(format!(
                            "{key} fails with errno {}: {}",
                            failure.errno, failure.message
                        ));
                    }
                    self.names_place(&failure.message)?;
                    if !concerned(key) {
                        return Err(format!(
                            "{key} fails, which was not damaged: {}",
                            failure.message
                        ));
                    }
                    outcome = Outcome::Fails;
                }
            }
        }
        let failed: Vec<&str> = found
            .iter()
            .filter(|(_, r)| r.is_err())
            .map(|(k, _)| k.split('#').next().unwrap_or_default())
            .collect();
        let gone = |key: &&String| {
            !found.contains_key(*key)
                && !failed.iter().any(|path| belongs(key, path))
                && older.iter().all(|tree| tree.contains_key(*key))
                && !may_be_older(key)
        };
        match self.specimen.truth.keys().find(gone) {
            Some(key) => Err(format!("{key} is gone, and nothing fails")),
            None => Ok(outcome),
        }
    }

    /// What `terrace check` says of the damaged volume: that it terminates, stores nothing unless
    /// it repairs, and that a repair makes nothing worse and leaves nothing more to repair.
    ///
    /// # Errors
    /// What is defective, in words.
    pub fn judge_check(&self) -> Result<(), String> {
        self.devices.load(&self.image);
        let before = self.judge()?;
        self.devices.load(&self.image);
        let check = |repair| {
            catch_unwind(AssertUnwindSafe(|| self.devices.check(repair)))
                .map_err(|_| "a check panics".to_owned())
        };
        let report = check(false)?;
        if !self.devices.hold(&self.image) {
            return Err("a check without repair changed the volume".into());
        }
        let noticed = report.as_ref().map_or(true, |r| !r.problems.is_empty());
        if !noticed
            && !matches!(
                before,
                Outcome::Harmless | Outcome::Repaired | Outcome::RolledBack | Outcome::Unnoticed
            )
        {
            return Err(format!("{before:?}, but a check finds nothing"));
        }
        let repaired = check(true)?;
        if repaired.is_ok() != report.is_ok() {
            return Err("only one of check and repair fails".into());
        }
        let after_repair = self.devices.image();
        if repaired.is_ok() {
            let again = check(true)?.map_err(|e| format!("a second repair fails: {e}"))?;
            if again.problems.iter().any(|p| p.repaired) {
                return Err(format!("a second repair repairs: {:?}", again.problems));
            }
        }
        self.devices.load(&after_repair);
        match (before, self.open_and_read()?) {
            (Outcome::Refused, Opened::Refused(_)) => Ok(()),
            (_, Opened::Refused(failure)) => {
                Err(format!("refused after a repair: {}", failure.message))
            }
            (_, Opened::Open { tree, .. }) => {
                let after = self.compare(&tree)?;
                let worse = matches!(before, Outcome::Harmless | Outcome::Repaired)
                    && after == Outcome::Fails;
                if worse { Err("a repair made it worse".into()) } else { Ok(()) }
            }
        }
    }
}
