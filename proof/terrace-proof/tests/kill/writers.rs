//! The writers: each works until the mount dies under it, and knows what must be there afterwards.

use crate::record::{decode, encode};
use crate::{Crash, Load};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use terrace_proof::{MIB, Rng};

/// One kind of load. The methods are called in this order.
pub trait Writer: Send {
    /// For messages.
    fn name(&self) -> &'static str;

    /// Creates what the work needs.
    fn prepare(&mut self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    /// Works until an operation fails (the daemon is gone) or the load says stop.
    fn work(&mut self, dir: &Path, load: &Load);

    /// Compares what is there after the crash with what was acknowledged.
    fn verify(&self, dir: &Path, crash: Crash) -> Result<()>;
}

/// Repeats `step` until it fails or the load ends. That it fails is how a crash looks from here.
fn until_the_end(load: &Load, mut step: impl FnMut() -> std::io::Result<()>) {
    while step().is_ok() && load.acknowledge() {}
}

/// Appends records with O_APPEND, with or without fdatasync after each.
pub struct Appender {
    rng: Rng,
    sync: bool,
    returned: u64,
    durable: u64,
    /// The record that is not known to be durable.
    in_flight: Vec<u8>,
}

impl Appender {
    pub fn new(rng: &mut Rng, sync: bool) -> Self {
        Appender {
            rng: Rng::new(rng.next_u64()),
            sync,
            returned: 0,
            durable: 0,
            in_flight: Vec::new(),
        }
    }
}

impl Writer for Appender {
    fn name(&self) -> &'static str {
        "appender"
    }

    fn work(&mut self, dir: &Path, load: &Load) {
        let Ok(mut file) = OpenOptions::new().create(true).append(true).open(dir.join("appended"))
        else {
            return;
        };
        until_the_end(load, || {
            let len_bytes = 40 + self.rng.below(9000) as usize;
            self.in_flight = encode(0, self.returned, len_bytes);
            ensure_whole(file.write(&self.in_flight)?, len_bytes)?;
            self.returned += 1;
            if self.sync {
                file.sync_data()?;
            }
            self.in_flight.clear();
            self.durable = self.returned;
            Ok(())
        });
    }

    fn verify(&self, dir: &Path, crash: Crash) -> Result<()> {
        let path = dir.join("appended");
        let bytes = if path.exists() { std::fs::read(path)? } else { Vec::new() };
        let (mut at, mut count) = (0, 0);
        while at < bytes.len() {
            let Some(found) = decode(&bytes[at..]) else {
                let rest = &bytes[at..];
                // The kernel passes on such a write in two pieces, cut at the end of the first
                // block.
                let first_piece =
                    bytes.len().is_multiple_of(4096) && self.in_flight.starts_with(rest);
                ensure!(
                    first_piece,
                    "{} bytes from {at} on are no whole record {count}",
                    rest.len()
                );
                break;
            };
            ensure!(
                found.version == count,
                "record {} at byte {at} instead of {count}",
                found.version
            );
            at += found.len_bytes;
            count += 1;
        }
        let acknowledged = match crash {
            Crash::Daemon => self.returned,
            Crash::Power => self.durable,
        };
        ensure!(
            (acknowledged..=self.returned + 1).contains(&count),
            "{count} records are there, {} had returned, {} were durable",
            self.returned,
            self.durable
        );
        Ok(())
    }
}

/// A write(2) to a regular file is short only if the file system has no more room.
fn ensure_whole(written: usize, asked: usize) -> std::io::Result<()> {
    if written == asked { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::ENOSPC)) }
}

/// Overwrites fixed slots of one file with ever newer versions, each in one pwrite, with or without
/// fdatasync after each.
pub struct Overwriter {
    rng: Rng,
    sync: bool,
    slot_bytes: usize,
    /// The version whose write has returned, per slot.
    returned: Vec<u64>,
    durable: Vec<u64>,
    in_flight: Option<(usize, u64)>,
}

