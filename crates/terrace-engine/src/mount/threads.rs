//! The threads of a volume: for each shard one that writes back and reclaims, and one that moves
//! data; and the pulse of migration.

use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::thread::{self, JoinHandle};

use crate::inode::core::Core;

/// All threads that the options ask for.
///
/// # Errors
/// `EAGAIN` if the system has no room for one.
pub(crate) fn spawn_workers(core: &Arc<Core>) -> FsResult<Vec<JoinHandle<()>>> {
    if core.options.read_only || !core.options.workers {
        return Ok(Vec::new());
    }
    let mut workers = Vec::new();
    for shard in 0..core.shards.len() {
        workers.push(spawn(core, format!("terrace-work-{shard}"), move |core| core.work(shard))?);
    }
    spawn_movers(core, &mut workers)?;
    Ok(workers)
}

/// The threads of migration, once it is switched on.
///
/// # Errors
/// As [`spawn_workers`].
pub(crate) fn spawn_movers(core: &Arc<Core>, workers: &mut Vec<JoinHandle<()>>) -> FsResult<()> {
    if !core.options.workers
        || !core.migrates()
        || core.migration.started.swap(true, Ordering::AcqRel)
    {
        return Ok(());
    }
    for shard in 0..core.shards.len() {
        workers
            .push(spawn(core, format!("terrace-move-{shard}"), move |core| core.move_data(shard))?);
    }
    workers.push(spawn(core, "terrace-pulse".into(), |core| core.beat())?);
    core.set_floor();
    Ok(())
}

fn spawn(
    core: &Arc<Core>,
    name: String,
    work: impl FnOnce(&Core) + Send + 'static,
) -> FsResult<JoinHandle<()>> {
    let core = core.clone();
    let spawned = thread::Builder::new().name(name).spawn(move || work(&core));
    spawned.map_err(|e| {
        FsError::with_message(libc::EAGAIN, format!("cannot start a worker thread: {e}"))
    })
}
