//! Handles of files, name_to_handle_at(2) and open_by_handle_at(2): what they lead to whatever
//! happens to names, beside the host's file system, after the kernel has forgotten the files, and
//! on later mounts.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use terrace_proof::{Rng, Scratch, TestVolume, VolumeSpec, proof, skip};

/// Bytes in the longest handle.
const HANDLE_BYTES_MAX: usize = 128;
/// Flag of name_to_handle_at: the handle leads to a path, too.
const CONNECTABLE: i32 = 2;

/// A `struct file_handle` with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    fn new(kind: i32, bytes: &[u8]) -> Self {
        let mut data = [0; HANDLE_BYTES_MAX];
        data[..bytes.len()].copy_from_slice(bytes);
        Self { bytes: bytes.len() as u32, kind, data }
    }

    fn of_with(path: &Path, flags: i32) -> std::io::Result<Self> {
        let mut handle = Self::new(0, &[0; HANDLE_BYTES_MAX]);
        let (path, mut mount) = (CString::new(path.as_os_str().as_bytes())?, 0);
        let head = std::ptr::from_mut(&mut handle).cast::<libc::file_handle>();
        // SAFETY: the path ends with a NUL; `handle` is laid out as the call's structure, with the
        // room that it says.
        let result = unsafe {
            libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), head, &mut mount, flags)
        };
        if result == 0 { Ok(handle) } else { Err(Error::last_os_error()) }
    }

    /// Of a file, not of what a symbolic link leads to.
    fn of(path: &Path) -> Result<Self> {
        Self::of_with(path, 0).with_context(|| format!("a handle of {}", path.display()))
    }

    fn open(&self, mount: &File, flags: i32) -> std::io::Result<File> {
        let mut handle = self.clone();
        let head = std::ptr::from_mut(&mut handle).cast::<libc::file_handle>();
        // SAFETY: `handle` is laid out as the call's structure, with as many bytes as it says.
        let opened =
            unsafe { libc::open_by_handle_at(mount.as_raw_fd(), head, flags | libc::O_CLOEXEC) };
        if opened < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else knows.
        Ok(unsafe { File::from_raw_fd(opened) })
    }

    fn must_be_stale(&self, mount: &File) -> Result<()> {
        match self.open(mount, libc::O_PATH) {
            Ok(file) => bail!("leads to {}", path_of(&file)?.display()),
            Err(error) => ensure!(error.raw_os_error() == Some(libc::ESTALE), "{error}"),
        }
        Ok(())
    }
}

fn needs_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), skip("only root may open handles"));
    Ok(())
}

/// Makes the kernel forget all inodes that nobody uses.
fn forget() -> Result<()> {
    Ok(std::fs::write("/proc/sys/vm/drop_caches", "2")?)
}

fn path_of(file: &File) -> Result<PathBuf> {
    Ok(std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?)
}