impl Overwriter {
    pub fn new(rng: &mut Rng, sync: bool) -> Self {
        Self::with_slots(rng, sync, 96, 12 << 10)
    }

    pub fn with_slots(rng: &mut Rng, sync: bool, slots: usize, slot_bytes: usize) -> Self {
        Overwriter {
            rng: Rng::new(rng.next_u64()),
            sync,
            slot_bytes,
            returned: vec![0; slots],
            durable: vec![0; slots],
            in_flight: None,
        }
    }

    fn at(&self, slot: usize) -> u64 {
        (slot * self.slot_bytes) as u64
    }

    fn overwrite(&mut self, file: &File) -> std::io::Result<()> {
        let slot = self.rng.below(self.returned.len() as u64) as usize;
        let version = self.returned[slot] + 1;
        self.in_flight = Some((slot, version));
        let len_bytes = 100 + self.rng.below(self.slot_bytes as u64 - 99) as usize;
        let record = encode(slot as u64, version, len_bytes);
        ensure_whole(file.write_at(&record, self.at(slot))?, record.len())?;
        self.returned[slot] = version;
        self.in_flight = None;
        if self.sync {
            file.sync_data()?;
        }
        self.durable[slot] = version;
        Ok(())
    }
}

impl Writer for Overwriter {
    fn name(&self) -> &'static str {
        "overwriter"
    }

    fn prepare(&mut self, dir: &Path) -> Result<()> {
        let file = File::create(dir.join("slots"))?;
        for slot in 0..self.returned.len() {
            let record = encode(slot as u64, 0, self.slot_bytes);
            file.write_all_at(&record, self.at(slot))?;
        }
        Ok(file.sync_all()?)
    }

    fn work(&mut self, dir: &Path, load: &Load) {
        let Ok(file) = OpenOptions::new().write(true).open(dir.join("slots")) else {
            return;
        };
        until_the_end(load, || self.overwrite(&file));
    }

    fn verify(&self, dir: &Path, crash: Crash) -> Result<()> {
        let bytes = std::fs::read(dir.join("slots"))?;
        let expected = self.returned.len() * self.slot_bytes;
        ensure!(bytes.len() == expected, "the file has {} bytes", bytes.len());
        for (slot, content) in bytes.chunks(self.slot_bytes).enumerate() {
            let (returned, durable) = (self.returned[slot], self.durable[slot]);
            let found = decode(content).with_context(|| {
                format!("slot {slot} holds no whole record, version {returned} had returned")
            })?;
            ensure!(found.slot == slot as u64, "slot {slot} holds slot {}", found.slot);
            let legal = match crash {
                Crash::Daemon => found.version == returned,
                Crash::Power => (durable..=returned).contains(&found.version),
            };
            ensure!(
                legal || self.in_flight == Some((slot, found.version)),
                "slot {slot} is at version {}; {returned} had returned, {durable} was durable, \
                 in flight: {:?}",
                found.version,
                self.in_flight
            );
        }
        Ok(())
    }
}

/// Replaces files by renaming a new version over the old, with or without fsync before the rename.
/// Without it, programs still rely on the content being there; so do we.
pub struct Replacer {
    rng: Rng,
    sync: bool,
    returned: BTreeMap<u64, u64>,
    in_flight: Option<(u64, u64)>,
}

impl Replacer {
    pub fn new(rng: &mut Rng, sync: bool) -> Self {
        Replacer { rng: Rng::new(rng.next_u64()), sync, returned: BTreeMap::new(), in_flight: None }
    }
}

