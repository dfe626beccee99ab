//! Listings of a directory that changes meanwhile, against what they may show: a listing comes to
//! its end, shows each name that is there all the time exactly once, and shows no name twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use terrace_engine::{
    FileKind, FormatOptions, Ino, NewInode, OpenOptions, RenameFlags, Volume, format,
};
use terrace_media::Pm;

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 0, gid: 0, rdev: 0 };
/// Names in play: so few that most are made, removed and renamed over several times.
const NAMES: u8 = 20;
const READERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum How {
    Plain,
    Exchange,
    Whiteout,
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Link(u8, u8),
    Unlink(u8),
    Rename(u8, u8, How),
    /// From the other directory, onto a name of the one that is listed.
    MoveIn(u8),
    MoveOut(u8),
    /// So many entries, with attributes or without.
    Read(usize, usize, bool),
    /// Back to where the reader was after that many entries.
    Seek(usize, usize),
    Rewind(usize),
    Remount,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES;
    let how = prop::sample::select(vec![How::Plain, How::Plain, How::Exchange, How::Whiteout]);
    prop_oneof![
        5 => name().prop_map(Step::Create),
        1 => (name(), name()).prop_map(|(a, b)| Step::Link(a, b)),
        3 => name().prop_map(Step::Unlink),
        6 => (name(), name(), how).prop_map(|(a, b, how)| Step::Rename(a, b, how)),
        2 => name().prop_map(Step::MoveIn),
        1 => name().prop_map(Step::MoveOut),
        10 => (0..READERS, prop_oneof![1..4usize, 1..40usize], any::<bool>())
            .prop_map(|(reader, entries, plus)| Step::Read(reader, entries, plus)),
        1 => (0..READERS, 0..usize::from(NAMES))
            .prop_map(|(reader, back)| Step::Seek(reader, back)),
        1 => (0..READERS).prop_map(Step::Rewind),
        1 => Just(Step::Remount),
    ]
}

/// One listing, and what it owes.
#[derive(Clone, Debug, Default)]
struct Reader {
    position: u64,
    /// What it has shown, and the position behind each.
    shown: Vec<(u8, u64)>,
    /// Names that have been there since its first entry.
    lasting: BTreeSet<u8>,
    /// Names that there were at its first entry.
    limit: usize,
    /// The volume was mounted anew: a name that was removed may come again where another was.
    remounted: bool,
}

struct World {
    pm: Arc<Pm>,
    volume: Arc<Volume>,
    dir: Ino,
    other: Ino,
    /// What there is, and what there is in the other directory.
    names: BTreeSet<u8>,
    others: BTreeSet<u8>,
    readers: [Reader; READERS],
}

fn text(name: u8) -> Vec<u8> {
    format!("name-{name}").into_bytes()
}

fn number(name: &[u8]) -> u8 {
    std::str::from_utf8(name).unwrap().strip_prefix("name-").unwrap().parse().unwrap()
}

fn open(pm: &Arc<Pm>) -> Arc<Volume> {
    let options = OpenOptions { cache_bytes: 1 << 20, workers: false, ..Default::default() };
    Volume::open(pm.clone(), Vec::new(), options, &|_, _, _| {}).unwrap()
}

