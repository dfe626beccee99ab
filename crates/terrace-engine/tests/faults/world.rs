//! A program's life on simulated devices, and what must be true of its files whatever fails.
//!
//! Each file is a list of versions. A call that succeeded made the last one; one that failed may or
//! may not have. Recovered files are compared block by block, because writes of many blocks may be
//! cut: each block must be that of a version not older than the last one that is safe.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace_engine::{
    CheckOptions, FileKind, FormatOptions, FsResult, Ino, NewInode, OpenOptions, RenameFlags,
    SetAttr, Volume, WriteOptions, check, format,
};
use terrace_media::{Disk, DiskSim, Pm, PmSim, sim_disk, sim_disk_from};
use terrace_policy::{Param, Params};

pub const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 0, gid: 0, rdev: 0 };
const BLOCK: usize = 4096;

/// The bytes of the devices.
#[derive(Clone)]
pub struct Images {
    pub pm: Vec<u8>,
    pub disk: Vec<u8>,
}

/// Simulated devices.
pub struct Devices {
    pub pm: Arc<Pm>,
    pub pm_sim: Arc<PmSim>,
    pub disk: Arc<dyn Disk>,
    pub disk_sim: Arc<DiskSim>,
}

impl Images {
    pub fn devices(&self) -> Devices {
        let (pm, pm_sim) = Pm::simulated_from(self.pm.clone());
        let (disk, disk_sim) = sim_disk_from(self.disk.clone());
        Devices { pm, pm_sim, disk, disk_sim }
    }
}

impl Devices {
    pub fn formatted(pm_bytes: u64, disk_bytes: u64) -> Devices {
        let (pm, pm_sim) = Pm::simulated(pm_bytes);
        let (disk, disk_sim) = sim_disk(disk_bytes);
        let options = FormatOptions { shards: Some(1), ..Default::default() };
        format(&pm, std::slice::from_ref(&disk), &options).unwrap();
        Devices { pm, pm_sim, disk, disk_sim }
    }

    /// `pm_full_percent` 0: data goes to the disk. With a `cache_dir`, dirty pages outlive the
    /// volume.
    pub fn open(&self, pm_full_percent: u8, cache_dir: Option<&Path>) -> FsResult<Arc<Volume>> {
        // Nothing happens by itself.
        let mut params = Params::default();
        params.set(Param::Migrate, 0).expect("in its range");
        let options = OpenOptions {
            cache_bytes: 2 << 20,
            pm_full_percent,
            cache_dir: cache_dir.map(Path::to_owned),
            writeback_seconds: 1000,
            params,
            ..Default::default()
        };
        Volume::open(self.pm.clone(), vec![self.disk.clone()], options, &|_, _, _| {})
    }

    /// What is durable: what a power cut leaves at least.
    pub fn durable(&self) -> Images {
        Images { pm: self.pm_sim.durable_image(), disk: self.disk_sim.durable_image() }
    }

    /// What a power cut leaves, chosen at random.
    pub fn after_power_cut(&self, seed: u64) -> Images {
        Images {
            pm: self.pm_sim.crash_image_random(seed),
            disk: self.disk_sim.crash_image_random(seed),
        }
    }

    /// All that was stored.
    pub fn current(&self) -> Images {
        let mut pm = vec![0; self.pm.len() as usize];
        self.pm.read(0, &mut pm);
        let mut disk = terrace_media::AlignedBuf::new(self.disk.len() as usize);
        self.disk.read_at(0, &mut disk).unwrap();
        Images { pm, disk: disk.to_vec() }
    }

    pub fn must_be_sound(&self, context: &str) {
        let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
        let report =
            check(&self.pm, std::slice::from_ref(&self.disk), &options, &|_, _, _| {}).unwrap();
        assert!(report.problems.is_empty(), "{context}: {:#?}", report.problems);
    }
}

