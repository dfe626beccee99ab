//! Exactly once: for every kind of request, a daemon that dies at every step between taking it and
//! answering it.
//!
//! The test is the kernel (`kernel`) and the keeper. The daemon is a fork of it (`daemon`), with
//! PM, a disk and the page cache in shared memory and in files, and kills itself at a step
//! (`steps`): before a change of PM, of a page of the cache, of a disk or of the ledger, with the
//! message taken, and with the answer about to be written. A successor inherits the ledger,
//! recovers the volume, takes the connection up and is sent again what was not answered. Then all
//! that a program can see must be as after one execution that nothing interrupted (`look`).
//!
//! Each request goes both ways. Over io_uring (`rings`) steps begin with the delivery of the
//! request to an entry, and end after its commit. Whenever a daemon dies, a request of another
//! program comes before the successor, and waits in the queue. It must have its answer, too.
//!
//! All steps of all requests (`kinds`) are tried, and a sample of pairs, where the successor dies
//! as well. `TERRACE_LONG` makes that sample larger. An argument runs the kinds whose names contain
//! it, which begin with `ring:` over io_uring; `KIND/N` or `KIND/N+M`, as a wrong state is printed,
//! tries one state again.

mod daemon;
mod kernel;
mod kinds;
mod look;
mod messages;
mod rings;
mod steps;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use terrace_fuse::Ledger;
use terrace_transport::planted::{Bug, plant};

use crate::daemon::{Devices, Place};
use crate::kernel::{Deaths, Kernel, Way};
use crate::kinds::{Case, KINDS, Kind};
use crate::look::{Seen, look};
use crate::steps::Steps;

/// Pairs of deaths that are tried of each kind.
const PAIRS: u64 = 20;
const PAIRS_LONG: u64 = 400;
/// Free space may differ by so much: logs are cut differently after a recovery.
const BLOCKS_APART: u64 = 8;
/// Wrong states of a kind that are printed.
const PRINTED: usize = 3;

/// Bugs, and kinds of requests that must show them over `/dev/fuse`.
const BUGS: &[(Bug, &str)] = &[
    (Bug::EffectNotedLate, "create"),
    (Bug::EffectNotedLate, "unlink-one-of-two"),
    (Bug::EffectNotedLate, "append"),
    (Bug::NotesIgnored, "rename"),
    (Bug::NotesIgnored, "setxattr-create"),
    (Bug::NotesIgnored, "append-cached"),
    (Bug::LookupsNotTakenBack, "readdirplus"),
    (Bug::OutcomeNotedEarly, "write-block"),
    (Bug::OutcomeNotedEarly, "append-cached"),
    (Bug::ForgetMarkedLate, "forget-some"),
    (Bug::ForgetMarkedLate, "batch-forget"),
];

/// The same over io_uring.
const BUGS_OF_RINGS: &[(Bug, &str)] = &[
    (Bug::EffectNotedLate, "create"),
    (Bug::NotesIgnored, "rename"),
    (Bug::LookupsNotTakenBack, "readdirplus"),
    (Bug::AnswerNotNoted, "create"),
    (Bug::AnswerNotNoted, "append"),
    (Bug::TakenNotedEarly, "unlink"),
    (Bug::DeliveryIgnored, "write-block"),
    (Bug::AnswerIgnored, "mkdir"),
];