impl World {
    fn new() -> Self {
        let pm = Pm::anonymous(4 << 20);
        format(&pm, &[], &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
        let volume = open(&pm);
        let make = |name: &[u8]| {
            let new = NewInode { kind: FileKind::Directory, ..FILE };
            volume.create(Ino::ROOT, name, &new).unwrap().ino
        };
        let (dir, other) = (make(b"dir"), make(b"other"));
        let (names, others, readers) = Default::default();
        World { pm, volume, dir, other, names, others, readers }
    }

    fn gone(&mut self, name: u8) {
        self.names.remove(&name);
        for reader in &mut self.readers {
            reader.lasting.remove(&name);
        }
    }

    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let (dir, other) = (self.dir, self.other);
        match *step {
            Step::Create(name) => {
                let made = self.volume.create(dir, &text(name), &FILE);
                prop_assert_eq!(made.is_ok(), self.names.insert(name));
            }
            Step::Link(name, new) => {
                let Ok(attr) = self.volume.lookup(dir, &text(name)) else {
                    return Ok(());
                };
                let linked = self.volume.link(attr.ino, dir, &text(new));
                prop_assert_eq!(linked.is_ok(), self.names.insert(new));
            }
            Step::Unlink(name) => {
                prop_assert_eq!(
                    self.volume.unlink(dir, &text(name)).is_ok(),
                    self.names.contains(&name)
                );
                self.gone(name);
            }
            Step::Rename(from, to, how) => self.rename(from, to, how)?,
            Step::MoveIn(name) => {
                let _ = self.volume.create(other, &text(name), &FILE);
                self.volume
                    .rename(other, &text(name), dir, &text(name), RenameFlags::default())
                    .unwrap();
                self.others.remove(&name);
                self.names.insert(name);
            }
            Step::MoveOut(name) => {
                let moved = self.volume.rename(
                    dir,
                    &text(name),
                    other,
                    &text(name),
                    RenameFlags::default(),
                );
                prop_assert_eq!(moved.is_ok(), self.names.contains(&name));
                self.gone(name);
            }
            Step::Read(reader, entries, plus) => self.read(reader, entries, plus)?,
            Step::Seek(reader, entries) => {
                let reader = &mut self.readers[reader];
                reader.shown.truncate(entries);
                match reader.shown.last() {
                    Some(&(_, position)) => reader.position = position,
                    None => *reader = Reader::default(),
                }
            }
            Step::Rewind(reader) => self.readers[reader] = Reader::default(),
            Step::Remount => {
                self.volume.close().unwrap();
                self.volume = open(&self.pm);
                self.readers.iter_mut().for_each(|reader| reader.remounted = true);
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: u8, to: u8, how: How) -> Result<(), TestCaseError> {
        let flags = RenameFlags {
            exchange: matches!(how, How::Exchange),
            whiteout: matches!(how, How::Whiteout),
            ..Default::default()
        };
        let same = self.volume.lookup(self.dir, &text(from)).ok().map(|attr| attr.ino)
            == self.volume.lookup(self.dir, &text(to)).ok().map(|attr| attr.ino);
        let possible = self.names.contains(&from) && (!flags.exchange || self.names.contains(&to));
        let renamed = self.volume.rename(self.dir, &text(from), self.dir, &text(to), flags);
        prop_assert_eq!(renamed.is_ok(), possible);
        // Two names of one file stay as they are.
        if possible && !same && matches!(how, How::Plain) {
            self.gone(from);
        }
        if possible {
            self.names.insert(to);
        }
        Ok(())
    }

    fn read(
        &mut self,
        number_of_reader: usize,
        entries: usize,
        plus: bool,
    ) -> Result<(), TestCaseError> {
        let reader = &mut self.readers[number_of_reader];
        // Up to here nothing of the directory has been shown.
        if reader.shown.is_empty() {
            *reader = Reader {
                position: reader.position,
                limit: self.names.len(),
                lasting: self.names.clone(),
                ..Reader::default()
            };
        }
        let mut seen = Vec::new();
        let mut take = |name: &[u8], next| {
            let room = seen.len() < entries;
            if room {
                seen.push((name.to_vec(), next));
            }
            room
        };
        match plus {
            true => self
                .volume
                .readdir_plus(self.dir, reader.position, &mut |e, _| take(e.name, e.next))
                .unwrap(),
            false => self
                .volume
                .readdir(self.dir, reader.position, &mut |e| take(e.name, e.next))
                .unwrap(),
        }
        let at_end = seen.len() < entries;
        for (name, next) in seen {
            reader.position = next;
            if name != b"." && name != b".." {
                let name = number(&name);
                prop_assert!(self.names.contains(&name), "{name} is not there");
                let again = reader.shown.iter().any(|&(shown, _)| shown == name);
                let excused = reader.remounted && !reader.lasting.contains(&name);
                prop_assert!(!again || excused, "{name} is shown again");
                reader.shown.push((name, next));
            }
        }
        prop_assert!(
            reader.shown.len() <= reader.limit,
            "{} shown, {} there",
            reader.shown.len(),
            reader.limit
        );
        if at_end {
            let shown: BTreeSet<u8> = reader.shown.iter().map(|&(name, _)| name).collect();
            prop_assert!(reader.lasting.is_subset(&shown), "{shown:?} of {:?}", reader.lasting);
        }
        Ok(())
    }
}

fn cases() -> u32 {
    if std::env::var_os("TERRACE_LONG").is_some() { 20_000 } else { 400 }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn a_listing_ends_and_shows_what_stays_once(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step)?;
        }
    }
}

/// A program that changes each name that a listing shows comes to an end, whatever the change and
/// however few entries a call takes.
#[test]
fn changing_what_is_shown_ends() {
    type Change = fn(&Volume, Ino, &[u8]);
    let changes: [(&str, Change); 5] = [
        ("rename", |volume, dir, name| {
            volume.rename(dir, name, dir, &[name, b"x"].concat(), RenameFlags::default()).unwrap();
        }),
        ("rename there and back", |volume, dir, name| {
            volume.rename(dir, name, dir, b"between", RenameFlags::default()).unwrap();
            volume.rename(dir, b"between", dir, name, RenameFlags::default()).unwrap();
        }),
        ("rename over", |volume, dir, name| {
            volume.create(Ino::ROOT, b"newer", &FILE).unwrap();
            volume.rename(Ino::ROOT, b"newer", dir, name, RenameFlags::default()).unwrap();
        }),
        ("create", |volume, dir, name| {
            volume.create(dir, &[name, b"x"].concat(), &FILE).unwrap();
        }),
        ("recreate", |volume, dir, name| {
            volume.unlink(dir, name).unwrap();
            volume.create(dir, name, &FILE).unwrap();
        }),
    ];
    const THERE: usize = 50;
    for (what, change) in changes {
        for entries in [1, 7, usize::MAX] {
            let World { volume, dir, .. } = World::new();
            for name in 0..THERE as u8 {
                volume.create(dir, &text(name), &FILE).unwrap();
            }
            let (mut position, mut shown) = (2, Vec::new());
            loop {
                let mut seen = Vec::new();
                let take = &mut |e: terrace_engine::DirEntry<'_>| {
                    let room = seen.len() < entries;
                    if room {
                        seen.push((e.name.to_vec(), e.next));
                    }
                    room
                };
                volume.readdir(dir, position, take).unwrap();
                let Some(&(_, next)) = seen.last() else {
                    break;
                };
                position = next;
                seen.iter().for_each(|(name, _)| change(&volume, dir, name));
                shown.extend(seen.into_iter().map(|(name, _)| name));
                assert!(
                    shown.len() <= THERE,
                    "{what}, {entries} at a time: {} of {THERE} names",
                    shown.len()
                );
            }
            shown.sort();
            shown.dedup();
            assert_eq!(shown.len(), THERE, "{what}, {entries} at a time");
        }
    }
}
