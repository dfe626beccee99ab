//! Mounts for tests, gone when dropped, also after a panic.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod switch;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use tempfile::TempDir;
use terrace_engine::{FormatOptions, OpenOptions, Volume};
use terrace_fuse::{LoanSocket, MountConfig, Mounted};
use terrace_media::{Pm, PmOpenOptions};
use terrace_store::delegation::Segment;

const PM_BYTES: u64 = 64 << 20;
const DISK_BYTES: u64 = 256 << 20;

/// Held by each test with a mount. A test that starts a program lends all files that are open in
/// this process to the child for a moment, which would keep another test's mount busy; and some
/// look at the threads of the whole process.
static ALONE: ReentrantMutex<()> = ReentrantMutex::new(());

/// Waits for the other tests of this program; `None` if this machine or user cannot mount.
pub fn alone(test: &str) -> Option<ReentrantMutexGuard<'static, ()>> {
    can_mount(test).then(|| ALONE.lock())
}

/// What lies behind a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The file system that does nothing.
    Nothing,
    /// A new volume in memory.
    Engine,
}

/// A mount in a directory of its own. Fields are dropped in this order: first the mount, then its
/// directory.
#[derive(Debug)]
pub struct TestMount {
    pub mounted: Mounted,
    pub volume: Option<Arc<Volume>>,
    directory: TempDir,
    _memory: Option<TempDir>,
    _alone: ReentrantMutexGuard<'static, ()>,
}

impl TestMount {
    pub fn new(behind: Behind, config: &MountConfig) -> TestMount {
        let alone = ALONE.lock();
        let directory = TempDir::new().expect("a directory to mount on");
        let (mounted, volume) = match behind {
            Behind::Nothing => (terrace_nullfs::mount_null(directory.path(), config), None),
            Behind::Engine => {
                let volume = new_volume(config.durable);
                let mounted = terrace_fuse::mount(volume.clone(), directory.path(), config);
                (mounted, Some(volume))
            }
        };
        let mounted = mounted.expect("mounting");
        TestMount { mounted, volume, directory, _memory: None, _alone: alone }
    }

    /// One of a new volume that lends files to this user's programs.
    pub fn lending() -> TestMount {
        let alone = ALONE.lock();
        let directory = TempDir::new().expect("a directory to mount on");
        let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let path = memory.path().join("pm");
        Pm::create_file(&path, PM_BYTES).expect("PM");
        let pm = Pm::open(&path, &PmOpenOptions::default()).expect("PM");
        let options = OpenOptions { lends: true, ..OpenOptions::default() };
        let loans = Arc::new(Segment::new(16).expect("control pages"));
        let volume = volume_on(pm, OpenOptions { loans: Some(loans), ..options });
        let socket = LoanSocket { path: memory.path().join("socket"), group: None };
        let config = MountConfig { direct: Some(socket), ..MountConfig::default() };
        let mounted = terrace_fuse::mount(volume.clone(), directory.path(), &config);
        let (mounted, volume) = (mounted.expect("mounting"), Some(volume));
        TestMount { mounted, volume, directory, _memory: Some(memory), _alone: alone }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Unmounts, which must go cleanly, and closes the volume.
    pub fn finish(self) {
        self.mounted.unmount().expect("unmounting");
        if let Some(volume) = self.volume {
            volume.close().expect("closing the volume");
        }
    }
}

fn new_volume(durable: bool) -> Arc<Volume> {
    volume_on(Pm::anonymous(PM_BYTES), OpenOptions { durable, ..OpenOptions::default() })
}

fn volume_on(pm: Arc<Pm>, options: OpenOptions) -> Arc<Volume> {
    let disks = vec![terrace_media::memory_disk(DISK_BYTES)];
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let format = FormatOptions {
        shards: None,
        pm_data_checksums: false,
        tiers: vec![1],
        uid: user,
        gid: group,
    };
    terrace_engine::format(&pm, &disks, &format).expect("formatting");
    let options = OpenOptions { cache_bytes: 32 << 20, ..options };
    Volume::open(pm, disks, options, &|_, _, _| ()).expect("opening the volume")
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this machine and user can mount; if not, says why, past the test runner's capture.
pub fn can_mount(test: &str) -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let reason = match device {
        Err(error) => format!("/dev/fuse cannot be opened: {error}"),
        Ok(_) if is_root() => return true,
        Ok(_) => match std::process::Command::new("fusermount3").arg("-V").output() {
            Ok(_) => return true,
            Err(error) => format!("fusermount3: {error}"),
        },
    };
    skip(test, &reason);
    false
}

pub fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}
