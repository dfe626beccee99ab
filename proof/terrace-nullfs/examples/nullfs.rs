//! Mounts the file system that does nothing and serves it until it is unmounted; then prints the
//! messages it got.
//!
//! `nullfs [--allow-other] [--durable] [--threads N] [--clone-fd] [--io-uring] MOUNTPOINT`

use anyhow::{Context, Result};
use std::path::PathBuf;
use terrace_fuse::{MountConfig, Transport};
use terrace_nullfs::mount_null;

fn main() -> Result<()> {
    let mut config = MountConfig { fs_name: "nullfs".to_owned(), ..MountConfig::default() };
    let mut mountpoint = None;
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--allow-other") => config.allow_other = true,
            Some("--durable") => config.durable = true,
            Some("--clone-fd") => config.clone_fd = Some(true),
            Some("--io-uring") => config.transport = Transport::IoUring,
            Some("--threads") => {
                let threads = arguments.next().context("--threads needs a number")?;
                config.threads =
                    Some(threads.to_string_lossy().parse().context("--threads needs a number")?);
            }
            _ => mountpoint = Some(PathBuf::from(argument)),
        }
    }
    let mounted = mount_null(&mountpoint.context("which mount point?")?, &config)?;
    println!("mounted at {}; unmount to end", mounted.mountpoint().display());
    let counts = mounted.shared_counts();
    mounted.wait()?;
    println!("messages: {}", counts.snapshot());
    Ok(())
}
