//! Costs of a mount that nobody uses: memory for the longest messages, once many threads have sent
//! some, and wake-ups.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::server::{Served, Server};
use crate::interrupt;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::workload::{FILLING, PIECE_BYTES};

/// Rows of one server.
struct Names {
    server: Server,
    memory: &'static str,
    wakeups: &'static str,
}

const DEVICE: Names = Names {
    server: Server::Terrace { ring: false, keeper: true },
    memory: "message: memory of the transport per CPU, Terrace on /dev/fuse vs 16 MiB",
    wakeups: "message: wake-ups of an idle mount in 5 s, Terrace on /dev/fuse",
};
const RING: Names = Names {
    server: Server::Terrace { ring: true, keeper: false },
    memory: "message: memory of the transport per CPU, Terrace over io_uring vs 16 MiB",
    wakeups: "message: wake-ups of an idle mount in 5 s, Terrace over io_uring",
};

/// All rows.
pub const ROWS: &[&str] = &[DEVICE.memory, DEVICE.wakeups, RING.memory, RING.wakeups];

const MEMORY_BYTES_MAX: f64 = (16 << 20) as f64;
/// Threads with long messages, and what each writes.
const WRITERS: usize = 32;
const PIECES: u64 = 2;
/// Wake-ups are counted for so long.
const STILL_FOR: Duration = Duration::from_secs(5);
/// Writeback and the volume's pulse end some seconds after the last use.
const REST_LIMIT: Duration = Duration::from_secs(25);

/// Measures on those of the servers that it is about.
///
/// # Errors
/// If one does not serve.
pub fn run(servers: &[Server], options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for names in [DEVICE, RING] {
        let selected = [names.memory, names.wakeups].into_iter().filter(|n| options.selects(n));
        let selected: Vec<&str> = selected.collect();
        if !servers.contains(&names.server) {
            let why = format!("rows of {} are skipped: see above", names.server.name());
            let row = |&name: &&str| Row::not_measured(name.to_owned(), why.clone());
            rows.extend(selected.iter().map(row));
        } else if !selected.is_empty() {
            progress.step(&format!("long messages, then rest, {}", names.server.name()));
            let measured = measure(&names, options);
            rows.extend(measured.with_context(|| format!("on {}", names.server.name()))?);
        }
    }
    rows.retain(|row| options.selects(&row.name));
    Ok(rows)
}

fn measure(names: &Names, options: &Options) -> Result<[Row; 2]> {
    let served = names.server.mount(options)?;
    let anonymous_before = anonymous_bytes(&served)?;
    write_at_once(&served.mountpoint(), Duration::from_secs_f64(options.seconds))?;
    let (bytes, cpus) = buffers(&served)?;
    let per_cpu = bytes / cpus;
    let unit = Unit::Bytes;
    let memory = Row::lower_is_better(names.memory, unit, MEMORY_BYTES_MAX, per_cpu, Some(1.0));
    let more = anonymous_bytes(&served)?.saturating_sub(anonymous_before);
    let note = format!(
        "{} MiB for {cpus} CPUs; the daemon's memory grew by {} MiB",
        bytes as u64 >> 20,
        more >> 20
    );
    let (still_for, limit) = match options.quick {
        true => (STILL_FOR / 50, STILL_FOR / 50),
        false => (STILL_FOR, REST_LIMIT),
    };
    let (wakeups, after) = at_rest(&processes(&served)?, still_for, limit)?;
    let rest =
        format!("{} s after the last use, {} of the kernel's own", after.as_secs(), wakeups.kernel);
    served.strike()?;
    Ok([
        Row { note: Some(note), ..memory },
        Row { note: Some(rest), ..Row::figure(names.wakeups, Unit::WakeUps, wakeups.all as f64) },
    ])
}

/// Long messages, as many at a time as threads wait for.
fn write_at_once(root: &Path, time: Duration) -> Result<()> {
    let write = |number: usize| -> Result<()> {
        let file = fs::File::create(root.join(format!("long{number}")))?;
        let start = Instant::now();
        while start.elapsed() < time {
            interrupt::check()?;
            for piece in 0..PIECES {
                file.write_all_at(&FILLING, piece * PIECE_BYTES as u64)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().map_err(|_| anyhow!("a thread that writes panicked"))?
        })
    })
}

