//! Bugs that can be planted, to prove that they are found: by the crash-state engine
//! (`docs/CRASH-STATES.md` lists them), by the model checker (`schedules`), or, those of
//! loans, by the engine's tests of them.
//!
//! Invariant: without the feature `planted` or the model checker, [`planted`] is `false` at compile
//! time and nothing of this is in the program. With them, a bug is planted for the thread that
//! asked for it; all threads of a model are one thread of the machine.

/// A bug. The comments say what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The tail of a log is stored, but its line is not flushed.
    TailNotFlushed,
    /// The tail is stored under the same fence as the entries before it.
    TailNotFenced,
    /// Data that is stored in PM is not flushed.
    DataNotFlushed,
    /// Of data that is stored past the cache, the lines at the edges, which go through it, are not
    /// flushed.
    #[cfg_attr(
        not(feature = "planted"),
        allow(dead_code, reason = "planted where PM is simulated, not here")
    )]
    EdgesNotFlushed,
    /// A move is committed before the copy is durable.
    MoveNotFlushed,
    /// What a move leaves is given back before the move is committed.
    MoveFreesFirst,
    /// A move is committed without a look at who has changed the blocks meanwhile.
    MoveNotValidated,
    /// The checksums of a copy are those of the entry that it leaves.
    MoveCrcOfSource,
    /// The log says of reserved blocks that they were written.
    ReservedAsWritten,
    /// The log says that reserved blocks are those after the ones that were asked for.
    FallocateWrongBlocks,
    /// An entry that commits itself is not fenced.
    WriteNotFenced,
    /// An entry that commits itself counts although its data are not there.
    SealIgnoresData,
    /// What settles an inode, or recovers it, leaves the tail behind entries that committed
    /// themselves.
    TailStaysBehind,
    /// After a crash only the first of the entries that committed themselves counts.
    ChainOfOne,
    /// The last entry and the tail of a log are not flushed when it is recovered, or taken from a
    /// stopped borrower.
    ChainEndNotFlushed,
    /// Recovery moves a tail that a stopped borrower has moved meanwhile.
    LateTailOverwritten,
    /// Recovery finishes what entries say under the same fence as the entries themselves.
    FinishedUnfenced,
    /// What does not vouch for all of its data commits itself.
    SealedWithoutTail,
    /// The pointer to a new log page is not flushed.
    NextNotFlushed,
    /// A log page is linked whose header was never written.
    PageNotInitialised,
    /// The entries of one change are committed one by one.
    EntriesOneByOne,
    /// A log is replaced by its archive before that is durable.
    ArchiveNotFlushed,
    /// A log is replaced by its archive whoever has changed it meanwhile.
    ArchiveNotValidated,
    /// What stood behind the tail of a log that an archive replaces stays there.
    ArchiveLeavesSlots,
    /// Compaction swaps head and tail one after the other.
    CompactionInTwoSteps,
    /// A dropped log page is zeroed before the head that skips it is durable.
    DroppedPageZeroed,
    /// Several logs are committed one after the other, without the journal.
    LogsOneByOne,
    /// What an inode table gives back is cut off in several commits.
    TableCutInSteps,
    /// Entries that change together where they stand are committed one by one.
    StruckApart,
    /// The journal's record commits before it is durable.
    JournalNotFenced,
    /// The journal is cleared before its words are durable.
    JournalClearedEarly,
    /// The journal's words are stored, but not flushed.
    JournalWordsNotFlushed,
    /// Recovery replays the journal of the first shard only.
    JournalOfOtherShard,
    /// A replay clears the record before the words are durable.
    ReplayClearsFirst,
    /// A replay believes a state that may not be durable.
    JournalStateTrusted,
    /// Recovery believes that superblock, checkpoint and inode tables are durable.
    RootsTrusted,
    /// Recovery believes that a record which is free is so durably.
    FreedRecordTrusted,
    /// The journal's record commits before it is written: the one before it comes back.
    JournalStateFirst,
    /// A small overwrite is stored in place and then committed.
    PatchBeforeCommit,
    /// Recovery does not store committed patches again.
    PatchesNotRepeated,
    /// New data overwrites the blocks that it replaces.
    LiveBlocksOverwritten,
    /// What extends a file zeroes the end of its last block, but does not flush the zeros.
    GarbageBeyondEnd,
    /// An append commits the old size.
    OldSizeCommitted,
    /// A truncation leaves the mapping of what it cuts off.
    TruncateKeepsBlocks,
    /// A file's record is freed before its name is gone.
    FreedBeforeName,
    /// A link count changes after the name, in a commit of its own.
    LinksApart,
    /// A rename over a file does not write back the new data first.
    RenameNotWrittenBack,
    /// A new inode record is not flushed.
    RecordNotFlushed,
    /// Recovery leaves records that no name leads to.
    UnnamedNotFreed,
    /// A chunk of the inode table is linked before it is durable.
    ChunkLinkedEarly,
    /// A long attribute value is not flushed.
    ValueNotFlushed,
    /// Data on a disk is committed without a flush of the disk.
    DiskNotFlushed,
    /// Checksum blocks are written after the flush.
    ChecksumsAfterFlush,
    /// fsync does nothing.
    FsyncDoesNothing,
    /// A checkpoint stays valid while the volume changes.
    CheckpointStays,
    /// The first copy of a superblock is written last even if it is torn.
    SuperblockOrder,
    /// Both copies of a superblock are written before a fence.
    SuperblockTogether,
    /// A disk is in the device table before it has its superblock.
    RowBeforeLabel,
    /// A disk that is removed loses its superblock while it is in the device table.
    EraseBeforeRow,
    /// Format leaves the superblock of the volume that was there until it has written the new one.
    FormatKeepsOld,
    /// The allocator lets go of a group between finding a run and taking it.
    AllocInTwoSteps,
    /// A promise of disk space rests on a count that has changed meanwhile.
    ReserveUnchecked,
    /// Writeback commits a page although there is a newer version of the block, or none any more.
    CommitOvertaken,
    /// A file that somebody else writes back just now counts as written back.
    BusyFileSkipped,
    /// Of a file that has grown, those pages count as all that are written together with others.
    JoinedCut,
    /// A file leaves the list of dirty files because of what it was before the list was locked.
    DirtyFlagRead,
    /// Lookups are counted back in two steps.
    ForgetInTwoSteps,
    /// An inode is taken as it was loaded, whoever has changed it meanwhile.
    LoadStale,
    /// Directories move while ancestors are compared.
    RenameUnlocked,
    /// The worker is woken, but not told.
    WakeWithoutFlag,
    /// A page is copied out of the cache after its file's map was let go.
    PageReadUnlocked,
    /// An append goes to where the file ended before its lock was taken.
    AppendAtOldSize,
    /// A lookup lets go of the directory before it holds the inode that the name leads to.
    LookupUnlocked,
    /// A move of a file that is removed meanwhile is committed.
    MoveOfRemoved,
    /// A call that has had an effect can end with EINTR.
    LostAfterEffect,
    /// The blocks of a broken loan are free at once.
    LoanReachFree,
    /// A log that is taken from a stopped borrower keeps the generation of its tail.
    LoanGenerationStays,
    /// A borrower does not name the block that it changes in place.
    LoanNamesNothing,
    /// A borrower does not ask whether its change counts that was under way when the loan was
    /// broken.
    LoanVerdictIgnored,
    /// A borrower that lets go is heard while its loan is being broken.
    LoanLetGoUnlocked,
    /// A borrower changes the file although it was refused.
    LoanStoresUnasked,
    /// A borrower does not look whether the loan lasts after it has read.
    LoanReadUnchecked,
}

#[cfg(any(feature = "planted", shuttle))]
mod registry {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug for this thread; `None`: none any more.
    pub fn plant(bug: Option<Bug>) {
        BUG.set(bug);
    }

    /// Whether this bug is planted.
    pub fn planted(bug: Bug) -> bool {
        BUG.get() == Some(bug)
    }

    /// Whether any is.
    pub fn is_planted() -> bool {
        BUG.get().is_some()
    }
}

#[cfg(any(feature = "planted", shuttle))]
pub use registry::{is_planted, plant, planted};

/// Whether any bug is planted: never.
#[cfg(not(any(feature = "planted", shuttle)))]
pub const fn is_planted() -> bool {
    false
}

/// Whether this bug is planted: never.
#[cfg(not(any(feature = "planted", shuttle)))]
pub const fn planted(_: Bug) -> bool {
    false
}
