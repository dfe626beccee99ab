//! The threads of a volume: for each shard one that writes back and reclaims, and one that moves
//! data; and the pulse.

use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::thread::{self, JoinHandle};

use crate::mount::parts::Parts;

/// All threads that the options ask for.
///
/// # Errors
/// `EAGAIN` if the system has no room for one.
pub(crate) fn spawn_workers(parts: &Parts) -> FsResult<Vec<JoinHandle<()>>> {
    if parts.options.read_only || !parts.options.workers {
        return Ok(Vec::new());
    }
    let mut workers = Vec::new();
    for shard in 0..parts.store.shards() {
        workers.push(spawn(&parts.pages, format!("terrace-work-{shard}"), move |pages| {
            pages.work(shard)
        })?);
    }
    spawn_migration(parts, &mut workers)?;
    workers.push(spawn(&parts.tiering.schedule, "terrace-pulse".into(), |schedule| {
        schedule.run_pulse()
    })?);
    Ok(workers)
}

/// The threads of migration, once it is switched on.
///
/// # Errors
/// As [`spawn_workers`].
pub(crate) fn spawn_migration(parts: &Parts, workers: &mut Vec<JoinHandle<()>>) -> FsResult<()> {
    if !parts.options.workers
        || !parts.tiering.conditions.migrates()
        || parts.tiering.schedule.started.swap(true, Ordering::AcqRel)
    {
        return Ok(());
    }
    for shard in 0..parts.store.shards() {
        workers.push(spawn(
            &parts.tiering.schedule,
            format!("terrace-move-{shard}"),
            move |schedule| {
                schedule.run(shard);
            },
        )?);
    }
    parts.tiering.schedule.set_floor();
    Ok(())
}

/// A thread that does `work` with a component.
fn spawn<C: Send + Sync + 'static>(
    component: &Arc<C>,
    name: String,
    work: impl FnOnce(&C) + Send + 'static,
) -> FsResult<JoinHandle<()>> {
    let component = component.clone();
    let spawned = thread::Builder::new().name(name).spawn(move || work(&component));
    spawned.map_err(|e| {
        FsError::with_message(libc::EAGAIN, format!("cannot start a worker thread: {e}"))
    })
}
