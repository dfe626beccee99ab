//! Temporary directories on the host, outside every mount.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory on the host file system, removed when dropped. On disk rather than on tmpfs where
/// the host offers the choice, because disk images and reference trees belong on a disk.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// Creates a fresh directory, open to all users (some tests drop privileges).
    ///
    /// # Errors
    /// If the parent (`TERRACE_PROOF_TMP`, else `/var/tmp`) is not writable.
    pub fn new(name: &str) -> Result<Self> {
        let parent = std::env::var_os("TERRACE_PROOF_TMP").unwrap_or_else(|| "/var/tmp".into());
        Self::new_in(Path::new(&parent), name)
    }

    /// As [`Scratch::new`], below `parent`.
    ///
    /// # Errors
    /// If `parent` is not writable.
    pub fn new_in(parent: &Path, name: &str) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("terrace-proof-{name}-"))
            .tempdir_in(parent)
            .with_context(|| format!("creating a directory in {}", parent.display()))?;
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open)?;
        Ok(Scratch(dir))
    }

    /// A directory on a file system whose behaviour is a fair reference: the host's disk file
    /// system, or tmpfs where that is an overlay.
    ///
    /// # Errors
    /// As [`Scratch::new`].
    pub fn reference(name: &str) -> Result<Self> {
        const OVERLAYFS: i64 = 0x794c_7630;
        let host = Self::new(name)?;
        if rustix::fs::statfs(host.path())?.f_type as i64 == OVERLAYFS {
            return Self::new_in(Path::new("/dev/shm"), name);
        }
        Ok(host)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `name` inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
