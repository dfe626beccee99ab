//! Giving up what cannot be read: the decision that a volume is worth more than the files that it
//! has lost.
//!
//! Lost are inodes whose record or log cannot be read, or that claim blocks outside their device.
//! What only they named, and what has no name for another reason than a crash, is saved: it gets a
//! name in `/lost+found`.
//!
//! Invariants:
//! * Nothing is stored unless something is lost, all inode tables and journals can be read, each
//!   disk answers, and no record that is to be freed lies in memory that fails.
//! * Each step is durable before the next begins:
//!   1. there is no checkpoint any more; where something is to be saved, the root directory has a
//!      name that leads nowhere;
//!   2. the lost records are free, a whole one with one store, a damaged one written anew (torn, it
//!      is free or damaged still): nothing that was given up comes back, whatever a device may
//!      remember later, and its blocks may be used;
//!   3. a root directory that was lost is a new one, with a name that leads nowhere;
//!   4. what is saved has its names, all with one commit;
//!   5. the names that lead nowhere are removed, all of a directory with one commit.
//! * From the end of 1 until 4 there are names that lead nowhere, or what is lost, as long as
//!   something is without its name. So whoever mounts the volume in between does so read-only, and
//!   frees no inode for having no name; and the same command, given again, knows that there is
//!   something to save, and goes on.
//! * The name in the root directory counts from the store on that ends the checkpoint, which does
//!   not know its block: until then it is in a journal only, and no journal means anything beside a
//!   checkpoint.
//! * Nothing is written to a block of an inode that can be read.
//! * A new inode takes no number that a name leads to.
//!
//! Link counts that are too high now are left to the repair that follows.

mod survey;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use terrace_layout::{INCOMPAT_GAPS, INODE_BYTES, InodeRecord, Owner};
use terrace_store::checkpoint;
use terrace_store::error::{FsError, FsResult, fence};
use terrace_store::itable::{first_generation, write_record};
use terrace_store::space::{Purpose, Space};
use terrace_store::superblock::read_disk_superblock;
use terrace_store::sync::Arc;

use self::survey::Survey;
use super::{Check, CheckProblem, Finding};
use crate::base::types::{FileKind, Ino, Time};
use crate::inode::dir::Dentry;
use crate::inode::reclaim::free_record;
use crate::inode::resident::Inner;
use crate::mount::offline::{Offline, journal};

const LOST_AND_FOUND: &str = "lost+found";
/// A name in the root directory, which leads nowhere until everything is saved.
const UNFINISHED: &str = ".unfinished";

const TRY_AGAIN: &str = "nothing was given up: try again when the device works";

