//! Runs of blocks on their way into a log entry.

use terrace_layout::BlockAddr;

use crate::Time;

/// A run of blocks that holds file data, durable, to be committed.
#[derive(Debug, Clone)]
pub struct DataRun {
    /// First block in the file.
    pub file_block: u64,
    /// First block on the device.
    pub addr: BlockAddr,
    /// Blocks of the run.
    pub blocks: u64,
    /// CRC32C of each block; none in PM without data checksums.
    pub crcs: Vec<u32>,
    /// Where the CRC blocks are, if the run is too long to keep its checksums in the log.
    pub crc_run: Option<(BlockAddr, u64)>,
    /// Checksums there before this run's.
    pub crc_skip: u32,
    /// Allocated only: there is no data.
    pub unwritten: bool,
    /// When the youngest block was written.
    pub mtime: Time,
    /// What the write-size predictor remembers, as entries hold it.
    pub history: u16,
}

impl DataRun {
    /// A run without blocks so far.
    pub fn new(file_block: u64, addr: BlockAddr) -> Self {
        Self {
            file_block,
            addr,
            blocks: 0,
            crcs: Vec::new(),
            crc_run: None,
            crc_skip: 0,
            unwritten: false,
            mtime: Time::default(),
            history: 0,
        }
    }
}

/// A run whose entry is in the log's batch, not yet committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct StagedRun {
    pub file_block: u64,
    pub addr: BlockAddr,
    pub blocks: u64,
    /// The run was reserved (unwritten) at this very place.
    pub in_place: bool,
    pub unwritten: bool,
    /// The data were relocated: they stay what they were.
    pub relocated: bool,
    /// What the write-size predictor remembers, as entries hold it.
    pub history: u16,
    pub crc_run: Option<(BlockAddr, u64)>,
    pub crc_skip: u32,
    pub entry_index: usize,
}

impl StagedRun {
    /// New blocks with data, without checksum blocks.
    pub fn new(file_block: u64, addr: BlockAddr, blocks: u64) -> Self {
        Self {
            file_block,
            addr,
            blocks,
            in_place: false,
            unwritten: false,
            relocated: false,
            history: 0,
            crc_run: None,
            crc_skip: 0,
            entry_index: 0,
        }
    }
}
