//! `terrace save`, `terrace restore`

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use terrace_layout::IMAGE_MAGIC;
use terrace_media::Pm;

use super::format::CreatedFiles;
use crate::cli::{RestoreArgs, SaveArgs};
use crate::devices::{Access, DeviceOptions, refuse_contents, volume_on_pm};
use crate::progress::Progress;
use crate::size::format_size;
use crate::{daemon, output};

/// Saves a PM device.
pub fn save(args: &SaveArgs, quiet: bool) -> Result<()> {
    let pm = DeviceOptions::new(Access::Examine).open_pm(&args.pm)?;
    refuse_waiting_pages(&pm)?;
    if args.file == Path::new("-") {
        let out = io::stdout().lock();
        if out.is_terminal() {
            bail!("standard output is a terminal; redirect it, or name a file");
        }
        let mut out = BufWriter::new(out);
        let saved_bytes = save_to(&pm, &args.pm, &mut out, quiet)?;
        out.flush().context("cannot write to standard output")?;
        report(quiet, args, saved_bytes);
        return Ok(());
    }
    let mut partial = Partial::create(&args.file)?;
    let saved_bytes = save_to(&pm, &args.pm, &mut partial.file, quiet)?;
    partial.complete(&args.file)?;
    report(quiet, args, saved_bytes);
    Ok(())
}

/// Pages that a daemon left when it died are gone with this machine's memory: nobody may believe
/// that they are saved.
fn refuse_waiting_pages(pm: &Pm) -> Result<()> {
    let dir = daemon::default_cache_dir();
    // A device that holds no volume is for `save` itself to refuse.
    match terrace_engine::waiting_pages(pm, &dir).unwrap_or_default().first() {
        None => Ok(()),
        Some((file, pages)) => bail!(
            "{}: {} in {}; mount the volume once, which takes what waits to its disks, or remove \
             that file to give it up",
            pm.path().display(),
            daemon::waiting(*pages),
            file.display()
        ),
    }
}

fn save_to(pm: &Arc<Pm>, path: &Path, out: &mut dyn Write, quiet: bool) -> Result<u64> {
    let progress = Progress::new(quiet);
    terrace_engine::save(pm, out, &|what, done, total| progress.update(what, done, total))
        .with_context(|| format!("{}: cannot save", path.display()))
}

fn report(quiet: bool, args: &SaveArgs, saved_bytes: u64) {
    output::remark(quiet, &format!("{}: saved, {}", args.pm.display(), format_size(saved_bytes)));
}

/// A file that takes another's place when it is complete and durable, and vanishes if it never is.
#[derive(Debug)]
struct Partial {
    file: BufWriter<File>,
    path: Option<PathBuf>,
}

impl Partial {
    fn create(target: &Path) -> Result<Partial> {
        if target.is_dir() {
            bail!("{}: is a directory; name a file in it", target.display());
        }
        refuse_other_contents(target)?;
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".partial-{}", std::process::id()));
        let path = PathBuf::from(path);
        let file = terrace_media::private()
            .create_new(true)
            .open(&path)
            .with_context(|| format!("{}: cannot be created", path.display()))?;
        Ok(Partial { file: BufWriter::new(file), path: Some(path) })
    }

    fn complete(mut self, target: &Path) -> Result<()> {
        self.replace(target).with_context(|| format!("{}: cannot be written", target.display()))
    }

    fn replace(&mut self, target: &Path) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        if let Some(path) = &self.path {
            fs::rename(path, target)?;
            self.path = None;
        }
        let dir =
            target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()
    }
}

/// An image may take an older one's place, or an empty file's, and nothing else's: least of all
/// that of a device.
fn refuse_other_contents(target: &Path) -> Result<()> {
    let Ok(mut file) = File::open(target) else {
        return Ok(());
    };
    let mut start = Vec::new();
    Read::by_ref(&mut file)
        .take(8)
        .read_to_end(&mut start)
        .with_context(|| format!("{}: cannot be read", target.display()))?;
    if !start.is_empty() && start != IMAGE_MAGIC.to_le_bytes() {
        bail!(
            "{}: holds something that is no saved image; remove it first, or choose another name",
            target.display()
        );
    }
    Ok(())
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The error that made it useless is the one worth telling.
            let _ = fs::remove_file(path);
        }
    }
}

/// Restores a PM device.
pub fn restore(args: &RestoreArgs, quiet: bool) -> Result<()> {
    if args.file == Path::new("-") {
        return restore_from(io::stdin().lock(), args, quiet);
    }
    let saved = || args.file.display().to_string();
    let mut file = File::open(&args.file)
        .with_context(|| format!("{}: cannot be opened", args.file.display()))?;
    if args.pm.exists() && file.metadata()?.is_file() {
        // The device's contents are not given up for an image that turns out to be damaged.
        let progress = Progress::new(quiet);
        terrace_engine::verify_image(&mut BufReader::new(&file), &|what, done, total| {
            progress.update(what, done, total);
        })
        .with_context(saved)?;
        file.rewind().with_context(saved)?;
    }
    restore_from(BufReader::new(file), args, quiet)
}

fn restore_from(mut input: impl Read, args: &RestoreArgs, quiet: bool) -> Result<()> {
    let saved = || format!("{}", args.file.display());
    // The header is needed twice, and a pipe cannot be rewound.
    let mut recorder = Recorder { input: &mut input, seen: Vec::new() };
    let len_bytes = terrace_engine::saved_pm_len(&mut recorder).with_context(saved)?;
    let header = recorder.seen;
    let mut created = CreatedFiles::default();
    let pm = open_target(&args.pm, len_bytes, args.force, &mut created)?;
    let progress = Progress::new(quiet);
    terrace_engine::restore(&mut header.as_slice().chain(input), &pm, &|what, done, total| {
        progress.update(what, done, total)
    })
    .with_context(saved)?;
    drop(progress);
    created.keep();
    output::remark(quiet, &format!("{}: restored, {}", args.pm.display(), format_size(len_bytes)));
    Ok(())
}

/// Opens the PM device to restore to; a file that does not exist is created.
fn open_target(
    path: &Path,
    len_bytes: u64,
    force: bool,
    created: &mut CreatedFiles,
) -> Result<Arc<Pm>> {
    let options = DeviceOptions::new(Access::Change);
    if !path.exists() {
        let path = std::path::absolute(path)?;
        created.make(&path, || Pm::create_file(&path, len_bytes))?;
        return options.open_pm(&path);
    }
    let pm = options.open_pm(path)?;
    if !force {
        refuse_contents(path, volume_on_pm(&pm))?;
    }
    if pm.len() < len_bytes {
        bail!(
            "{}: has {}, but what was saved needs {}; use a larger device",
            path.display(),
            format_size(pm.len()),
            format_size(len_bytes)
        );
    }
    Ok(pm)
}

/// Passes on what it reads, and keeps it.
struct Recorder<'a, R> {
    input: &'a mut R,
    seen: Vec<u8>,
}

impl<R: Read> Read for Recorder<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buf)?;
        self.seen.extend_from_slice(&buf[..len]);
        Ok(len)
    }
}