impl Check<'_> {
    /// Gives up what cannot be read; says what that was, and what was saved.
    pub(super) fn give_up(&mut self) -> FsResult<Vec<CheckProblem>> {
        let mut offline = Offline::load(self.pm, &self.sb);
        if !offline.damage.is_empty() || offline.strange_word(self.pm).is_some() {
            let what = "nothing was given up: with a damaged inode table or journal nobody knows \
                        what is lost";
            return Ok(vec![self.problem(&Finding::loss(0, None, what), None)]);
        }
        let survey = self.survey(&offline)?;
        if survey.is_whole() {
            return Ok(Vec::new());
        }
        self.can_be_freed(&offline, &survey)?;
        let space = self.space(&survey.scan);
        let mark = self.begin(&offline, &space, &survey)?;
        self.clean = false;
        let old_root = offline.record(self.pm, Ino::ROOT).map(|(_, record)| record);
        for ino in survey.to_free() {
            free_record(self.pm, offline.locate(ino).expect("it was found there"), ino);
        }
        fence(self.pm)?;
        let mut problems = self.losses(&survey);
        offline.tables.iter_mut().for_each(|table| table.recount(self.pm));
        let saved = self.save(&mut offline, &space, &survey, mark, old_root);
        problems.extend(saved.map_err(|error| self.unfinished(&error))?);
        Ok(problems)
    }

    /// The first step: makes an end of the checkpoint. Where nothing else would keep a mount from
    /// freeing what is to be saved, a name does in the root directory, which is returned: it leads
    /// to a generation of one of them that does not exist.
    fn begin(
        &self,
        offline: &Offline,
        space: &Space,
        survey: &Survey,
    ) -> FsResult<Option<Arc<[u8]>>> {
        let journal = journal(&self.sb, 0);
        let mut mark = None;
        if let Some(orphan) = survey.orphans.first().filter(|_| survey.needs_a_mark()) {
            let mut root = self.directory(offline, Ino::ROOT)?;
            let (log, entries) = root.dir_mut()?;
            let name = free_name(UNFINISHED, |name| entries.find(name.as_bytes()).is_none());
            let cookie = entries.cookie_of(name.as_bytes(), 0);
            log.begin();
            let none = orphan.generation.wrapping_add(1);
            let marked = Dentry::new(orphan.ino, none, FileKind::Directory, name.as_bytes());
            entries.push_add(log, &marked.as_new(cookie, Time::now()));
            log.stage(self.pm, &space.source(0, Purpose::Freeing), None)?;
            journal.promise(self.pm, &[log.tail_word()])?;
            mark = Some(name.as_bytes().into());
        }
        if self.checkpoint_claims() {
            checkpoint::invalidate(self.pm, &self.sb)?;
        }
        journal.replay(self.pm)?;
        Ok(mark)
    }

    /// Whether the devices do what is asked of them now: what they cannot give back today only is
    /// not to be lost for it.
    fn can_be_freed(&self, offline: &Offline, survey: &Survey) -> FsResult<()> {
        for (&index, disk) in &self.disks {
            let label = read_disk_superblock(disk.as_ref()).map_err(|error| {
                FsError::with_message(error.errno(), format!("{error}: {TRY_AGAIN}"))
            })?;
            if label.is_none_or(|label| label.uuid != self.sb.uuid || label.device_index != index) {
                let what = format!("its superblock is not there any more: {TRY_AGAIN}");
                return Err(FsError::about(disk.path(), libc::EIO, what));
            }
        }
        // Their logs were read before: a disk may have been away only then.
        for &ino in survey.lost.keys().chain(survey.lost_orphans.keys()) {
            if self
                .load(offline, ino)
                .is_some_and(|(_, inner)| inner.is_ok_and(|inner| self.owns_what_exists(&inner)))
            {
                return Err(self.unsteady(ino));
            }
        }
        let bad = self.pm.bad_ranges();
        for ino in survey.to_free() {
            let at = offline.locate(ino).expect("it was found there");
            if bad.iter().any(|bad| bad.start < at + INODE_BYTES && at < bad.end) {
                let what = format!(
                    "the record of inode {}, at byte {at}, is in memory that fails: {TRY_AGAIN}",
                    ino.0
                );
                return Err(FsError::about(self.pm.path(), libc::EIO, what));
            }
        }
        Ok(())
    }

    /// Refuses what is read well at one time and not at another.
    fn unsteady(&self, ino: Ino) -> FsError {
        let what = format!("inode {} can be read, but not each time: {TRY_AGAIN}", ino.0);
        FsError::about(self.pm.path(), libc::EIO, what)
    }

    /// From the third step on: gives names to what lost them, and removes those that lead nowhere.
    fn save(
        &self,
        offline: &mut Offline,
        space: &Space,
        survey: &Survey,
        mark: Option<Arc<[u8]>>,
        old_root: Option<InodeRecord>,
    ) -> FsResult<Vec<CheckProblem>> {
        let mut to_remove: BTreeMap<Ino, Vec<Arc<[u8]>>> = BTreeMap::new();
        for a in &survey.lost_names {
            to_remove.entry(a.dir).or_default().push(a.name.clone());
        }
        if !survey.root_is_there {
            self.new_root(offline, space, survey, old_root)?;
            to_remove.entry(Ino::ROOT).or_default().push(UNFINISHED.as_bytes().into());
        }
        if let Some(mark) = mark {
            to_remove.entry(Ino::ROOT).or_default().push(mark);
        }
        let saved = self.name_orphans(offline, space, survey)?;
        for (dir, names) in to_remove {
            self.remove_names(offline, space, dir, &names)?;
        }
        Ok(saved)
    }

    /// What stopped the command half way, and what to do.
    fn unfinished(&self, error: &FsError) -> FsError {
        FsError::about(
            self.pm.path(),
            error.errno(),
            format!(
                "what is lost has been given up, but not all that is left could be given \
                 its name: {error}: until the same command has succeeded the volume can be \
                 mounted read-only"
            ),
        )
    }

    /// An empty root directory, with a name that leads nowhere. It is there with one store.
    fn new_root(
        &self,
        offline: &mut Offline,
        space: &Space,
        survey: &Survey,
        old: Option<InodeRecord>,
    ) -> FsResult<()> {
        let at = offline.locate(Ino::ROOT).expect("a table that was read has its first record");
        let (nobody, _, generation) = self.unused(offline, space, survey)?;
        let (mode, owner) = old.map_or((0o755, Owner::ROOT), |old| (old.mode, old.owner()));
        let mut record = self.new_directory(at, Ino::ROOT, 1, mode, owner);
        let mut inner = Inner::new(at, &record, FileKind::Directory);
        let (log, entries) = inner.dir_mut()?;
        log.begin();
        let name = UNFINISHED.as_bytes();
        let cookie = entries.cookie_of(name, 0);
        let marked = Dentry::new(nobody, generation, FileKind::Directory, name);
        entries.push_add(log, &marked.as_new(cookie, Time::now()));
        log.stage(self.pm, &space.source(0, Purpose::Freeing), None)?;
        fence(self.pm)?;
        record.tail = log.tail_word().value;
        write_record(self.pm, at, &record);
        fence(self.pm)
    }

    /// A record that nothing uses and no name leads to: its inode number, its byte in PM, the
    /// generation of a new inode.
    fn unused(
        &self,
        offline: &mut Offline,
        space: &Space,
        survey: &Survey,
    ) -> FsResult<(Ino, u64, u32)> {
        loop {
            let (ino, at, generation) = offline.tables[0].alloc(self.pm, space.pm())?;
            if !survey.scan.references.contains_key(&ino.0) {
                let has_gaps = self.sb.incompat & INCOMPAT_GAPS != 0;
                let first = || first_generation(has_gaps, &RandomState::new(), ino);
                return Ok((ino, at, generation.unwrap_or_else(first)));
            }
        }
    }

    fn new_directory(
        &self,
        at: u64,
        ino: Ino,
        generation: u32,
        mode: u32,
        owner: Owner,
    ) -> InodeRecord {
        let secret = RandomState::new().hash_one((self.sb.uuid, ino.0)) as u32;
        let mode = libc::S_IFDIR | mode;
        InodeRecord::new(at, ino.0, generation, mode, owner, Time::now().0).with_secret(secret)
    }

    /// Gives every orphan a name in `/lost+found`.
    fn name_orphans(
        &self,
        offline: &mut Offline,
        space: &Space,
        survey: &Survey,
    ) -> FsResult<Vec<CheckProblem>> {
        if survey.orphans.is_empty() {
            return Ok(Vec::new());
        }
        let (ino, path) = self.lost_and_found(offline, space, survey)?;
        let mut inner = self.directory(offline, ino)?;
        let (log, entries) = inner.dir_mut()?;
        log.begin();
        let mut problems = Vec::new();
        for (n, orphan) in survey.orphans.iter().enumerate() {
            let name = free_name(&format!("inode-{}", orphan.ino.0), |name| {
                entries.find(name.as_bytes()).is_none()
            });
            let cookie = entries.cookie_of(name.as_bytes(), n as u64);
            let found = Dentry::new(orphan.ino, orphan.generation, orphan.kind, name.as_bytes());
            entries.push_add(log, &found.as_new(cookie, Time::now()));
            let what = "no name led to it any more: it has got this one";
            let finding = Finding { repaired: true, ..Finding::loss(0, Some(orphan.ino), what) };
            problems.push(self.problem(&finding, Some(format!("{path}/{name}"))));
        }
        self.commit(space, log)?;
        Ok(problems)
    }

    /// The directory for what is saved, and its path. It is made if there is none.
    fn lost_and_found(
        &self,
        offline: &mut Offline,
        space: &Space,
        survey: &Survey,
    ) -> FsResult<(Ino, String)> {
        let mut root = self.directory(offline, Ino::ROOT)?;
        let (log, entries) = root.dir_mut()?;
        let is_usable = |name: &str| {
            let found = entries.find(name.as_bytes());
            found.is_none_or(|d| d.kind == FileKind::Directory && survey.named.contains(&d.ino))
        };
        let name = free_name(LOST_AND_FOUND, is_usable);
        let path = format!("/{name}");
        if let Some(d) = entries.find(name.as_bytes()) {
            return Ok((d.ino, path));
        }
        let (ino, at, generation) = self.unused(offline, space, survey)?;
        write_record(self.pm, at, &self.new_directory(at, ino, generation, 0o700, Owner::ROOT));
        log.begin();
        let cookie = entries.cookie_of(name.as_bytes(), 0);
        let made = Dentry::new(ino, generation, FileKind::Directory, name.as_bytes());
        entries.push_add(log, &made.as_new(cookie, Time::now()));
        self.commit(space, log)?;
        Ok((ino, path))
    }

    fn remove_names(
        &self,
        offline: &Offline,
        space: &Space,
        dir: Ino,
        names: &[Arc<[u8]>],
    ) -> FsResult<()> {
        let mut inner = self.directory(offline, dir)?;
        let (log, entries) = inner.dir_mut()?;
        log.begin();
        for name in names {
            entries.push_remove(log, name, Time::now());
        }
        self.commit(space, log)
    }

    /// A directory that can be read, and is going to be changed.
    fn directory(&self, offline: &Offline, ino: Ino) -> FsResult<Inner> {
        let gone = || {
            let what = format!("inode {} is gone", ino.0);
            FsError::about(self.pm.path(), libc::EIO, what)
        };
        self.load_to_change(offline, ino).ok_or_else(gone)?
    }
}

/// `wanted`, or the first of `wanted.2`, `wanted.3`, … that may be had.
fn free_name(wanted: &str, may_be_had: impl Fn(&str) -> bool) -> String {
    let others = (2u64..).map(|n| format!("{wanted}.{n}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(others);
    names.find(|name| may_be_had(name)).expect("there is always another")
}