impl Writer for Replacer {
    fn name(&self) -> &'static str {
        "replacer"
    }

    fn work(&mut self, dir: &Path, load: &Load) {
        until_the_end(load, || {
            let file_number = self.rng.below(6);
            let version = self.returned.get(&file_number).map_or(0, |v| v + 1);
            let temporary = dir.join(format!("config-{file_number}.new"));
            let mut file = File::create(&temporary)?;
            file.write_all(&encode(file_number, version, 64 + self.rng.below(30_000) as usize))?;
            if self.sync {
                file.sync_all()?;
            }
            drop(file);
            self.in_flight = Some((file_number, version));
            std::fs::rename(&temporary, dir.join(format!("config-{file_number}")))?;
            self.returned.insert(file_number, version);
            self.in_flight = None;
            Ok(())
        });
    }

    fn verify(&self, dir: &Path, _crash: Crash) -> Result<()> {
        for (file_number, returned) in &self.returned {
            let name = format!("config-{file_number}");
            let bytes =
                std::fs::read(dir.join(&name)).with_context(|| format!("{name} is gone"))?;
            let found = decode(&bytes).with_context(|| format!("{name} is not a whole version"))?;
            ensure!(
                found.len_bytes == bytes.len(),
                "{name} has {} bytes too many",
                bytes.len() - found.len_bytes
            );
            let arrived = self.in_flight == Some((*file_number, found.version));
            ensure!(
                found.version == *returned || arrived,
                "{name} is at version {}, not {returned}",
                found.version
            );
        }
        Ok(())
    }
}

/// What a name of the [`Namespace`] is. Contents and targets are random: equal entries are hard
/// links.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>),
    Directory,
    Symlink(String),
}

/// Creates, removes, links and renames names; each change is durable when its call returns.
pub struct Namespace {
    rng: Rng,
    /// What must be there if nothing was in flight.
    before: BTreeMap<String, Entry>,
    /// What must be there if the operation in flight took effect. More than one, if it was several
    /// calls.
    after: Vec<BTreeMap<String, Entry>>,
}

impl Namespace {
    pub fn new(rng: &mut Rng) -> Self {
        Namespace { rng: Rng::new(rng.next_u64()), before: BTreeMap::new(), after: Vec::new() }
    }

    /// Plans one operation: the states it may leave behind, the last being its full effect.
    fn step(&mut self, dir: &Path) -> std::io::Result<()> {
        let name = format!("n{}", self.rng.below(40));
        let other = format!("n{}", self.rng.below(40));
        let (path, to) = (dir.join(&name), dir.join(&other));
        let mut after = self.before.clone();
        let present = self.before.get(&name).cloned();
        match (present, self.rng.below(4)) {
            (None, 0) => {
                after.insert(name, Entry::Directory);
                self.apply(vec![after], || std::fs::create_dir(&path))
            }
            (None, 1) => {
                let target = format!("{other}-{}", self.rng.next_u64());
                after.insert(name, Entry::Symlink(target.clone()));
                self.apply(vec![after], || std::os::unix::fs::symlink(&target, &path))
            }
            (None, _) => {
                let content = self.rng.bytes(10);
                let mut empty = after.clone();
                empty.insert(name.clone(), Entry::File(Vec::new()));
                after.insert(name, Entry::File(content.clone()));
                self.apply(vec![empty, after], || write_durably(&path, &content))
            }
            (Some(Entry::Directory), _) => {
                after.remove(&name);
                self.apply(vec![after], || std::fs::remove_dir(&path))
            }
            // rename(2) between two names of one inode does nothing.
            (Some(entry), 0 | 1)
                if !matches!(self.before.get(&other), Some(Entry::Directory))
                    && self.before.get(&other) != Some(&entry) =>
            {
                after.remove(&name);
                after.insert(other, entry);
                self.apply(vec![after], || std::fs::rename(&path, &to))
            }
            (Some(entry), 2) if !self.before.contains_key(&other) => {
                after.insert(other, entry);
                self.apply(vec![after], || std::fs::hard_link(&path, &to))
            }
            (Some(_), _) => {
                after.remove(&name);
                self.apply(vec![after], || std::fs::remove_file(&path))
            }
        }
    }

    fn apply(
        &mut self,
        after: Vec<BTreeMap<String, Entry>>,
        operation: impl FnOnce() -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.after = after;
        operation()?;
        self.before = self.after.pop().unwrap_or_default();
        self.after.clear();
        Ok(())
    }
}