/// What the processes of the test share.
#[derive(Default)]
#[repr(C)]
struct Tally {
    next: AtomicU64,
    states: AtomicU64,
    pairs: AtomicU64,
    /// States in which lookups are counted that the kernel does not have.
    excess: AtomicU64,
    bugs: AtomicU64,
    wrong: AtomicU64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filter = arguments.into_iter().find(|argument| !argument.starts_with('-'));
    match run(filter.as_deref().unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("once: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(filter: &str) -> Result<()> {
    let begun = Instant::now();
    let dir = tempfile::Builder::new().prefix("terrace-once").tempdir_in("/dev/shm")?;
    let tally = shared_tally()?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut children = Vec::new();
    for worker in 0..workers {
        // SAFETY: this process has one thread, so the child may do everything that the parent may.
        match unsafe { libc::fork() } {
            -1 => return Err(std::io::Error::last_os_error()).context("fork"),
            0 => {
                let done = work(&dir.path().join(worker.to_string()), tally, filter);
                let status = done.map_or_else(|error| fail(&error), |()| 0);
                // SAFETY: ends this process; what is left to be done at an exit is the parent's.
                unsafe { libc::_exit(status) }
            }
            child => children.push(child),
        }
    }
    let mut failed = 0;
    for child in children {
        let mut status = 0;
        // SAFETY: `status` is valid and writable; nobody else waits for this child.
        ensure!(unsafe { libc::waitpid(child, &mut status, 0) } == child, "waitpid");
        failed += usize::from(status != 0);
    }
    let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
    println!(
        "once: {} deaths in one request and {} pairs of deaths, {} of them with lookups counted \
         too many, {} planted bugs found, {} s",
        of(&tally.states),
        of(&tally.pairs),
        of(&tally.excess),
        of(&tally.bugs),
        begun.elapsed().as_secs()
    );
    ensure!(failed == 0, "{failed} processes of the test failed");
    ensure!(of(&tally.wrong) == 0, "{} wrong", of(&tally.wrong));
    ensure!(of(&tally.states) + of(&tally.bugs) > 0, "{filter}: nothing has that name");
    Ok(())
}

fn fail(error: &anyhow::Error) -> i32 {
    eprintln!("once: {error:#}");
    1
}

fn shared_tally() -> Result<&'static Tally> {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, at no particular address.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, rights, flags)? };
    // SAFETY: all atomic and never unmapped; zeros are a value.
    Ok(unsafe { &*memory.cast() })
}

/// One process of the test: takes kinds and bugs until there are none left.
fn work(dir: &Path, tally: &Tally, filter: &str) -> Result<()> {
    std::fs::create_dir(dir)?;
    let rig = Rig {
        pm: Devices::make(dir, Place::Pm, kinds::fill)?,
        disk: Devices::make(dir, Place::Disk, kinds::fill)?,
        full: Devices::make(dir, Place::Full, kinds::fill_up)?,
        ledger: Ledger::new()?,
        steps: steps::share()?,
    };
    let (name, state) = match filter.split_once('/') {
        Some((name, state)) => (name, Some(deaths(state)?)),
        None => (filter, None),
    };
    loop {
        match tasks().nth(tally.next.fetch_add(1, Ordering::SeqCst) as usize) {
            None => return Ok(()),
            Some((of, None)) => match &state {
                Some(state) if of.to_string() == name => {
                    let expected = rig.state(of, &Deaths::default())?;
                    let seen = rig.state(of, state)?;
                    compare(&expected, &seen)?;
                    tally.states.fetch_add(1, Ordering::SeqCst);
                }
                None if of.to_string().contains(name) => rig.kind(of, tally)?,
                _ => {}
            },
            Some((of, Some(bug))) => {
                if state.is_none() && of.to_string().contains(name) {
                    rig.bug(bug, of, tally)?;
                }
            }
        }
    }
}

/// `N` or `N+M`.
fn deaths(text: &str) -> Result<Deaths> {
    let at = text.split('+').map(|at| at.parse().with_context(|| format!("{at} is no step")));
    Ok(Deaths { at: at.collect::<Result<_>>()? })
}

/// A kind of request, and the way that it takes.
#[derive(Clone, Copy)]
struct Of {
    kind: &'static Kind,
    way: Way,
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.way == Way::Rings { "ring:" } else { "" };
        write!(f, "{way}{}", self.kind.name)
    }
}

/// All that is tried: kinds as they are, and then with bugs.
fn tasks() -> impl Iterator<Item = (Of, Option<Bug>)> {
    let ways = [(Way::Device, BUGS), (Way::Rings, BUGS_OF_RINGS)];
    let kinds = ways
        .into_iter()
        .flat_map(|(way, _)| KINDS.iter().map(move |kind| (Of { kind, way }, None)));
    let bugs = ways.into_iter().flat_map(|(way, bugs)| {
        bugs.iter().map(move |&(bug, name)| {
            let kind = KINDS.iter().find(|kind| kind.name == name).expect("a kind with this name");
            (Of { kind, way }, Some(bug))
        })
    });
    kinds.chain(bugs)
}

/// What a process of the test works on.
struct Rig {
    pm: Devices,
    disk: Devices,
    full: Devices,
    ledger: &'static Ledger,
    steps: &'static Steps,
}

/// A state, looked at.
struct Looked {
    seen: Seen,
    /// Steps of the last daemon.
    steps: u64,
    deaths: usize,
}

impl Rig {
    fn devices(&self, place: Place) -> &Devices {
        match place {
            Place::Pm => &self.pm,
            Place::Disk => &self.disk,
            Place::Full => &self.full,
        }
    }

    /// Carries a request out while daemons die, and looks at what is there then.
    fn state(&self, of: Of, deaths: &Deaths) -> Result<Looked> {
        let kind = of.kind;
        let devices = self.devices(kind.place);
        let mut kernel = Kernel::mount(devices, self.ledger, self.steps, of.way)?;
        let sent = (kind.prepare)(&mut Case::new(&mut kernel)?)?;
        let carried = kernel.carry(sent.clone(), deaths)?;
        let seen = look(kernel, &sent, &carried)?;
        devices.check()?;
        Ok(Looked { seen, steps: carried.steps, deaths: carried.deaths.len() })
    }