fn contents(handle: &Handle, mount: &File) -> std::io::Result<String> {
    let mut text = String::new();
    handle.open(mount, libc::O_RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

/// What may lie between a handle's making and its use.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Forgotten,
    Mounted,
    Recovered,
}

impl Between {
    const ALL: [Between; 4] =
        [Between::Nothing, Between::Forgotten, Between::Mounted, Between::Recovered];

    /// The volume's root afterwards. The caller has nothing of it open.
    fn pass(self, volume: &mut TestVolume) -> Result<File> {
        match self {
            Between::Nothing => {}
            Between::Forgotten => forget()?,
            Between::Mounted => volume.remount()?,
            Between::Recovered => {
                volume.kill()?;
                volume.remount()?;
            }
        }
        Ok(File::open(volume.root())?)
    }
}

/// **P-45** A handle from name_to_handle_at(2) opens its file with open_by_handle_at(2) as long as
/// the file exists, whatever happens to its names, also after the kernel has forgotten it and on
/// later mounts. After that it fails with ESTALE, also if another file has the inode number: a
/// generation of 32 bits tells one from the other. It is counted per inode number, and where the
/// volume has given back the record that counts, it begins at random: there a handle of a file that
/// is gone opens another one with a chance of one in 2^32 for each file that gets the number.
#[test]
fn handles_last_as_long_as_files() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("handles").mount()?;
        for between in Between::ALL {
            let dir = volume.join("dir");
            std::fs::create_dir_all(dir.join("deep/deeper"))?;
            std::fs::create_dir(dir.join("other"))?;
            std::fs::write(dir.join("plain"), "plain")?;
            std::fs::write(dir.join("replacement"), "replacement")?;
            std::fs::write(dir.join("deep/deeper/renamed"), "renamed")?;
            std::fs::write(dir.join("linked"), "linked")?;
            for name in ["unlinked", "replaced", "open", "remade"] {
                std::fs::write(dir.join(name), name)?;
            }
            std::fs::create_dir(dir.join("removed"))?;
            symlink("target", dir.join("symlink"))?;
            rustix::fs::mknodat(
                rustix::fs::CWD,
                dir.join("fifo"),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )?;
            let handle = |name: &str| Handle::of(&dir.join(name));
            let root = Handle::of(volume.root())?;
            let [plain, renamed, linked] =
                [handle("plain")?, handle("deep/deeper/renamed")?, handle("linked")?];
            let [link, fifo, deeper] =
                [handle("symlink")?, handle("fifo")?, handle("deep/deeper")?];
            let stale: Vec<Handle> = ["unlinked", "replaced", "open", "remade", "removed"]
                .iter()
                .map(|name| handle(name))
                .collect::<Result<_>>()?;

            std::fs::rename(dir.join("deep/deeper/renamed"), dir.join("other/name"))?;
            std::fs::hard_link(dir.join("linked"), dir.join("other/linked"))?;
            std::fs::remove_file(dir.join("linked"))?;
            std::fs::rename(dir.join("deep"), dir.join("other/deep"))?;
            std::fs::remove_file(dir.join("unlinked"))?;
            std::fs::rename(dir.join("replacement"), dir.join("replaced"))?;
            std::fs::remove_dir(dir.join("removed"))?;
            std::fs::remove_file(dir.join("remade"))?;
            std::fs::write(dir.join("remade"), "anew")?;
            {
                let open = File::open(dir.join("open"))?;
                std::fs::remove_file(dir.join("open"))?;
                let mount = File::open(volume.root())?;
                ensure!(contents(&stale[2], &mount)? == "open", "removed while it is open");
                drop(open);
            }

            let what = || format!("{between:?}");
            let mount = between.pass(&mut volume)?;
            let is = |handle: &Handle, text: &str| -> Result<()> {
                ensure!(
                    contents(handle, &mount).with_context(|| format!("{text}, {between:?}"))?
                        == text
                );
                Ok(())
            };
            is(&plain, "plain")?;
            is(&renamed, "renamed")?;
            is(&linked, "linked")?;
            for (number, handle) in stale.iter().enumerate() {
                handle
                    .must_be_stale(&mount)
                    .with_context(|| format!("stale handle {number}, {between:?}"))?;
            }
            ensure!(link.open(&mount, libc::O_PATH)?.metadata()?.is_symlink(), what());
            ensure!(fifo.open(&mount, libc::O_PATH)?.metadata()?.file_type().is_fifo(), what());
            ensure!(
                root.open(&mount, libc::O_PATH)?.metadata()?.ino() == mount.metadata()?.ino(),
                what()
            );
            // A directory is found with its path, and what is below it by name.
            let opened = deeper.open(&mount, libc::O_RDONLY).with_context(what)?;
            ensure!(
                path_of(&opened)? == dir.join("other/deep/deeper"),
                "{:?}, {between:?}",
                path_of(&opened)?
            );
            drop((opened, mount));
            std::fs::remove_dir_all(&dir)?;
            deeper.must_be_stale(&File::open(volume.root())?).with_context(what)?;
        }
        volume.check()
    });
}