/// What a file may hold.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    all: Vec<Vec<u8>>,
    /// The oldest that a power cut may leave.
    durable: usize,
    /// The oldest that anything else may leave: what the last call that succeeded made.
    returned: usize,
}

/// What the crash, if any, has taken along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Everything that a call has returned for.
    Returned,
    /// What was made durable.
    Durable,
}

impl Versions {
    fn changed(&mut self, data: Vec<u8>, done: bool, durable: bool) {
        self.all.push(data);
        if done {
            self.returned = self.all.len() - 1;
            if durable {
                self.durable = self.returned;
            }
        }
    }

    fn latest(&self) -> Vec<u8> {
        self.all.last().cloned().unwrap_or_default()
    }

    /// Whether `found` is made of blocks of versions that are not too old.
    fn allow(&self, found: &[u8], kept: Kept) -> Result<(), String> {
        let oldest = if kept == Kept::Durable { self.durable } else { self.returned };
        let allowed = &self.all[oldest.min(self.all.len())..];
        if allowed.is_empty() && found.is_empty() {
            return Ok(());
        }
        if !allowed.iter().any(|version| version.len() == found.len()) {
            let lens: Vec<usize> = allowed.iter().map(Vec::len).collect();
            return Err(format!("{} bytes, not one of {lens:?}", found.len()));
        }
        for (i, block) in found.chunks(BLOCK).enumerate() {
            let is = |version: &Vec<u8>| {
                let part = version.get(i * BLOCK..).unwrap_or_default();
                let n = part.len().min(block.len());
                // Beyond the end of a version there are zeros.
                part[..n] == block[..n] && block[n..].iter().all(|&b| b == 0)
            };
            if !allowed.iter().any(is) {
                return Err(format!(
                    "block {i} begins {:?} and is of no version that may be there",
                    &block[..8]
                ));
            }
        }
        Ok(())
    }
}

/// A program: its files as it knows them.
#[derive(Clone, Default)]
pub struct Program {
    /// By name. A file whose creation or removal failed may be there or not.
    pub files: BTreeMap<String, Versions>,
    pub doubtful: Vec<String>,
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(29).wrapping_add(seed).wrapping_add((i >> 8) as u8) | 1)
        .collect()
}

fn find(v: &Volume, name: &str) -> FsResult<Ino> {
    let ino = v.lookup(Ino::ROOT, name.as_bytes())?.ino;
    v.forget(ino, 1);
    Ok(ino)
}

