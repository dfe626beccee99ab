//! Directories that change while they are listed, on a mount and on the host's file system: by the
//! lister itself and by another process, with calls that take one entry and calls that take many.
//!
//! On both, a listing must come to its end and show each name that stays exactly once, and both
//! must be left with the same names. On the mount it must also show no name twice, and no more
//! names than there were when it began. That does not hold where several listings share the
//! kernel's cache, which may be filled by one before a name is removed and by another after it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags, RawDir, RenameFlags, SeekFrom, renameat_with, seek};
use terrace_proof::{Rng, Scratch, VolumeSpec, proof};

/// Room for one entry with a name as these tests use them, and for more.
const BUFFERS: [usize; 3] = [48, 4096, 1 << 20];
/// Set for the process that makes changes for another.
const OTHER_PROCESS: &str = "TERRACE_TEST_LISTINGS_OTHER";

/// What happens to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A name that nobody has had.
    Create,
    Rename,
    ThereAndBack,
    /// By a new file of the same directory, as editors save.
    Replace,
    /// By a new file of another directory.
    ReplaceFromOutside,
    Exchange,
    Unlink,
    Recreate,
}

const CHANGES: [Change; 8] = [
    Change::Create,
    Change::Rename,
    Change::ThereAndBack,
    Change::Replace,
    Change::ReplaceFromOutside,
    Change::Exchange,
    Change::Unlink,
    Change::Recreate,
];

impl Change {
    /// Whether the name itself is there all the time.
    fn keeps_the_name(self) -> bool {
        matches!(
            self,
            Change::Create | Change::Replace | Change::ReplaceFromOutside | Change::Exchange
        )
    }

    fn make(self, dir: &Path, name: &str) -> Result<()> {
        let (at, outside) = (dir.join(name), dir.with_extension("outside"));
        match self {
            Change::Create => drop(File::create_new(dir.join(format!("{name}+")))?),
            Change::Rename => std::fs::rename(&at, dir.join(format!("{name}-")))?,
            Change::ThereAndBack => {
                std::fs::rename(&at, dir.join("between"))?;
                std::fs::rename(dir.join("between"), &at)?;
            }
            Change::Replace => {
                File::create_new(dir.join("newer"))?;
                std::fs::rename(dir.join("newer"), &at)?;
            }
            Change::ReplaceFromOutside => {
                File::create_new(&outside)?;
                std::fs::rename(&outside, &at)?;
            }
            Change::Exchange => {
                File::create_new(&outside)?;
                renameat_with(CWD, &outside, CWD, &at, RenameFlags::EXCHANGE)?;
                std::fs::remove_file(&outside)?;
            }
            Change::Unlink => std::fs::remove_file(&at)?,
            Change::Recreate => {
                std::fs::remove_file(&at)?;
                File::create_new(&at)?;
            }
        }
        Ok(())
    }
}

/// Another process that makes changes, one after the other, as it is told.
struct OtherProcess {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<std::process::ChildStderr>,
}

impl OtherProcess {
    /// This program once more; `test` is to begin with [`OtherProcess::serve`].
    fn start(test: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", test, "--nocapture"]).env(OTHER_PROCESS, "1");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().context("no pipe to the other process")?;
        let answers =
            BufReader::new(child.stderr.take().context("no pipe from the other process")?);
        Ok(Self { child, orders, answers })
    }

    fn make(&mut self, change: Change, dir: &Path, name: &str) -> Result<()> {
        let number = CHANGES.iter().position(|c| *c == change).context("no such change")?;
        writeln!(self.orders, "{number} {name} {}", dir.display())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(answer == "done\n", "the other process: {change:?} of {name}: {answer}");
        Ok(())
    }

