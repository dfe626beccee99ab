//! `terrace upgrade`

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use terrace_fuse::control::{self, DaemonStatus, Upgrade};

use crate::cli::upgrade::UpgradeArgs;
use crate::{mounts, output};

/// Replaces the daemon of a mount by one of another program.
pub fn run(args: &UpgradeArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::terrace_at(&args.mountpoint)?.mountpoint;
    let place = mountpoint.display();
    let before = daemon_of(&mountpoint)?;
    let program = program(args.program.as_deref())?;
    if mounts::lies_on(&mountpoint, &program)? {
        let program = program.display();
        bail!("{program}: lies on the volume itself, which has no daemon for a moment; copy it");
    }
    let meta = program.metadata().with_context(|| program.display().to_string())?;
    if !meta.is_file() {
        bail!("{}: is no program", program.display());
    }
    let token = RandomState::new().build_hasher().finish();
    let wanted = Upgrade { program, device: meta.dev(), inode: meta.ino(), token };
    let after = control::upgrade(&mountpoint, &wanted)?;
    let say = |daemon: &DaemonStatus| format!("{} (process {})", daemon.version, daemon.process);
    let (new, old) = (say(&after.daemon), say(&before));
    output::remark(quiet, &format!("{place}: is served by terrace {new} now, not by {old}"));
    if let Some(remark) = after.remark {
        output::remark(quiet, &format!("note: {place}: {remark}"));
    }
    Ok(())
}

/// The daemon that serves a mount now.
fn daemon_of(mountpoint: &Path) -> Result<DaemonStatus> {
    let status: Value = serde_json::from_str(&control::status(mountpoint)?)?;
    serde_json::from_value(status["daemon"].clone()).with_context(|| {
        format!(
            "{}: its daemon is of a version that cannot be replaced; unmount it, and mount the \
             volume with the new program",
            mountpoint.display()
        )
    })
}

/// The program to change to, without symbolic links.
fn program(chosen: Option<&Path>) -> Result<PathBuf> {
    match chosen {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string()),
        None => {
            let own = std::env::current_exe().context("the path of this program is not known")?;
            if !own.exists() {
                bail!("{}: was replaced while it ran; run the command again", own.display());
            }
            Ok(own)
        }
    }
}
