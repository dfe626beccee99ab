//! Volumes that workloads start from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::apply::{apply, prepare};
use crate::configs::*;
use crate::image::Image;
use crate::model::Model;
use crate::op::{FallocHow, Op, Path};
use crate::paths::*;
use crate::rig::{Config, Devices, Open, PM_FULL_PERCENT};

/// A volume to start from.
#[derive(Debug)]
pub struct Prep {
    /// Its name in an id.
    pub name: &'static str,
    /// What it is made of.
    pub config: &'static Config,
    /// Makes it what it is, beyond the common names.
    build: fn(&mut Builder),
    /// What happens after it is mounted, before the workload.
    live: fn(&Before<'_>) -> Vec<Op>,
}

/// A volume to start from, as bytes.
#[derive(Debug)]
pub struct Prepared {
    /// Unmounted cleanly.
    pub image: Arc<Image>,
    /// What is on it.
    pub model: Model,
    /// What happens after it is mounted, before the workload.
    pub live: Vec<Op>,
}

/// A volume to start from, before anything happens to it.
struct Before<'a> {
    config: &'static Config,
    image: &'a Image,
}

impl Before<'_> {
    /// As many of `ops` as can be applied before PM gets emptier: the next one makes a log compact.
    fn until_compaction(&self, ops: impl Iterator<Item = Op>) -> Vec<Op> {
        self.until(ops, |before, now| now < before)
    }

    /// As many of `ops` as can be applied before they take more of PM than a log does: the next one
    /// makes a table grow.
    fn until_growth(&self, ops: impl Iterator<Item = Op>) -> Vec<Op> {
        self.until(ops, |before, now| now > before + 2 * 4096)
    }

    /// As many of `ops` as can be applied before one changes the use of PM in this way.
    fn until(&self, ops: impl Iterator<Item = Op>, ends: impl Fn(u64, u64) -> bool) -> Vec<Op> {
        let devices = Devices::in_memory(self.image);
        devices.load(self.image);
        let volume = Open::new(self.config.open(&devices).expect("mounting"));
        let used = || volume.status().devices[0].used_bytes;
        let mut before = used();
        let mut live = Vec::new();
        for op in ops {
            assert_eq!(apply(&volume, &op), Ok(()), "{op:?}");
            let now = used();
            if ends(before, now) {
                volume.abandon();
                return live;
            }
            before = now;
            live.push(op);
        }
        panic!("{} operations have not led there", live.len());
    }
}

/// More operations than this no log takes before it is compacted.
const COMPACTION_OPS_MAX: usize = 5000;

/// More inodes than this no table has free records for here.
const GROWTH_OPS_MAX: usize = 400;

/// Applies operations to a volume and to its model.
struct Builder {
    config: &'static Config,
    devices: Devices,
    volume: Option<Open>,
    model: Model,
}

impl Builder {
    fn new(config: &'static Config) -> Self {
        let blank = config.blank();
        let devices = Devices::in_memory(&blank);
        devices.load(&blank);
        devices.format(config).expect("formatting");
        let mut builder = Builder { config, devices, volume: None, model: Model::new() };
        // Common names have their data in PM, whatever goes where later.
        builder.mount(PM_FULL_PERCENT);
        // The directories to play in are not in the shard of the root, if there is another one.
        (1..config.shards).for_each(|_| builder.all(coming_and_going(None, BORN_IN_A_SHARD)));
        prepare(builder.volume()).expect("directories");
        for op in names() {
            builder.apply(op);
        }
        builder.mount(config.pm_full_percent);
        builder
    }

    fn volume(&self) -> &Open {
        self.volume.as_ref().expect("mounted")
    }

    fn unmount(&mut self) {
        if let Some(volume) = self.volume.take() {
            volume.close().expect("unmounting");
        }
    }

    fn mount(&mut self, pm_full_percent: u8) {
        self.unmount();
        let config = Config { pm_full_percent, ..self.config.clone() };
        self.volume = Some(Open::new(config.open(&self.devices).expect("mounting")));
    }