/// One thing that the program does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Creates the file if need be, and writes bytes of this seed.
    Write(&'static str, usize, usize, u8),
    Truncate(&'static str, usize),
    Fsync(&'static str),
    /// Reads all of it.
    Read(&'static str),
    /// Over an existing file: the new one's data becomes durable first.
    Rename(&'static str, &'static str),
    Unlink(&'static str),
    /// To a tier, 0 for PM.
    Move(&'static str, u8),
    Sync,
}

impl Program {
    /// Does one thing on the volume, and takes note. `to_pm`: what is written is durable at once.
    pub fn step(&mut self, v: &Volume, step: Step, to_pm: bool) -> FsResult<()> {
        match step {
            Step::Write(name, at, len, seed) => self.write(v, name, at, &pattern(len, seed), to_pm),
            Step::Truncate(name, len) => {
                let ino = find(v, name)?;
                let result =
                    v.setattr(ino, &SetAttr { size: Some(len as u64), ..Default::default() });
                let file = self.files.get_mut(name).unwrap();
                let mut data = file.latest();
                data.resize(len, 0);
                file.changed(data, result.is_ok(), to_pm);
                result.map(drop)
            }
            Step::Fsync(name) => {
                let result = v.fsync(find(v, name)?, false);
                if result.is_ok() {
                    let file = self.files.get_mut(name).unwrap();
                    file.durable = file.returned;
                }
                result
            }
            Step::Read(name) => {
                let found = read(v, find(v, name)?)?;
                let allowed = self.files[name].allow(&found, Kept::Returned);
                allowed.unwrap_or_else(|what| panic!("reading {name}: {what}"));
                Ok(())
            }
            Step::Rename(from, to) => {
                let result = v.rename(
                    Ino::ROOT,
                    from.as_bytes(),
                    Ino::ROOT,
                    to.as_bytes(),
                    RenameFlags::default(),
                );
                if self.files.contains_key(from) {
                    self.renamed(from, to, result.is_ok());
                }
                result
            }
            Step::Unlink(name) => {
                let result = v.unlink(Ino::ROOT, name.as_bytes());
                match result {
                    Ok(()) => drop(self.files.remove(name)),
                    Err(_) => self.doubtful.push(name.into()),
                }
                result
            }
            // Nothing changes, whatever comes of it.
            Step::Move(name, tier) => v.move_file(find(v, name)?, tier).map(drop),
            Step::Sync => {
                let result = v.sync();
                if result.is_ok() && v.status().read_only.is_none() {
                    self.files.values_mut().for_each(|file| file.durable = file.returned);
                }
                result
            }
        }
    }

    fn write(
        &mut self,
        v: &Volume,
        name: &str,
        at: usize,
        data: &[u8],
        to_pm: bool,
    ) -> FsResult<()> {
        let ino = match find(v, name) {
            Ok(ino) => ino,
            Err(error) if error.errno() != libc::ENOENT => return Err(error),
            Err(_) => {
                let created = v.create(Ino::ROOT, name.as_bytes(), &FILE);
                let attr = created.inspect_err(|_| self.doubtful.push(name.into()))?;
                v.forget(attr.ino, 1);
                let file = self.files.entry(name.into()).or_default();
                file.changed(Vec::new(), true, true);
                attr.ino
            }
        };
        let result = v.write(ino, at as u64, data, WriteOptions::default());
        let file = self.files.get_mut(name).unwrap();
        let mut new = file.latest();
        new.resize(new.len().max(at + data.len()), 0);
        new[at..at + data.len()].copy_from_slice(data);
        if let Ok(written) = result {
            assert_eq!(written, data.len());
        }
        file.changed(new, result.is_ok(), to_pm);
        result.map(drop)
    }

    fn renamed(&mut self, from: &str, to: &str, done: bool) {
        let moved = self.files[from].clone();
        if done {
            self.files.remove(from);
            let durable = moved.returned;
            self.files.insert(to.into(), Versions { durable, ..moved });
            return;
        }
        // Either name may lead to either file.
        self.doubtful.push(from.into());
        if let Some(old) = self.files.get_mut(to) {
            old.all.extend(moved.all);
        }
    }

    /// Compares all files with what may be there.
    pub fn verify(&self, v: &Volume, kept: Kept, context: &str) {
        for (name, versions) in &self.files {
            let ino = match find(v, name) {
                Ok(ino) => ino,
                Err(error) if error.errno() == libc::ENOENT && self.doubtful.contains(name) => {
                    continue;
                }
                Err(error) => panic!("{context}: {name}: {error}"),
            };
            let found =
                read(v, ino).unwrap_or_else(|error| panic!("{context}: reading {name}: {error}"));
            versions.allow(&found, kept).unwrap_or_else(|what| panic!("{context}: {name}: {what}"));
        }
        let mut names = Vec::new();
        v.readdir(Ino::ROOT, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        for name in names.into_iter().filter(|name| name != "." && name != "..") {
            let known = self.files.contains_key(&name) || self.doubtful.contains(&name);
            assert!(known, "{context}: {name} was removed or never made");
        }
    }
}

pub fn read(v: &Volume, ino: Ino) -> FsResult<Vec<u8>> {
    let mut data = vec![0xee; v.getattr(ino)?.size as usize];
    let n = v.read(ino, 0, &mut data)?;
    assert_eq!(n, data.len());
    Ok(data)
}
