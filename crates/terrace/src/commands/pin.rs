//! `terrace pin` and `terrace unpin`: files and trees to a tier, to stay there.

use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use terrace_engine::{FileMoved, counted, pin_value};
use terrace_fuse::control;

use super::failures::Failures;
use super::place::move_file;
use crate::cli::pin::{PinArgs, UnpinArgs};
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
pub fn pin(args: &PinArgs, quiet: bool) -> ExitCode {
    let mut failures = Failures::default();
    for path in &args.files {
        let progress = Progress::new(quiet);
        let mut moved = FileMoved::default();
        let met = each(path, &mut failures, &progress, &mut |path, is_file| {
            control::set_pin(path, Some(args.tier))?;
            if is_file {
                let unmoved =
                    || format!("{}: is pinned, and its data left where it is", path.display());
                moved += move_file(path, args.tier, &progress).with_context(unmoved)?;
            }
            Ok(())
        });
        drop(progress);
        let pinned =
            format!("pinned to {}; {} moved", pin_value(args.tier), format_size(moved.moved_bytes));
        met.tell(quiet, path, &(pinned + &what_is_left(moved)));
    }
    failures.exit_code()
}

/// Unpins files and what is below directories.
pub fn unpin(args: &UnpinArgs, quiet: bool) -> ExitCode {
    let mut failures = Failures::default();
    for path in &args.files {
        let met = each(path, &mut failures, &Progress::new(true), &mut |path, _| {
            control::set_pin(path, None)
        });
        met.tell(quiet, path, "unpinned");
    }
    failures.exit_code()
}

fn what_is_left(moved: FileMoved) -> String {
    match moved.below_bytes + moved.left_bytes {
        0 => String::new(),
        left => format!(
            ", {} elsewhere: there is no room for more, or they are being written; they follow \
             when they can",
            format_size(left)
        ),
    }
}

/// Shows a file, or a directory and everything below it that can be pinned, a directory before what
/// is in it: what is made there meanwhile inherits. A directory of which that fails is not entered.
fn each(
    root: &Path,
    failures: &mut Failures,
    progress: &Progress,
    visit: &mut dyn FnMut(&Path, bool) -> Result<()>,
) -> Met {
    let mut met = Met::default();
    // Nothing else understands the question.
    let top = control::thresholds(root)
        .and_then(|_| std::fs::metadata(root).with_context(|| about(root)));
    let Some(top) = failures.unless(top) else {
        return met;
    };
    let mut open = vec![(root.to_owned(), top.clone())];
    while let Some((path, metadata)) = open.pop() {
        if metadata.dev() != top.dev() {
            met.foreign += 1;
        } else if !metadata.is_file() && !metadata.is_dir() {
            met.others += 1;
        } else {
            let visited = visit(&path, metadata.is_file());
            let entered = visited.and_then(|()| {
                let directory = metadata.is_dir().then(|| std::fs::read_dir(&path));
                directory.transpose().with_context(|| about(&path))
            });
            match progress.aside(|| failures.unless(entered)) {
                None => {}
                Some(None) => met.files += 1,
                Some(Some(directory)) => {
                    met.directories += 1;
                    for entry in directory {
                        open.extend(
                            progress.aside(|| failures.unless(look_at(&path, entry))).flatten(),
                        );
                    }
                }
            }
        }
    }
    met
}

/// An entry of a directory; `None` of what has gone meanwhile.
fn look_at(
    directory: &Path,
    entry: std::io::Result<DirEntry>,
) -> Result<Option<(PathBuf, Metadata)>> {
    let child = entry.with_context(|| about(directory))?;
    match child.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        metadata => metadata
            .map(|metadata| Some((child.path(), metadata)))
            .with_context(|| about(&child.path())),
    }
}

fn about(path: &Path) -> String {
    path.display().to_string()
}

impl Met {
    /// What has become of what was met, if anything was.
    fn tell(&self, quiet: bool, path: &Path, what: &str) {
        if self.files + self.directories + self.others + self.foreign == 0 {
            return;
        }
        let files = counted(self.files, "file", "files");
        let directories = counted(self.directories, "directory", "directories");
        let mut text = format!("{}: {files}, {directories} {what}", path.display());
        if self.others > 0 {
            let others = counted(
                self.others,
                "symbolic link or special file",
                "symbolic links and special files",
            );
            text += &format!("; {others} cannot be pinned");
        }
        if self.foreign > 0 {
            text +=
                &format!("; {} passed over", counted(self.foreign, "mountpoint", "mountpoints"));
        }
        output::remark(quiet, &text);
    }
}