    /// Does what it is told, if this is the other process.
    fn serve() -> Result<bool> {
        if std::env::var_os(OTHER_PROCESS).is_none() {
            return Ok(false);
        }
        for order in std::io::stdin().lock().lines() {
            let order = order?;
            let mut words = order.splitn(3, ' ');
            let (Some(number), Some(name), Some(dir)) = (words.next(), words.next(), words.next())
            else {
                bail!("no order: {order}");
            };
            match CHANGES[number.parse::<usize>()?].make(Path::new(dir), name) {
                Ok(()) => eprintln!("done"),
                Err(error) => eprintln!("{error:#}"),
            }
        }
        Ok(true)
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // It is killed rather than asked: a test that failed may have left it in the middle of an
        // order.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One open directory, what it has shown, and what it owes.
struct Listing {
    dir: File,
    buffer: Vec<MaybeUninit<u8>>,
    /// Each entry shown, dots included, and the position behind it.
    shown: Vec<(OsString, u64)>,
    lasting: BTreeSet<String>,
    /// Names at the beginning.
    names: usize,
    at_end: bool,
}

impl Listing {
    fn open(dir: &Path, buffer_bytes: usize) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = File::from(rustix::fs::open(dir, flags, Mode::empty())?);
        let buffer = vec![MaybeUninit::uninit(); buffer_bytes];
        let (shown, lasting) = Default::default();
        Ok(Self { dir, buffer, shown, lasting, names: 0, at_end: false })
    }

    /// From the beginning; it is to show all of `names`.
    fn rewind(&mut self, names: &BTreeSet<String>) -> Result<()> {
        seek(&self.dir, SeekFrom::Start(0))?;
        *self = Self {
            dir: self.dir.try_clone()?,
            buffer: std::mem::take(&mut self.buffer),
            shown: Vec::new(),
            lasting: names.clone(),
            names: names.len(),
            at_end: false,
        };
        Ok(())
    }

    /// Back to behind one of the entries shown.
    fn back_to(&mut self, entry: usize) -> Result<()> {
        let Some(&(_, position)) = self.shown.get(entry) else {
            return Ok(());
        };
        seek(&self.dir, SeekFrom::Start(position))?;
        self.shown.truncate(entry + 1);
        self.at_end = false;
        Ok(())
    }

    /// One call; the names that it shows.
    fn call(&mut self) -> Result<Vec<String>> {
        let first = self.shown.len();
        let mut entries = RawDir::new(&self.dir, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsString::from(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
            self.shown.push((name, entry.next_entry_cookie()));
            if entries.is_buffer_empty() {
                break;
            }
        }
        self.at_end = self.shown.len() == first;
        let names = self.shown[first..].iter().filter(|(name, _)| name != "." && name != "..");
        Ok(names.map(|(name, _)| name.to_string_lossy().into_owned()).collect())
    }

    /// What is wrong with what has been shown; `strict`: by the rules of the mount.
    fn judge(&self, strict: bool) -> Result<()> {
        let mut times: HashMap<&str, usize> = HashMap::new();
        for (name, _) in &self.shown {
            *times.entry(name.to_str().context("a name that nobody gave")?).or_default() += 1;
        }
        let twice = times
            .iter()
            .find(|(name, times)| **times > 1 && (strict || self.lasting.contains(**name)));
        ensure!(twice.is_none(), "shown more than once: {twice:?}");
        // Where a file system shows new names, that is its affair as long as the listing ends.
        let limit = if strict { self.names } else { 20 * (self.names + 100) } + 2;
        ensure!(
            self.shown.len() <= limit,
            "{} names were there, {} entries shown",
            self.names,
            self.shown.len()
        );
        if self.at_end {
            let missing = self.lasting.iter().find(|name| !times.contains_key(name.as_str()));
            ensure!(missing.is_none(), "{missing:?} was there all the time and is not shown");
        }
        Ok(())
    }
}

fn names_in(dir: &Path) -> Result<BTreeSet<String>> {
    let names =
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// A new directory with so many files.
fn filled(parent: &Path, names: usize) -> Result<(PathBuf, BTreeSet<String>)> {
    let dir = parent.join("dir");
    std::fs::create_dir(&dir)?;
    let names: BTreeSet<String> = (0..names).map(|number| format!("name-{number:06}")).collect();
    names.iter().try_for_each(|name| File::create_new(dir.join(name)).map(drop))?;
    Ok((dir, names))
}

/// Lists a directory and changes each name that is shown; returns the names left.
fn change_what_is_shown(
    parent: &Path,
    strict: bool,
    names: usize,
    buffer_bytes: usize,
    change: Change,
    other: &mut Option<&mut OtherProcess>,
) -> Result<BTreeSet<String>> {
    let (dir, mut names) = filled(parent, names)?;
    let mut listing = Listing::open(&dir, buffer_bytes)?;
    listing.rewind(&names)?;
    while !listing.at_end {
        for name in listing.call()? {
            match other {
                Some(other) => other.make(change, &dir, &name)?,
                None => {
                    change.make(&dir, &name).with_context(|| format!("{change:?} of {name}"))?
                }
            }
            if !change.keeps_the_name() {
                names.remove(&name);
                listing.lasting.remove(&name);
            }
        }
        listing.judge(strict)?;
    }
    let left = names_in(&dir)?;
    ensure!(names.is_subset(&left), "a listing from the beginning lacks names that stayed");
    std::fs::remove_dir_all(&dir)?;
    Ok(left)
}

#[test]
fn changing_what_is_shown() {
    proof(|| {
        if OtherProcess::serve()? {
            return Ok(());
        }
        let volume = VolumeSpec::new("listings").pm_mib(256).mount()?;
        let host = Scratch::reference("listings")?;
        let mut other = OtherProcess::start("changing_what_is_shown")?;
        let long = std::env::var_os("TERRACE_LONG").is_some();
        let sizes: &[usize] =
            if long { &[0, 1, 10, 1000, 10_000, 100_000] } else { &[0, 1, 10, 250] };
        for &names in sizes {
            for change in CHANGES {
                for buffer_bytes in BUFFERS {
                    for elsewhere in [false, true] {
                        let what = format!(
                            "{change:?}, {names} names, {buffer_bytes} bytes a call, {elsewhere}"
                        );
                        let mut run = |parent: &Path, strict| {
                            let mut other = elsewhere.then_some(&mut other);
                            change_what_is_shown(
                                parent,
                                strict,
                                names,
                                buffer_bytes,
                                change,
                                &mut other,
                            )
                        };
                        let here = run(volume.root(), true).with_context(|| what.clone())?;
                        let there = run(host.path(), false)
                            .with_context(|| format!("on the host: {what}"))?;
                        // A new name may be shown and changed once more on the host.
                        let is_old = |name: &&String| !name.ends_with(['+', '-']);
                        ensure!(
                            here.iter().filter(is_old).eq(there.iter().filter(is_old)),
                            "names left: {what}"
                        );
                    }
                }
            }
        }
        Ok(())
    });
}

/// One directory of the two, and the listings of it.
struct Side {
    dir: PathBuf,
    strict: bool,
    listings: Vec<Listing>,
    /// Names that were removed once and may be there again, on the mount if its listings share the
    /// kernel's cache.
    removed: Option<BTreeSet<String>>,
}

impl Side {
    fn new(
        parent: &Path,
        on_mount: bool,
        names: usize,
        listings: &[usize],
    ) -> Result<(Self, BTreeSet<String>)> {
        let (dir, names) = filled(parent, names)?;
        let share = listings.len() > 1;
        let listings = listings.iter().map(|buffer_bytes| Listing::open(&dir, *buffer_bytes));
        let listings = listings.collect::<Result<_>>()?;
        let removed = (on_mount && share).then(BTreeSet::new);
        let mut side = Side { listings, dir, strict: on_mount && !share, removed };
        side.listings.iter_mut().try_for_each(|listing| listing.rewind(&names))?;
        Ok((side, names))
    }

    fn remove(&mut self, name: &str) {
        for listing in &mut self.listings {
            listing.lasting.remove(name);
        }
        self.removed.iter_mut().for_each(|removed| removed.extend([name.to_owned()]));
    }

    /// One call of a listing, or a step back, or a new beginning.
    fn list(&mut self, listing: usize, dice: u64, names: &BTreeSet<String>) -> Result<()> {
        let (listing, count) = (&mut self.listings[listing], names.len());
        let names = &match &self.removed {
            Some(removed) => names.difference(removed).cloned().collect(),
            None => names.clone(),
        };
        match dice {
            0 => listing.rewind(names)?,
            1 if !self.strict => listing.back_to(listing.shown.len() / 2)?,
            _ if listing.at_end => listing.rewind(names)?,
            _ => {
                // Names that come before its first entry may be shown, and are not owed.
                if listing.shown.len() <= 2 {
                    listing.names = listing.names.max(count);
                }
                listing.call()?;
            }
        }
        listing.judge(self.strict)
    }
}

/// Random changes under several listings, the same here and there.
fn random_changes(seed: u64, here: &Path, there: &Path, other: &mut OtherProcess) -> Result<()> {
    let mut rng = Rng::new(seed);
    let count = [10, 60, 400][rng.below(3) as usize];
    let listings = if seed.is_multiple_of(2) { &BUFFERS[..] } else { &[*rng.pick(&BUFFERS)] };
    let (mut side, mut names) = Side::new(here, true, count, listings)?;
    let (mut host, _) = Side::new(there, false, count, listings)?;
    for step in 0..400 {
        let what = |side: &str| format!("seed {seed}, step {step}, {side}");
        if rng.one_in(2) {
            let (listing, dice) = (rng.below(listings.len() as u64) as usize, rng.below(12));
            side.list(listing, dice, &names).with_context(|| what("here"))?;
            host.list(listing, dice, &names).with_context(|| what("on the host"))?;
            continue;
        }
        let change = *rng.pick(&CHANGES);
        let Some(name) = names.iter().nth(rng.below(names.len().max(1) as u64) as usize).cloned()
        else {
            break;
        };
        // Names grow by these; one that is too long, or there already, shows nothing.
        let grown = format!("{name}{}", if change == Change::Create { '+' } else { '-' });
        if matches!(change, Change::Create | Change::Rename)
            && (names.contains(&grown) || grown.len() > 24)
        {
            continue;
        }
        let elsewhere = rng.one_in(4);
        for side in [&mut side, &mut host] {
            match elsewhere {
                true => other.make(change, &side.dir, &name)?,
                false => change.make(&side.dir, &name).with_context(|| what("change"))?,
            }
            if !change.keeps_the_name() {
                side.remove(&name);
            }
        }
        match change {
            Change::Create => names.extend([grown]),
            Change::Rename => {
                names.remove(&name);
                names.extend([grown]);
            }
            Change::Unlink => names.retain(|there| *there != name),
            _ => {}
        }
    }
    for side in [side, host] {
        ensure!(names_in(&side.dir)? == names, "seed {seed}: names in {}", side.dir.display());
        std::fs::remove_dir_all(&side.dir)?;
    }
    Ok(())
}

#[test]
fn random_changes_under_listings() {
    proof(|| {
        if OtherProcess::serve()? {
            return Ok(());
        }
        let volume = VolumeSpec::new("listings-random").mount()?;
        let host = Scratch::reference("listings-random")?;
        let mut other = OtherProcess::start("random_changes_under_listings")?;
        let seeds = if std::env::var_os("TERRACE_LONG").is_some() { 2000 } else { 30 };
        (0..seeds).try_for_each(|seed| random_changes(seed, volume.root(), host.path(), &mut other))
    });
}