    /// Tries every step of a kind, and pairs. Tells what is wrong.
    fn kind(&self, of: Of, tally: &Tally) -> Result<()> {
        let mut wrong = 0;
        let tried = self.tried(of, tally, &mut |deaths, error| {
            wrong += 1;
            let at: Vec<String> = deaths.at.iter().map(u64::to_string).collect();
            tally.wrong.fetch_add(1, Ordering::SeqCst);
            if wrong <= PRINTED {
                eprintln!("{of}/{}: {error:#}", at.join("+"));
            }
            true
        });
        let (states, pairs) = tried.with_context(|| of.to_string())?;
        if let Some(plain) = of.kind.name.strip_suffix("-compacting") {
            let kind = KINDS.iter().find(|kind| kind.name == plain).context("the plain kind")?;
            let fewer = self.state(Of { kind, ..of }, &Deaths::default())?.steps;
            ensure!(states > fewer, "{of}: {states} steps compact nothing");
        }
        println!("{of}: {states} steps, {pairs} pairs, {wrong} wrong");
        tally.states.fetch_add(states, Ordering::SeqCst);
        tally.pairs.fetch_add(pairs, Ordering::SeqCst);
        Ok(())
    }

    /// A bug that must be found.
    fn bug(&self, bug: Bug, of: Of, tally: &Tally) -> Result<()> {
        plant(Some(bug));
        let mut found = None;
        let tried = self.tried(of, &Tally::default(), &mut |deaths, error| {
            found.get_or_insert_with(|| format!("{:?}: {error:#}", deaths.at));
            false
        });
        plant(None);
        let found = found.with_context(|| format!("{bug:?} is not found in {of}: {tried:?}"))?;
        let short: String = found.replace('\n', " ").chars().take(160).collect();
        println!("{bug:?} in {of}: {short}");
        tally.bugs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Tries every step, and pairs, for as long as `wrong` says so; how many. The execution without
    /// a death comes first.
    fn tried(
        &self,
        of: Of,
        tally: &Tally,
        wrong: &mut dyn FnMut(&Deaths, &anyhow::Error) -> bool,
    ) -> Result<(u64, u64)> {
        let expected = self.state(of, &Deaths::default())?;
        ensure!(expected.deaths == 0 && expected.seen.excess == 0, "a death without any");
        let mut successors = Vec::new();
        for at in 0.. {
            let deaths = Deaths { at: vec![at] };
            match self.compared(of, &deaths, &expected, tally) {
                // Answered, and nobody died.
                Ok(Looked { deaths: 0, .. }) => break,
                Ok(looked) => successors.push(looked.steps),
                Err(error) if wrong(&deaths, &error) => successors.push(0),
                Err(_) => return Ok((at + 1, 0)),
            }
        }
        let steps = successors.len() as u64;
        let pairs = if std::env::var_os("TERRACE_LONG").is_some() { PAIRS_LONG } else { PAIRS };
        let mut rng = fastrand::Rng::with_seed(steps);
        for pair in 0..pairs {
            let at = pair * steps / pairs;
            let successor = successors[at as usize].max(1);
            let deaths = Deaths { at: vec![at, rng.u64(0..successor)] };
            if let Err(error) = self.compared(of, &deaths, &expected, tally)
                && !wrong(&deaths, &error)
            {
                return Ok((steps, pair + 1));
            }
        }
        Ok((steps, pairs))
    }

    fn compared(
        &self,
        of: Of,
        deaths: &Deaths,
        expected: &Looked,
        tally: &Tally,
    ) -> Result<Looked> {
        let looked = self.state(of, deaths)?;
        tally.excess.fetch_add(u64::from(looked.seen.excess > 0), Ordering::SeqCst);
        compare(expected, &looked)?;
        Ok(looked)
    }
}

fn compare(expected: &Looked, looked: &Looked) -> Result<()> {
    let (expected, seen) = (&expected.seen, &looked.seen);
    let difference: Vec<String> = lines_apart(&expected.text, &seen.text);
    if !difference.is_empty() {
        bail!("\n{}", difference.join("\n"));
    }
    // What nobody knows to be forgotten keeps its space.
    if seen.excess == 0 && expected.free.abs_diff(seen.free) > BLOCKS_APART {
        return Err(anyhow!("{} blocks are free, not {}", seen.free, expected.free));
    }
    Ok(())
}

/// Lines of either text that the other lacks.
fn lines_apart(expected: &str, seen: &str) -> Vec<String> {
    let lacks = |text: &str, line: &&str| !text.lines().any(|other| other == *line);
    let missing = expected.lines().filter(|line| lacks(seen, line)).map(|line| format!("- {line}"));
    let more = seen.lines().filter(|line| lacks(expected, line)).map(|line| format!("+ {line}"));
    missing.chain(more).collect()
}