/// Each record is used again and again: no handle of an earlier file may lead to a later one.
#[test]
fn a_number_that_is_used_again_makes_no_handle_valid() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("handles-again").mount()?;
        let (mut stale, mut numbers) = (Vec::new(), BTreeMap::new());
        for round in 0..300 {
            let path = volume.join(&format!("file-{}", round % 3));
            std::fs::write(&path, round.to_string())?;
            stale.push(Handle::of(&path)?);
            *numbers.entry(std::fs::metadata(&path)?.ino()).or_insert(0) += 1;
            std::fs::remove_file(&path)?;
            if round == 150 {
                volume.remount()?;
            }
        }
        ensure!(numbers.values().any(|times| *times > 1), "no inode number was used again");
        std::fs::write(volume.join("last"), "last")?;
        for between in [Between::Nothing, Between::Recovered] {
            let mount = between.pass(&mut volume)?;
            stale.iter().try_for_each(|handle| handle.must_be_stale(&mount))?;
        }
        Ok(())
    });
}

/// A directory may lie deeper than any path reaches, and a file's handle may carry the directory
/// that it was in.
#[test]
fn directories_are_found_wherever_they_lie() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("handles-deep").mount()?;
        std::fs::create_dir(volume.join("with"))?;
        std::fs::write(volume.join("with/name"), "file")?;
        let connectable = match Handle::of_with(&volume.join("with/name"), CONNECTABLE) {
            // Older kernels know no such handles.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
            other => Some(other?),
        };
        let names = 40;
        let name = "n".repeat(200);
        let mut at = File::open(volume.root())?;
        for _ in 0..names {
            rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::from_raw_mode(0o755))?;
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty())?.into();
        }
        let inode = at.metadata()?.ino();
        let deep = Handle::of(Path::new(&format!("/proc/self/fd/{}/.", at.as_raw_fd())))?;
        drop(at);
        for between in Between::ALL {
            let mount = between.pass(&mut volume)?;
            let opened =
                deep.open(&mount, libc::O_RDONLY).with_context(|| format!("{between:?}"))?;
            ensure!(opened.metadata()?.ino() == inode);
            // From there to the root.
            let mut above = opened;
            for _ in 0..names {
                let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
                above = rustix::fs::openat(&above, "..", flags, rustix::fs::Mode::empty())?.into();
            }
            ensure!(above.metadata()?.ino() == mount.metadata()?.ino(), "{between:?}");
            if let Some(handle) = &connectable {
                let path = path_of(&handle.open(&mount, libc::O_PATH)?)?;
                ensure!(path == volume.join("with/name"), "{}, {between:?}", path.display());
            }
        }
        Ok(())
    });
}

/// A user who may open handles may hand in any bytes: they lead to a file that exists, or fail.
#[test]
fn foreign_bytes_are_refused() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("handles-foreign").mount()?;
        std::fs::write(volume.join("file"), "file")?;
        std::fs::create_dir(volume.join("dir"))?;
        let paths = [volume.join("file"), volume.join("dir"), volume.root().to_owned()];
        let known = paths.iter().map(|path| Handle::of(path)).collect::<Result<Vec<_>>>()?;
        let numbers = paths
            .iter()
            .map(|path| Ok(std::fs::metadata(path)?.ino()))
            .collect::<Result<Vec<_>>>()?;
        let mount = File::open(volume.root())?;
        let mut rng = Rng::new(1);
        let long = std::env::var_os("TERRACE_LONG").is_some();
        let tried = |handle: &Handle| match handle.open(&mount, libc::O_PATH) {
            Ok(file) => {
                let inode = file.metadata()?.ino();
                ensure!(
                    numbers.contains(&inode),
                    "{handle:?} leads to inode {inode}, which nobody has made"
                );
                Ok(())
            }
            Err(error) => {
                let refused = [libc::ESTALE, libc::EINVAL, libc::EOVERFLOW]
                    .contains(&error.raw_os_error().unwrap_or(0));
                ensure!(refused, "{handle:?}: {error}");
                Ok(())
            }
        };
        for _ in 0..if long { 1_000_000 } else { 20_000 } {
            let mut handle = rng.pick(&known).clone();
            match rng.below(4) {
                0 => handle = Handle::new(handle.kind, &rng.bytes(handle.bytes as usize)),
                1 => handle.data[rng.below(handle.bytes.into()) as usize] = rng.next_u64() as u8,
                2 => {
                    handle.bytes = rng.below(HANDLE_BYTES_MAX as u64) as u32;
                    handle.kind = rng.below(300) as i32;
                }
                // Small numbers, high and low.
                _ => {
                    let number = rng.below(600).wrapping_sub(100);
                    handle.data[..8].copy_from_slice(
                        &number.rotate_left(32 * rng.below(2) as u32).to_le_bytes(),
                    );
                    handle.data[8] = rng.below(4) as u8;
                }
            }
            tried(&handle)?;
        }
        known.iter().try_for_each(|handle| handle.open(&mount, libc::O_PATH).map(drop))?;
        drop(mount);
        volume.check()
    });
}