/// Creates a file whose content no crash takes away.
fn write_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

impl Writer for Namespace {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn prepare(&mut self, dir: &Path) -> Result<()> {
        Ok(std::fs::create_dir(dir.join("names"))?)
    }

    fn work(&mut self, dir: &Path, load: &Load) {
        let dir = dir.join("names");
        until_the_end(load, || self.step(&dir));
    }

    fn verify(&self, dir: &Path, _crash: Crash) -> Result<()> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(dir.join("names"))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let what = if kind.is_dir() {
                Entry::Directory
            } else if kind.is_symlink() {
                Entry::Symlink(std::fs::read_link(entry.path())?.to_string_lossy().into_owned())
            } else {
                Entry::File(std::fs::read(entry.path())?)
            };
            found.insert(entry.file_name().to_string_lossy().into_owned(), what);
        }
        let legal = found == self.before || self.after.contains(&found);
        ensure!(
            legal,
            "names {found:?}\nare neither {:?}\nnor one of {:?}",
            self.before,
            self.after
        );
        Ok(())
    }
}

/// Streams large writes through a file, over and over: more than PM holds, or than it takes, so
/// that most of it goes through the page cache.
pub struct Streamer {
    shape: Stream,
    returned: u64,
    /// Pieces that no power cut may take any more.
    durable: u64,
}

/// What a [`Streamer`] writes.
#[derive(Clone, Copy)]
pub struct Stream {
    /// Bytes of a write, a multiple of 4096.
    pub piece_bytes: usize,
    /// Pieces of the file.
    pub pieces: u64,
    /// So many pieces are followed by an fsync; 0: a piece counts as durable when its write
    /// returns.
    pub sync_every: u64,
}

impl Streamer {
    /// Longer than PM, and never synced: dirty in the page cache when the daemon dies.
    pub fn new() -> Self {
        Self::of(Stream { piece_bytes: MIB as usize, pieces: 160, sync_every: 0 })
    }

    pub fn of(shape: Stream) -> Self {
        Streamer { shape, returned: 0, durable: 0 }
    }

    fn step(&mut self, file: &File) -> std::io::Result<()> {
        let Stream { piece_bytes, pieces, sync_every } = self.shape;
        let piece = self.returned % pieces;
        let record = encode(piece, self.returned / pieces, piece_bytes);
        file.write_all_at(&record, piece * piece_bytes as u64)?;
        self.returned += 1;
        if sync_every == 0 {
            self.durable = self.returned;
        } else if self.returned.is_multiple_of(sync_every) {
            file.sync_all()?;
            self.durable = self.returned;
        }
        Ok(())
    }
}

impl Writer for Streamer {
    fn name(&self) -> &'static str {
        "streamer"
    }

    fn work(&mut self, dir: &Path, load: &Load) {
        let Ok(file) = File::create(dir.join("stream")) else {
            return;
        };
        until_the_end(load, || self.step(&file));
    }

    /// Such large writes are not atomic, their blocks are: each is as one of the versions since the
    /// durable one left it.
    fn verify(&self, dir: &Path, crash: Crash) -> Result<()> {
        let Stream { piece_bytes, pieces, .. } = self.shape;
        let durable = if crash == Crash::Daemon { self.returned } else { self.durable };
        let path = dir.join("stream");
        let bytes = if durable == 0 && !path.exists() { Vec::new() } else { std::fs::read(path)? };
        for piece in 0..pieces {
            let last = |writes: u64| writes.checked_sub(piece + 1).map(|later| later / pieces);
            let (oldest, newest) = (last(durable), last(self.returned + 1));
            let legal: Vec<Vec<u8>> = newest
                .map_or(0..0, |newest| oldest.unwrap_or(0)..newest + 1)
                .map(|v| encode(piece, v, piece_bytes))
                .collect();
            for at in (0..piece_bytes).step_by(PAGE_BYTES) {
                let start = piece as usize * piece_bytes + at;
                let found = bytes.get(start..start + PAGE_BYTES);
                let empty = found.is_none_or(|found| found.iter().all(|&b| b == 0));
                let right = legal.iter().any(|record| found == Some(&record[at..at + PAGE_BYTES]));
                ensure!(
                    right || (oldest.is_none() && empty),
                    "byte {at} of piece {piece} is of none of the versions {oldest:?} to \
                     {newest:?} ({} pieces had returned, {durable} were durable)",
                    self.returned
                );
            }
        }
        Ok(())
    }
}

