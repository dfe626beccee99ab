//! The search finds planted bugs: each of [`BUGS`] makes it find a wrong state, and says which.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use terrace_crash::explore::{Explorer, Settings};
use terrace_crash::id::{StateId, Workload};
use terrace_engine::{Bug, plant};

/// A bug, and the workloads of which at least one must show it.
type Planted = (Bug, &'static [&'static str]);

/// Operations that rewrite a superblock, and are crashed while they do.
const REMOUNTS: &[&str] = &[
    "plain/remount",
    "inline-full/remount",
    "page-full/remount",
    "patched/remount",
    "reserved/remount",
    "acls/remount",
    "checksums/remount",
    "tiers/remount",
    "durable/remount",
    "plain/kill",
];

const BUGS: &[Planted] = &[
    (Bug::TailNotFlushed, &["plain/create"]),
    (Bug::TailNotFenced, &["plain/create"]),
    (Bug::WriteNotFenced, &["plain/overwrite-block"]),
    (Bug::WriteNotFenced, &["tiers/patch,patch-at-end,sync"]),
    (Bug::WriteNotFenced, &["pm-nearly-full/patch-at-end,sync"]),
    (Bug::DataNotFlushed, &["plain/overwrite-block"]),
    (Bug::DataNotFlushed, &["plain/append"]),
    (Bug::EdgesNotFlushed, &["plain/append"]),
    (Bug::EdgesNotFlushed, &["plain/truncate-down,truncate-up"]),
    (Bug::ReservedAsWritten, &["plain/allocate"]),
    (Bug::ReservedAsWritten, &["plain/zero"]),
    (Bug::FallocateWrongBlocks, &["tiers/allocate,sync"]),
    (Bug::JournalOfOtherShard, &["crowded/rename-whiteout-across"]),
    (Bug::SealIgnoresData, &["plain/overwrite-block"]),
    (Bug::TailStaysBehind, &["plain/chmod,utimes"]),
    (Bug::ChainOfOne, &["plain/chmod,utimes"]),
    (Bug::ChainEndNotFlushed, &["plain/append"]),
    (Bug::ChainEndNotFlushed, &["plain/create"]),
    (Bug::FinishedUnfenced, &["plain/append"]),
    (Bug::FinishedUnfenced, &["page-full/patch"]),
    (Bug::JournalStateTrusted, &["plain/rename-across"]),
    (Bug::RootsTrusted, &["table-full/create", "table-full/mkdir"]),
    (Bug::FreedRecordTrusted, &["disks/unlink,remount"]),
    (Bug::SealedWithoutTail, &["plain/truncate-up"]),
    (Bug::EntriesOneByOne, &["plain/rename"]),
    (Bug::LogsOneByOne, &["plain/rename-across"]),
    (Bug::NextNotFlushed, &["page-full/chmod"]),
    (Bug::PageNotInitialised, &["page-full/chmod"]),
    (Bug::CompactionInTwoSteps, &["compaction/chmod"]),
    (Bug::DroppedPageZeroed, &["dead-front/zero"]),
    (Bug::StruckApart, &["no-room/unlink-one-of-two"]),
    (Bug::StruckApart, &["no-room/rename-over"]),
    (Bug::JournalNotFenced, &["plain/rename-across"]),
    (Bug::JournalClearedEarly, &["plain/rename-across"]),
    (Bug::JournalWordsNotFlushed, &["plain/rename-across"]),
    (Bug::ReplayClearsFirst, &["plain/rename-across"]),
    (Bug::JournalStateFirst, &["plain/link,create-long,link-in"]),
    (Bug::PatchBeforeCommit, &["plain/patch"]),
    (Bug::PatchesNotRepeated, &["plain/patch"]),
    (Bug::LiveBlocksOverwritten, &["plain/overwrite-block"]),
    (Bug::GarbageBeyondEnd, &["plain/truncate-down,truncate-up"]),
    (Bug::OldSizeCommitted, &["plain/append"]),
    (Bug::TruncateKeepsBlocks, &["plain/truncate-all,truncate-far-up"]),
    (Bug::FreedBeforeName, &["plain/unlink"]),
    (Bug::LinksApart, &["plain/link"]),
    (Bug::RenameNotWrittenBack, &["dirty/rename-over-one-of-two"]),
    (Bug::RecordNotFlushed, &["plain/create"]),
    (Bug::UnnamedNotFreed, &["plain/unlink"]),
    (Bug::ChunkLinkedEarly, &["table-full/create,create-in"]),
    (Bug::ChunkLinkedEarly, &["table-gap/create"]),
    (Bug::TableCutInSteps, &["table-middle/sync"]),
    (Bug::ValueNotFlushed, &["plain/xattr-long"]),
    (Bug::DiskNotFlushed, &["dirty/fsync"]),
    (Bug::DiskNotFlushed, &["dirty/sync"]),
    (Bug::ChecksumsAfterFlush, &["disks/write-large,sync"]),
    (Bug::FsyncDoesNothing, &["dirty/fsync"]),
    (Bug::CheckpointStays, &["plain/overwrite-block"]),
    (Bug::SuperblockOrder, REMOUNTS),
    (Bug::SuperblockTogether, REMOUNTS),
    (Bug::FormatKeepsOld, &["plain/format"]),
    (Bug::ArchiveNotFlushed, &["log-migration/migrate"]),
    (Bug::ArchiveNotValidated, &["log-migration/migrate+append"]),
    (Bug::ArchiveLeavesSlots, &["log-migration/migrate"]),
    (Bug::MoveNotFlushed, &["plain/move-to-disk"]),
    (Bug::MoveFreesFirst, &["page-full/move-to-disk"]),
    (Bug::MoveNotValidated, &["plain/move-to-disk+patch"]),
    (Bug::MoveNotValidated, &["tiers/move-to-disk+write-durable,sync"]),
    (Bug::MoveCrcOfSource, &["checksums/move-to-disk"]),
];