    fn apply(&mut self, op: Op) {
        assert_eq!(self.model.apply(&op), Ok(()), "{op:?}");
        assert_eq!(apply(self.volume(), &op), Ok(()), "{op:?}");
    }

    fn all(&mut self, ops: impl IntoIterator<Item = Op>) {
        ops.into_iter().for_each(|op| self.apply(op));
    }

    fn finish(mut self) -> (Image, Model) {
        self.volume().sync().expect("sync");
        self.unmount();
        self.devices.problems().expect("a sound volume to start from");
        (self.devices.image(), self.model)
    }
}

/// What is on every volume to start from.
fn names() -> Vec<Op> {
    vec![
        Op::Create(A),
        Op::Write(A, 0, 5000, 1),
        Op::Create(B),
        Op::Write(B, 0, 100, 2),
        Op::Link(B, D0B),
        Op::Chmod(B, 0o4755),
        Op::Create(D0A),
        Op::Write(D0A, 0, 9000, 3),
        Op::SetXattr(D0A, 0, 20),
        Op::SetXattr(D0A, 1, 5000),
        Op::Mkdir(D0C),
        Op::Symlink(D1A, 30),
        Op::Mkdir(D1C),
    ]
}

/// So many inodes are made in one shard, and then in the next.
const BORN_IN_A_SHARD: usize = 64;

fn nothing(_: &mut Builder) {}

fn no_ops(_: &Before<'_>) -> Vec<Op> {
    Vec::new()
}

fn chmods(path: Path, n: usize) -> impl Iterator<Item = Op> {
    (0..n).map(move |i| Op::Chmod(path, if i % 2 == 0 { 0o600 } else { 0o644 }))
}

/// Names that come and go: two entries in a directory's log each time.
fn coming_and_going(dir: Option<usize>, n: usize) -> impl Iterator<Item = Op> {
    (0..n).flat_map(move |_| [Op::Create((dir, 20)), Op::Unlink((dir, 20))])
}

/// Slots that a log has in the inode record, and in a page.
const INLINE: usize = 3;
const PAGE: usize = 63;

/// The logs of /a, /dir0 and / have `left` free slots in their first page.
fn fill_pages(b: &mut Builder, left: usize) {
    b.all(chmods(A, INLINE - 1 + PAGE - left));
    // Three names are there; the page holds pairs, and an attribute change where a slot remains.
    let slots = PAGE - left;
    b.all(coming_and_going(Some(0), slots / 2));
    if slots % 2 == 1 {
        b.apply(Op::DefaultAcl(0, 5));
    }
    // Root has a fourth name.
    let slots = slots - 1;
    b.all(coming_and_going(None, slots / 2));
    if slots % 2 == 1 {
        b.apply(Op::Mknod((None, 21)));
    }
}

fn full_but_one(b: &mut Builder) {
    fill_pages(b, 1);
}

fn full(b: &mut Builder) {
    fill_pages(b, 0);
}

fn inline_full(b: &mut Builder) {
    b.all(chmods(A, INLINE - 1));
    b.all(chmods(B, 1));
}

/// One entry more in the log of /a, and less than half of it is live.
fn compaction(before: &Before<'_>) -> Vec<Op> {
    before.until_compaction(chmods(A, COMPACTION_OPS_MAX))
}

/// So it is with that of /dir0.
fn compaction_of_directory(before: &Before<'_>) -> Vec<Op> {
    before.until_compaction(coming_and_going(Some(0), COMPACTION_OPS_MAX / 2))
}

/// One more write, and the first page of the log of /a is dead.
fn dead_front(_: &Before<'_>) -> Vec<Op> {
    (0..INLINE - 1 + 2 * PAGE).map(|i| Op::Write(A, 0, 8192, i as u8)).collect()
}

/// The commit of the next operation also carries away a dropped page.
fn dropped_front(before: &Before<'_>) -> Vec<Op> {
    let mut ops = dead_front(before);
    ops.push(Op::Write(A, 0, 8192, 200));
    ops
}

fn crowded(b: &mut Builder) {
    b.all((30..100).map(|i| Op::Create((Some(1), i))));
    b.all((100..110).map(|i| Op::Mkdir((None, i))));
}