/// Writes through a shared mapping and makes each page durable with msync.
pub struct Mapper {
    rng: Rng,
    returned: Vec<u64>,
    in_flight: Option<usize>,
}

const PAGE_BYTES: usize = 4096;
const PAGES: usize = 64;

impl Mapper {
    pub fn new(rng: &mut Rng) -> Self {
        Mapper { rng: Rng::new(rng.next_u64()), returned: vec![0; PAGES], in_flight: None }
    }

    /// Writes one page and syncs it. The page is resident and dirty while we write to it, so a
    /// daemon that dies in between shows up as an error of msync, not as a fault.
    fn write_page(file: &File, page: usize, record: &[u8]) -> std::io::Result<()> {
        use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
        // A fault on a page of a dead mount would be SIGBUS: read(2) reports the death instead, and
        // leaves the page in the kernel's cache.
        let mut probe = [0u8; PAGE_BYTES];
        file.read_exact_at(&mut probe, (page * PAGE_BYTES) as u64)?;
        let offset = (page * PAGE_BYTES) as u64;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping, chosen by the kernel, of one page inside the file; it is used
        // and unmapped below and nowhere else. `record` is not longer than a page.
        unsafe {
            let map =
                mmap(std::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, file, offset)?;
            std::ptr::copy_nonoverlapping(
                record.as_ptr(),
                map.cast(),
                record.len().min(PAGE_BYTES),
            );
            let synced = msync(map, PAGE_BYTES, MsyncFlags::SYNC);
            munmap(map, PAGE_BYTES)?;
            synced?;
        }
        // With `-o durable` no FSYNC is sent, and the kernel forgets that a page could not be sent
        // to a dead daemon. It was alive if it answers now.
        rustix::fs::fstatvfs(file)?;
        Ok(())
    }
}

impl Writer for Mapper {
    fn name(&self) -> &'static str {
        "mapper"
    }

    fn prepare(&mut self, dir: &Path) -> Result<()> {
        let file = File::create(dir.join("mapped"))?;
        for page in 0..PAGES {
            file.write_all_at(&encode(page as u64, 0, PAGE_BYTES), (page * PAGE_BYTES) as u64)?;
        }
        Ok(file.sync_all()?)
    }

    fn work(&mut self, dir: &Path, load: &Load) {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(dir.join("mapped")) else {
            return;
        };
        until_the_end(load, || {
            let page = self.rng.below(PAGES as u64) as usize;
            let version = self.returned[page] + 1;
            self.in_flight = Some(page);
            Self::write_page(&file, page, &encode(page as u64, version, PAGE_BYTES))?;
            self.returned[page] = version;
            self.in_flight = None;
            Ok(())
        });
    }

    fn verify(&self, dir: &Path, _crash: Crash) -> Result<()> {
        let bytes = std::fs::read(dir.join("mapped"))?;
        ensure!(bytes.len() == PAGES * PAGE_BYTES, "the file has {} bytes", bytes.len());
        for (page, returned) in self.returned.iter().enumerate() {
            let found = decode(&bytes[page * PAGE_BYTES..(page + 1) * PAGE_BYTES]);
            let right = found.as_ref().is_some_and(|f| f.version == *returned);
            let in_flight = self.in_flight == Some(page);
            ensure!(
                right || in_flight,
                "page {page} is {found:?}, but msync of version {returned} had returned"
            );
        }
        Ok(())
    }
}
