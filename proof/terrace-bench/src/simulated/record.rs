//! Recording a program on a mounted volume, from the volume's first day on.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use terrace_engine::{OpenOptions, Volume};
use terrace_fuse::{MountConfig, mount};
use terrace_media::DeviceModel;
use terrace_policy::Params;
use terrace_trace::{Ending, Writer};

use crate::bed::{Bed, DiskKind, Models};
use crate::stage::memory_directory;

/// Room that the disks of these volumes have. Their files are sparse.
const DISK_BYTES: u64 = 1 << 30;
/// How often what was recorded is fetched, as `terrace record` does.
const FETCH_EVERY: Duration = Duration::from_millis(100);
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// A program, told where to work.
pub type Program = fn(&Path, u64) -> Result<()>;

/// A volume to record.
#[derive(Clone, Debug)]
pub struct Bare {
    /// Size of its PM in bytes.
    pub pm_bytes: u64,
    /// PM takes file data up to this usage.
    pub pm_full_percent: u8,
    /// Budget of its page cache in bytes.
    pub cache_bytes: u64,
    /// Model of its disk.
    pub disk: DeviceModel,
    /// Thresholds of its policy.
    pub params: Params,
}

/// Runs a program on a new volume; returns the trace of all that it did. `less`: how much less than
/// usual it is to do.
///
/// The disk is a file in memory, so that nothing but its model makes it slow.
///
/// # Errors
/// If the system, the engine or the program refuses, or if operations were lost.
pub fn record(bare: Bare, program: Program, less: u64) -> Result<Vec<u8>> {
    let Bare { pm_bytes, pm_full_percent, cache_bytes, disk, params } = bare;
    let memory = memory_directory()?;
    let root = memory.path().join("mount");
    fs::create_dir(&root).with_context(|| format!("creating {}", root.display()))?;
    let open = OpenOptions { pm_full_percent, cache_bytes, params, ..OpenOptions::default() };
    let models = Models { disk: Some(disk), ..Models::default() };
    let kind = DiskKind::Sparse(DISK_BYTES);
    let mut bed = Bed::modelled(memory.path(), "simulated", pm_bytes, &kind, open, models)?;
    let mounted = mount(bed.volume().clone(), &root, &MountConfig::default())?;
    let recording = bed.volume().start_recording()?;
    let mut trace = Writer::new(Vec::new(), &recording.facts)?;
    let volume = bed.volume().clone();
    let ended = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let fetching = scope.spawn(|| -> Result<u64> {
            while !ended.load(Ordering::Acquire) {
                std::thread::sleep(FETCH_EVERY);
                fetch(&volume, recording.token, false, &mut trace)?;
            }
            fetch(&volume, recording.token, true, &mut trace)
        });
        let outcome = program(&root, less);
        ended.store(true, Ordering::Release);
        let lost = fetching.join().map_err(|_| anyhow!("a thread panicked"))??;
        outcome.map(|()| lost)
    });
    drop(volume);
    mounted.unmount()?;
    bed.close()?;
    let lost = outcome?;
    ensure!(lost == 0, "{lost} operations were not recorded");
    Ok(trace.finish(Ending::Asked, lost)?)
}

/// All that is recorded now; returns how many operations are lost.
fn fetch(volume: &Volume, token: u64, stop: bool, trace: &mut Writer<Vec<u8>>) -> Result<u64> {
    loop {
        let recorded = volume.take_recorded(token, stop, BLOCK_BYTES_MAX)?;
        if recorded.block.is_empty() {
            return Ok(recorded.lost);
        }
        trace.append_block(&recorded.block)?;
    }
}