/// Leaves one inode record free.
fn table_full(b: &mut Builder) {
    b.all((30..276).map(|i| Op::Mknod((Some(1), i))));
}

fn patched(_: &Before<'_>) -> Vec<Op> {
    vec![Op::Write(A, 10, 100, 77), Op::Write(D0A, 5000, 1000, 78)]
}

fn reserved(b: &mut Builder) {
    b.apply(Op::Falloc(A, FallocHow::Allocate, 4096, 30_000));
    b.apply(Op::Falloc(B, FallocHow::AllocateKeepSize, 0, 20_000));
}

fn with_acls(b: &mut Builder) {
    b.apply(Op::AccessAcl(A, 3));
    b.apply(Op::DefaultAcl(0, 7));
}

/// /a lies in PM and, with a hole between, on a disk; /b's run is long enough for checksum blocks.
fn tiers(b: &mut Builder) {
    b.apply(Op::Write(A, 12_288, 20_000, 4));
    b.apply(Op::Fsync(A));
    b.apply(Op::Write(B, 0, 40 * 4096, 5));
    b.apply(Op::Fsync(B));
    b.apply(Op::Write(D0A, 0, 9000, 6));
    b.apply(Op::Fsync(D0A));
}

/// Three tiers: /a lies, with a hole between, on the upper disk, in PM, and in reserved blocks; /b,
/// long enough for checksum blocks, on the lower disk.
fn three_tiers(b: &mut Builder) {
    b.all([
        Op::Write(A, 12_288, 20_000, 4),
        Op::Falloc(A, FallocHow::AllocateKeepSize, 36_864, 8192),
        Op::Move(A, 1),
    ]);
    b.all([
        Op::Write(A, 16_384, 5000, 5),
        Op::Falloc(A, FallocHow::AllocateKeepSize, 49_152, 4096),
    ]);
    b.all([Op::Write(B, 0, 40 * 4096, 7), Op::Move(B, 2), Op::Move(D0A, 1)]);
}

/// /dir0 is pinned to the lower disk, and so is what is made there: /dir0/a.
fn pinned(b: &mut Builder) {
    b.all([
        Op::PinDir(0, 2),
        Op::Unlink(D0A),
        Op::Create(D0A),
        Op::Write(D0A, 0, 9000, 6),
        Op::Fsync(D0A),
    ]);
    b.all([Op::SetXattr(D0A, 0, 20), Op::SetXattr(D0A, 1, 5000)]);
}

fn dirty(_: &Before<'_>) -> Vec<Op> {
    vec![Op::Write(A, 4096, 6000, 90), Op::Append(D0A, 5000, 91), Op::Write(A, 20_000, 100, 92)]
}

fn truncated(_: &Before<'_>) -> Vec<Op> {
    vec![Op::Write(A, 4096, 6000, 90), Op::Truncate(A, 0), Op::Write(A, 0, 3000, 91)]
}

/// PM has room for a few data blocks more.
fn pm_nearly_full(b: &mut Builder) {
    b.mount(PM_FULL_PERCENT);
    b.apply(Op::Create(BALLAST));
    let mut at = 0;
    while b.volume().status().devices[0].used_bytes < (PM_BLOCKS as u64 * 4096) * 89 / 100 {
        b.apply(Op::Write(BALLAST, at, 4096, 8));
        at += 4096;
    }
}

/// /b is long, in PM, and has a hole; /a and /dir0/a are short.
fn long_in_pm(b: &mut Builder) {
    b.all([Op::Write(B, 0, 20 * 4096, 5), Op::Write(B, 30 * 4096, 20 * 4096, 6)]);
}

/// So it is, but on the first disk.
fn long_on_disk(b: &mut Builder) {
    long_in_pm(b);
    b.all([Op::Move(A, 1), Op::Move(B, 1)]);
}

/// Reads find in PM what they want.
fn read_from_pm(_: &Before<'_>) -> Vec<Op> {
    vec![Op::Read(A, 3), Op::Read(B, 3)]
}