/// Bytes of the transport's buffers, and CPUs that they serve.
fn buffers(served: &Served) -> Result<(f64, f64)> {
    let status = served.status()?;
    let transport = &status["transport"];
    let bytes = transport["buffer_bytes"].as_f64().context("no buffers in the mount's state")?;
    let queues = transport["queues"].as_u64().filter(|&queues| queues > 0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Ok((bytes, queues.unwrap_or(cpus) as f64))
}

fn daemon(served: &Served) -> Result<(u64, String)> {
    let status = served.status()?;
    let daemon = status["daemon"]["process"].as_u64().context("no daemon in the mount's state")?;
    Ok((daemon, fs::read_to_string(format!("/proc/{daemon}/status"))?))
}

/// Memory of the daemon that is no file's.
fn anonymous_bytes(served: &Served) -> Result<u64> {
    let (_, status) = daemon(served)?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("no RssAnon in the daemon's status")? << 10)
}

/// The daemon and its keeper, which has started it.
fn processes(served: &Served) -> Result<Vec<u64>> {
    let (daemon, of_daemon) = daemon(served)?;
    let mut processes = vec![daemon];
    if let Some(parent) = value(&of_daemon, "PPid:")
        && let Ok(name) = fs::read_to_string(format!("/proc/{parent}/comm"))
        && name.starts_with("terrace")
        && parent != u64::from(std::process::id())
    {
        processes.push(parent);
    }
    Ok(processes)
}

fn value(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// How often threads of some processes began to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WakeUps {
    all: u64,
    /// Workers that the kernel has given them for io_uring: the last one stays, and looks for work
    /// every 5 s.
    kernel: u64,
}

/// How often any thread of these processes was switched to within `still_for`, at the quietest
/// moment before `limit`; and when that began.
fn at_rest(processes: &[u64], still_for: Duration, limit: Duration) -> Result<(WakeUps, Duration)> {
    let start = Instant::now();
    let mut quietest = None;
    loop {
        let (before, began) = (switches(processes)?, start.elapsed());
        let end = Instant::now() + still_for;
        while Instant::now() < end {
            interrupt::check()?;
            std::thread::sleep(still_for / 50);
        }
        let wakeups = WakeUps::between(&before, &switches(processes)?);
        let found = quietest.map_or((wakeups, began), |least| (wakeups, began).min(least));
        if found.0.all == found.0.kernel || start.elapsed() >= limit {
            return Ok(found);
        }
        quietest = Some(found);
    }
}

impl WakeUps {
    /// A thread that has ended meanwhile counts no more, a new one from its beginning.
    fn between(before: &Switches, after: &Switches) -> Self {
        let mut wakeups = WakeUps { all: 0, kernel: 0 };
        for (thread, &(times, is_kernels)) in after {
            let earlier = before.get(thread).map_or(0, |&(times, _)| times);
            let more = times.saturating_sub(earlier);
            wakeups.all += more;
            wakeups.kernel += if is_kernels { more } else { 0 };
        }
        wakeups
    }
}

/// How often each thread has been switched to, and whether it is one of the kernel's.
type Switches = BTreeMap<PathBuf, (u64, bool)>;

fn switches(processes: &[u64]) -> Result<Switches> {
    let mut switches = Switches::new();
    for process in processes {
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.with_context(|| format!("process {process}"))? {
            let thread = task?.path();
            // It may end at any moment.
            if let Ok(status) = fs::read_to_string(thread.join("status")) {
                let counts = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
                let times = counts.iter().filter_map(|name| value(&status, name)).sum();
                switches.insert(thread, (times, status.starts_with("Name:\tiou-")));
            }
        }
    }
    Ok(switches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_come_and_go_count_as_long_as_they_are_there() {
        let of = |threads: &[(&str, u64, bool)]| -> Switches {
            let one = |&(name, times, kernel): &(&str, u64, bool)| (name.into(), (times, kernel));
            threads.iter().map(one).collect()
        };
        let before = of(&[("stays", 5, false), ("ends", 100, false), ("of the kernel", 7, true)]);
        let after = of(&[("stays", 8, false), ("new", 2, false), ("of the kernel", 8, true)]);
        assert_eq!(WakeUps::between(&before, &after), WakeUps { all: 6, kernel: 1 });
    }

    #[test]
    fn the_threads_of_this_process_are_found() {
        let ourselves = u64::from(std::process::id());
        assert!(switches(&[ourselves]).unwrap().values().any(|&(times, _)| times > 0));
        assert_eq!(value("Name:\tx\nPPid:\t12\n", "PPid:"), Some(12));
    }
}
