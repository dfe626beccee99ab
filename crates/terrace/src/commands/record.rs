//! `terrace record`

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use terrace_engine::{Recording, counted};
use terrace_fuse::control;
use terrace_trace::{Ending, TraceError, Writer};

use crate::cli::measure::RecordArgs;
use crate::devices::tell_exposure;
use crate::progress::Progress;
use crate::size::format_size;
use crate::{daemon, mounts, output};

/// How often to fetch what was recorded: the daemon has room for far more.
const FETCH_EVERY: Duration = Duration::from_millis(100);

/// Records what a volume is asked to do until a signal comes, the time is over, or the volume is
/// unmounted.
pub fn run(args: &RecordArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    refuse_own_volume(&mountpoint, &args.output)?;
    let signals = daemon::terminations()?;
    let (file, is_new) = open(&args.output)?;
    tell_exposure(&args.output, quiet);
    let recording = control::start_recording(&mountpoint).inspect_err(|_| {
        if is_new {
            let _ = fs::remove_file(&args.output);
        }
    })?;
    let begun = Instant::now();
    let trace = begin(file, &recording).map_err(|error| about(&args.output, error))?;
    output::remark(quiet, &format!("{}: recording; Ctrl-C ends it", mountpoint.display()));
    let mut recorder = Recorder { mountpoint: &mountpoint, token: recording.token, trace, lost: 0 };
    let ending = recorder.record(&signals, args.seconds.map(Duration::from_secs), quiet);
    let (records, lost) = (recorder.trace.records(), recorder.lost);
    let bytes = recorder.trace.written_bytes();
    let ended = *ending.as_ref().unwrap_or(&Ending::Torn);
    let finished = recorder.trace.finish(ended, lost).map_err(|error| about(&args.output, error));
    ending
        .with_context(|| format!("{} has what was recorded until then", args.output.display()))?;
    finished?;
    if ended == Ending::Unmounted {
        output::remark(quiet, &format!("{}: unmounted", mountpoint.display()));
    }
    let mut line = format!(
        "{}: {} in {:.1} s, {}",
        args.output.display(),
        counted(records, "operation", "operations"),
        begun.elapsed().as_secs_f64(),
        format_size(bytes)
    );
    if lost > 0 {
        let lost = counted(lost, "more was", "more were");
        line += &format!("; {lost} lost, faster than they could be fetched");
    }
    output::print(&(output::in_a_line(&line) + "\n"))
}

/// A trace on the volume that is recorded would record its own writing.
fn refuse_own_volume(mountpoint: &Path, file: &Path) -> Result<()> {
    if mounts::lies_on(mountpoint, file)? {
        bail!(
            "{}: lies on the volume that is to be recorded; choose a file elsewhere",
            file.display()
        );
    }
    Ok(())
}

/// Opens the file as it is: it may be the one of a recording that runs. Whether it is new.
fn open(path: &Path) -> Result<(File, bool)> {
    let mut options = terrace_media::private();
    let opened = match options.create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            options.create_new(false).open(path).map(|file| (file, false))
        }
        created => created.map(|file| (file, true)),
    };
    opened.with_context(|| format!("{}: cannot be written", path.display()))
}

fn begin(file: File, recording: &Recording) -> Result<Writer<BufWriter<File>>, TraceError> {
    // A pipe or a terminal has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Writer::new(BufWriter::new(file), &recording.facts)
}

fn about(path: &Path, error: TraceError) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("{}: cannot be written", path.display()))
}

struct Recorder<'a> {
    mountpoint: &'a Path,
    token: u64,
    trace: Writer<BufWriter<File>>,
    lost: u64,
}

impl Recorder<'_> {
    /// Fetches what is recorded until it ends, and says how it did.
    fn record(
        &mut self,
        signals: &Receiver<i32>,
        limit: Option<Duration>,
        quiet: bool,
    ) -> Result<Ending> {
        let (begun, progress) = (Instant::now(), Progress::new(quiet || limit.is_none()));
        let mut stop = false;
        loop {
            if let Err(error) = self.fetch_all(stop) {
                let is_mounted = mounts::at(self.mountpoint)?
                    .is_some_and(|mount| mount.is_terrace())
                    && !mounts::is_dead(self.mountpoint);
                return if is_mounted { Err(error) } else { Ok(Ending::Unmounted) };
            }
            if stop {
                return Ok(Ending::Asked);
            }
            let wait = limit.map_or(FETCH_EVERY, |limit| {
                limit.saturating_sub(begun.elapsed()).min(FETCH_EVERY)
            });
            if let Some(limit) = limit {
                progress.update(
                    "recording",
                    begun.elapsed().as_millis() as u64,
                    limit.as_millis() as u64,
                );
            }
            stop = match signals.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {
                    limit.is_some_and(|limit| begun.elapsed() >= limit)
                }
                Ok(_) => true,
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the thread that waits for signals has ended")
                }
            };
        }
    }

    /// Everything that is recorded now.
    fn fetch_all(&mut self, stop: bool) -> Result<()> {
        loop {
            let recorded = control::take_recorded(self.mountpoint, self.token, stop)?;
            self.lost = recorded.lost;
            if recorded.block.is_empty() {
                return Ok(self.trace.flush()?);
            }
            self.trace.append_block(&recorded.block)?;
        }
    }
}
