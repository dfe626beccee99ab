//! `terrace evict` and `terrace warm`: files to a tier, by hand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use terrace_engine::FileMoved;
use terrace_fuse::control::{self, MoveRange};

use super::failures::Failures;
use crate::cli::{EvictArgs, WarmArgs};
use crate::output;
use crate::progress::Progress;
use crate::size::format_size;

/// Moves files to a disk tier.
pub fn evict(args: &EvictArgs, quiet: bool) -> ExitCode {
    place_all(&args.files, args.tier, quiet)
}

/// Moves files to PM.
pub fn warm(args: &WarmArgs, quiet: bool) -> ExitCode {
    place_all(&args.files, 0, quiet)
}

fn place_all(files: &[PathBuf], tier: u8, quiet: bool) -> ExitCode {
    let mut failures = Failures::default();
    for path in files {
        failures.unless(place(path, tier, quiet));
    }
    failures.exit_code()
}

fn place(path: &Path, tier: u8, quiet: bool) -> Result<()> {
    let total = move_file(path, tier, &Progress::new(quiet))?;
    let (place, moved) = (path.display(), format_size(total.moved_bytes));
    if total.left_bytes > 0 {
        let left = format_size(total.left_bytes);
        bail!(
            "{place}: {moved} moved, {left} left where they were: there is no room for more, or \
             they are being written"
        );
    }
    let below = match total.below_bytes {
        0 => String::new(),
        bytes => {
            format!(", {} on a tier below: tier {tier} has no room for more", format_size(bytes))
        }
    };
    output::remark(quiet, &format!("{place}: {moved} moved{below}"));
    Ok(())
}

/// Moves a file to a tier, a stretch at a time.
///
/// # Errors
/// It is no file of a mounted volume, or what kept data from moving.
pub fn move_file(path: &Path, tier: u8, progress: &Progress) -> Result<FileMoved> {
    let file = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    let mut total = FileMoved::default();
    let mut next_bytes = Some(0);
    while let Some(offset_bytes) = next_bytes {
        progress.update("moving", offset_bytes.min(file.len()), file.len().max(1));
        // Reservations beyond the end go along.
        total += control::move_range(path, MoveRange { tier, offset_bytes, len_bytes: u64::MAX })?;
        ensure!(
            total.next_bytes.is_none_or(|next| next > offset_bytes),
            "the daemon moves nothing from byte {offset_bytes} on"
        );
        next_bytes = total.next_bytes;
    }
    Ok(total)
}