/// A tree that changes at random, and handles of all that was ever in it.
struct Side {
    root: PathBuf,
    handles: Vec<Handle>,
    open: Vec<File>,
}

impl Side {
    fn path(&self, name: u64) -> PathBuf {
        let dir = ["", "one", "two"][(name % 3) as usize];
        self.root.join(dir).join(format!("name-{}", name / 3))
    }

    /// What came of a random step: the same on each file system.
    fn step(&mut self, number: usize, what: u64, a: u64, b: u64) -> Result<String> {
        let (from, to) = (self.path(a), self.path(b));
        let said = |result: std::io::Result<()>| match result {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        Ok(match what {
            0..=3 if from.symlink_metadata().is_err() => {
                match what {
                    0 => std::fs::create_dir(&from)?,
                    _ => std::fs::write(&from, number.to_string())?,
                }
                self.handles.push(Handle::of(&from)?);
                "made".to_owned()
            }
            0 => said(std::fs::remove_dir(&from)),
            1..=3 => said(std::fs::remove_file(&from)),
            4 | 5 => said(std::fs::rename(&from, &to)),
            6 => said(std::fs::hard_link(&from, &to)),
            7 => {
                self.open.extend(File::open(&from));
                self.open.drain(..self.open.len().saturating_sub(4));
                String::new()
            }
            _ => {
                let mount = File::open(&self.root)?;
                let mut found = Vec::new();
                for handle in &self.handles {
                    found.push(match handle.open(&mount, libc::O_RDONLY) {
                        Err(error) => error.to_string(),
                        Ok(file) if file.metadata()?.is_dir() => {
                            path_of(&file)?.strip_prefix(&self.root).map_or_else(
                                |_| "removed".to_owned(),
                                |path| path.display().to_string(),
                            )
                        }
                        Ok(_) => contents(handle, &mount)?,
                    });
                }
                format!("{found:?}")
            }
        })
    }
}

#[test]
fn handles_lead_where_those_of_the_host_do() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("handles-random").mount()?;
        let seeds = if std::env::var_os("TERRACE_LONG").is_some() { 1000 } else { 12 };
        for seed in 0..seeds {
            let host = Scratch::reference("handles-random")?;
            let mut rng = Rng::new(seed);
            let here = volume.join("tree");
            std::fs::create_dir(&here)?;
            let mut sides = [here, host.path().to_owned()].map(|root| Side {
                root,
                handles: Vec::new(),
                open: Vec::new(),
            });
            for side in &sides {
                ["one", "two"]
                    .iter()
                    .try_for_each(|dir| std::fs::create_dir(side.root.join(dir)))?;
            }
            for number in 0..300 {
                let (what, a, b) = (rng.below(9), rng.below(24), rng.below(24));
                let [here, there] = &mut sides;
                let (here, there) =
                    (here.step(number, what, a, b)?, there.step(number, what, a, b)?);
                ensure!(
                    here == there,
                    "seed {seed}, step {number}: {here} here, {there} on the host"
                );
                if rng.one_in(40) {
                    forget()?;
                }
                if rng.one_in(100) {
                    sides.iter_mut().for_each(|side| side.open.clear());
                    volume.remount()?;
                }
            }
            drop(sides);
            std::fs::remove_dir_all(volume.join("tree"))?;
        }
        volume.check()
    });
}