/// Reads come from the disk.
fn read_from_disk(_: &Before<'_>) -> Vec<Op> {
    vec![Op::Read(A, 30), Op::Read(B, 30)]
}

/// The logs of /a, /b, /dir0/a, / and /dir0 have pages. The live entries of /a's log are few.
fn logs_with_pages(b: &mut Builder) {
    fill_pages(b, 10);
    b.all(chmods(B, INLINE));
    b.all([Op::Write(B, 20_000, 5000, 5), Op::Write(B, 40_000, 5000, 6), Op::SetXattr(B, 2, 200)]);
    b.all(chmods(D0A, INLINE));
}

/// They have moved to a disk, or, that of /a, to its record; one more entry of that needs a page.
fn archived(b: &mut Builder) {
    logs_with_pages(b);
    b.apply(Op::Migrate { up: false });
    b.all([Op::Chmod(B, 0o600), Op::Chmod(D0A, 0o600), Op::Chmod(D0A, 0o644)]);
}

/// The first inode number whose record is in the second chunk of the table has about this name.
const SECOND_CHUNK: usize = 276;

/// More inodes than the first chunk of the inode table has records for; half of the second has
/// none.
fn many(b: &mut Builder) {
    b.all((30..420).map(|i| Op::Mknod((Some(1), i))));
}

/// Inodes go of which the records stand together in the middle of a chunk. Nothing is reclaimed
/// yet.
fn middle_gone(_: &Before<'_>) -> Vec<Op> {
    (300..360).map(|i| Op::Unlink((Some(1), i))).collect()
}

/// A few inodes have records in the second chunk.
fn some_more(b: &mut Builder) {
    b.all((30..330).map(|i| Op::Mknod((Some(1), i))));
}

/// They go.
fn end_gone(_: &Before<'_>) -> Vec<Op> {
    (SECOND_CHUNK - 4..330).map(|i| Op::Unlink((Some(1), i))).collect()
}

/// The inode table has a gap.
fn gap(b: &mut Builder) {
    many(b);
    b.all((290..400).map(|i| Op::Unlink((Some(1), i))));
}

/// The next inode needs a chunk, which goes into the gap.
fn before_growth(before: &Before<'_>) -> Vec<Op> {
    before.until_growth((0..GROWTH_OPS_MAX).map(|i| Op::Mknod((Some(0), 30 + i))))
}

/// PM has no room for a log page, and the logs of /a, /dir0 and / have none left in theirs.
fn no_room(b: &mut Builder) {
    // The one that is to be left to what frees.
    const RESERVE: u64 = terrace_policy::PM_RESERVE_BLOCKS;
    full(b);
    b.apply(Op::Create(BALLAST));
    let free = |b: &Builder| PM_BLOCKS as u64 - b.volume().status().devices[0].used_bytes / 4096;
    for n in 0.. {
        match free(b).saturating_sub(RESERVE) {
            0 => break,
            // A value in a block of its own, and what the log takes for it.
            2.. => b.apply(Op::SetXattr(BALLAST, n, 4096)),
            _ => b.apply(Op::Chmod(BALLAST, 0o600 + n as u32 % 8)),
        }
    }
}

/// Volumes whose inode table is about to give something back, or to grow where it has.
pub const TABLES: &[Prep] = &[
    Prep { name: "table-middle", config: &PM, build: many, live: middle_gone },
    Prep { name: "table-end", config: &PM, build: some_more, live: end_gone },
    Prep { name: "table-gap", config: &PM, build: gap, live: before_growth },
];

/// Volumes on which what frees something has no room for anything.
pub const FULL: &[Prep] =
    &[Prep { name: "no-room", config: &NEARLY_FULL, build: no_room, live: no_ops }];