/// Looks for `bug` as the search of all workloads does; what was found and after how many states.
/// The finding is a crash state, and is found again when it is replayed.
fn find(bug: Option<Bug>, workloads: &[&str]) -> Result<String, String> {
    plant(bug);
    let mut settings = Settings::QUICK;
    settings.rates.succession = 1;
    let mut explorer = Explorer::new(settings, 1);
    for workload in workloads {
        explorer.explore(&workload.parse::<Workload>().expect("a workload"));
        if explorer.is_done() {
            break;
        }
    }
    let states = explorer.counts.states;
    let result = match explorer.failures.first().cloned() {
        Some(failure) => match failure.id.parse::<StateId>().map(|id| explorer.replay(&id)) {
            Ok(Err(_)) => Ok(format!(
                "after {states} states: {}",
                failure.to_string().lines().collect::<Vec<_>>().join(" ")
            )),
            Ok(Ok(how)) => Err(format!("{failure}\n  is not found when it is replayed: {how}")),
            Err(_) => Err(format!("found without any crash: {failure}")),
        },
        None => Err(format!("not in {states} states of {workloads:?}")),
    };
    plant(None);
    result
}

/// Runs `work` for each of the bugs, on all cores; what went wrong.
fn for_each(work: impl Fn(&Planted) -> Option<String> + Sync) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(planted) = BUGS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wrong.lock().unwrap().extend(work(planted));
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn every_planted_bug_is_found() {
    let missed = for_each(|&(bug, workloads)| match find(Some(bug), workloads) {
        Ok(how) => {
            let short: String = how.chars().take(160).collect();
            writeln!(std::io::stderr(), "{bug:?}: {short}").expect("stderr");
            None
        }
        Err(why) => Some(format!("{bug:?}: {why}")),
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn without_a_bug_nothing_is_found_there() {
    let found = for_each(|(_, workloads)| {
        let mut explorer = Explorer::new(Settings::QUICK, 1);
        workloads
            .iter()
            .for_each(|workload| explorer.explore(&workload.parse().expect("a workload")));
        explorer.failures.first().map(ToString::to_string)
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}
