//! `terrace pin` and `terrace unpin`: files and trees to a tier, to stay there.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use terrace_engine::{FileMoved, pin_value};
use terrace_fuse::control;

use super::place::move_file;
use crate::cli::{PinArgs, UnpinArgs};
use crate::output;
use crate::progress::Progress;
use crate::size::format_size;

/// What was met below a path.
#[derive(Debug, Default)]
struct Met {
    files: u64,
    directories: u64,
    /// What cannot have a pin: symbolic links, devices, pipes, sockets.
    others: u64,
    /// Directories of other file systems.
    foreign: u64,
}

/// Pins files and what is below directories, and moves their data.
pub fn pin(args: &PinArgs, quiet: bool) -> Result<()> {
    args.files.iter().try_for_each(|path| {
        let progress = Progress::new(quiet);
        let mut moved = FileMoved::default();
        let met = each(path, |path, is_file| {
            control::set_pin(path, Some(args.tier))?;
            if is_file {
                let unmoved = || format!("{}: is pinned, and its data left where it is", path.display());
                moved += move_file(path, args.tier, &progress).with_context(unmoved)?;
            }
            Ok(())
        })?;
        drop(progress);
        let pinned = format!("pinned to {}; {} moved", pin_value(args.tier), format_size(moved.moved_bytes));
        output::remark(quiet, &met.in_words(path, &(pinned + &what_is_left(moved))));
        Ok(())
    })
}

/// Unpins files and what is below directories.
pub fn unpin(args: &UnpinArgs, quiet: bool) -> Result<()> {
    args.files.iter().try_for_each(|path| {
        let met = each(path, |path, _| control::set_pin(path, None))?;
        output::remark(quiet, &met.in_words(path, "unpinned"));
        Ok(())
    })
}

fn what_is_left(moved: FileMoved) -> String {
    match moved.below_bytes + moved.left_bytes {
        0 => String::new(),
        left => format!(
            ", {} elsewhere: there is no room for more, or they are being written; they follow when they can",
            format_size(left)
        ),
    }
}

/// Shows a file, or a directory and everything below it that can be pinned, a directory before what is in it: what is made there
/// meanwhile inherits.
fn each(root: &Path, mut visit: impl FnMut(&Path, bool) -> Result<()>) -> Result<Met> {
    // Nothing else understands the question.
    control::thresholds(root)?;
    let about = |path: &Path| path.display().to_string();
    let top = std::fs::metadata(root).with_context(|| about(root))?;
    let mut met = Met::default();
    let mut open: Vec<(PathBuf, Metadata)> = vec![(root.to_owned(), top.clone())];
    while let Some((path, metadata)) = open.pop() {
        if metadata.dev() != top.dev() {
            met.foreign += 1;
            continue;
        }
        if !metadata.is_file() && !metadata.is_dir() {
            met.others += 1;
            continue;
        }
        visit(&path, metadata.is_file())?;
        if metadata.is_file() {
            met.files += 1;
            continue;
        }
        met.directories += 1;
        for entry in std::fs::read_dir(&path).with_context(|| about(&path))? {
            let entry = entry.with_context(|| about(&path))?;
            let child = entry.path();
            match entry.metadata() {
                Ok(metadata) => open.push((child, metadata)),
                // It has gone meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| about(&child)),
            }
        }
    }
    Ok(met)
}

impl Met {
    fn in_words(&self, path: &Path, what: &str) -> String {
        let mut text = format!("{}: {} files, {} directories {what}", path.display(), self.files, self.directories);
        if self.others > 0 {
            text += &format!("; {} symbolic links and special files cannot be pinned", self.others);
        }
        if self.foreign > 0 {
            text += &format!("; {} mountpoints passed over", self.foreign);
        }
        text
    }
}