/// Volumes on which background migration has something to do, of each kind.
pub const MIGRATIONS: &[Prep] = &[
    Prep { name: "write-migration", config: &WRITE_MIGRATION, build: long_in_pm, live: no_ops },
    Prep { name: "demotion", config: &DEMOTION, build: long_on_disk, live: no_ops },
    Prep { name: "read-migration", config: &READ_MIGRATION, build: long_in_pm, live: read_from_pm },
    Prep {
        name: "reverse-migration",
        config: &READ_MIGRATION,
        build: long_on_disk,
        live: read_from_disk,
    },
    Prep { name: "log-migration", config: &LOG_MIGRATION, build: logs_with_pages, live: patched },
];

/// All other volumes to start from. The first of a config is the plain one.
pub const PREPS: &[Prep] = &[
    Prep { name: "plain", config: &PM, build: nothing, live: no_ops },
    Prep { name: "inline-full", config: &PM, build: inline_full, live: no_ops },
    Prep { name: "page-full-but-one", config: &PM, build: full_but_one, live: no_ops },
    Prep { name: "page-full", config: &PM, build: full, live: no_ops },
    Prep { name: "compaction", config: &PM, build: nothing, live: compaction },
    Prep { name: "compaction-dir", config: &PM, build: nothing, live: compaction_of_directory },
    Prep { name: "dead-front", config: &PM, build: nothing, live: dead_front },
    Prep { name: "dropped-front", config: &PM, build: nothing, live: dropped_front },
    Prep { name: "patched", config: &PM, build: nothing, live: patched },
    Prep { name: "reserved", config: &PM, build: reserved, live: no_ops },
    Prep { name: "acls", config: &PM, build: with_acls, live: no_ops },
    Prep { name: "table-full", config: &PM, build: table_full, live: no_ops },
    Prep { name: "crowded", config: &SHARDS, build: crowded, live: no_ops },
    Prep { name: "checksums", config: &CHECKSUMS, build: nothing, live: no_ops },
    Prep { name: "checksums-compaction", config: &CHECKSUMS, build: nothing, live: compaction },
    Prep { name: "disks", config: &DISKS, build: nothing, live: no_ops },
    Prep { name: "tiers", config: &DISKS, build: tiers, live: no_ops },
    Prep { name: "tiers-compaction", config: &DISKS, build: tiers, live: compaction },
    Prep { name: "durable", config: &DURABLE, build: tiers, live: no_ops },
    Prep { name: "dirty", config: &DISKS, build: tiers, live: dirty },
    Prep { name: "truncated", config: &DISKS, build: tiers, live: truncated },
    Prep { name: "three-tiers", config: &THREE_TIERS, build: three_tiers, live: no_ops },
    Prep { name: "pinned", config: &PINNED, build: pinned, live: no_ops },
    Prep { name: "archived", config: &LOG_MIGRATION, build: archived, live: no_ops },
    Prep { name: "pm-nearly-full", config: &NEARLY_FULL, build: pm_nearly_full, live: no_ops },
];

impl Prep {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Prep> {
        PREPS.iter().chain(MIGRATIONS).chain(FULL).chain(TABLES).find(|prep| prep.name == name)
    }

    /// Its bytes, made when they are first asked for.
    pub fn prepared(&'static self) -> Arc<Prepared> {
        type Known = Mutex<HashMap<&'static str, Arc<OnceLock<Arc<Prepared>>>>>;
        static KNOWN: OnceLock<Known> = OnceLock::new();
        let cell = KNOWN
            .get_or_init(Known::default)
            .lock()
            .expect("no panic")
            .entry(self.name)
            .or_default()
            .clone();
        let make = || {
            let mut builder = Builder::new(self.config);
            (self.build)(&mut builder);
            let (image, model) = builder.finish();
            let live = (self.live)(&Before { config: self.config, image: &image });
            Arc::new(Prepared { image: Arc::new(image), model, live })
        };
        // A thread of its own knows of no planted bug.
        cell.get_or_init(|| {
            std::thread::scope(|scope| scope.spawn(make).join().expect("a volume to start from"))
        })
        .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_to_start_from_can_be_made() {
        for prep in PREPS.iter().chain(MIGRATIONS).chain(FULL).chain(TABLES) {
            let prepared = prep.prepared();
            assert_eq!(prepared.image.0.len(), 1 + prep.config.tiers.len(), "{}", prep.name);
        }
    }
}
