//! Relief: room in PM for metadata, made at once by the program that is about to need it. Nothing
//! else makes it in time where files come faster than they grow cold.

use std::time::{Duration, Instant};

use terrace_policy::{Leaving, Pressure};
use terrace_store::error::FsResult;
use terrace_store::sync::{Arc, Mutex};

use crate::base::patience;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::MakeRoom;
use crate::tiering::cold_logs::ColdLogs;
use crate::tiering::conditions::Conditions;
use crate::tiering::gate::Gate;
use crate::tiering::relocate::Relocator;
use crate::tiering::round::{Round, Rounds};
use crate::tiering::select::{LITTLE_BLOCKS, Selector};

/// Longest rest after relief that was in vain.
const RELIEF_RESTS_MAX: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Relief {
    pub store: Arc<Store>,
    pub inodes: Arc<Inodes>,
    pub conditions: Arc<Conditions>,
    pub gate: Arc<Gate>,
    pub relocator: Arc<Relocator>,
    pub selector: Arc<Selector>,
    pub cold_logs: Arc<ColdLogs>,
    pub rounds: Arc<Rounds>,
    pub turn: Mutex<Turn>,
}

/// Where relief goes on.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The shard whose files give way first.
    next_shard: usize,
    /// Relief was in vain, and is not tried again until then.
    rests_until: Option<Instant>,
}

impl MakeRoom for Relief {
    #[inline]
    fn relieve_pm_if_low(&self) {
        if self.store.pm_is_low() {
            // The next wait tells a program that waits no longer.
            let _ = self.relieve(false);
        }
    }

    fn relieve_pm(&self) {
        // As above.
        let _ = self.relieve(true);
    }
}

impl Relief {
    /// Makes room at once. Callers hold no lock; a second caller waits for the first. After relief
    /// in vain the next rests for a while, unless it is `urgent`. A volume that turns read-only
    /// here is noticed by the caller's own operation.
    ///
    /// # Errors
    /// `EINTR`: the program waits no longer.
    #[cold]
    pub fn relieve(&self, urgent: bool) -> FsResult<()> {
        let mut turn = patience::lock(&self.turn)?;
        let begun = Instant::now();
        let rests = !urgent && turn.rests_until.is_some_and(|until| begun < until);
        if !self.conditions.migrates() || rests {
            return Ok(());
        }
        let _under_way = self.gate.begin();
        // Removed files make room first.
        let _ = self.inodes.mutate(|| self.inodes.reclaim_if_any());
        let relieved = self.relieve_shards(turn.next_shard);
        self.relocator.buffers.release();
        let is_in_vain = relieved?;
        turn.next_shard = (turn.next_shard + 1) % self.store.shards();
        // Relief in vain takes no more than a tenth of the time; and a disk that works again does
        // not wait for long.
        let rest = (10 * begun.elapsed()).min(RELIEF_RESTS_MAX);
        turn.rests_until = (is_in_vain && self.store.pm_is_low()).then(|| Instant::now() + rest);
        Ok(())
    }

    /// Has the files of all shards give way until PM has room, those of this one first. Says
    /// whether that was in vain.
    fn relieve_shards(&self, first: usize) -> FsResult<bool> {
        let mut is_in_vain = true;
        for shard in (0..self.store.shards()).map(|n| (first + n) % self.store.shards()) {
            while self.store.pm_is_low() {
                patience::go_on()?;
                let round = || self.rounds.run(shard, || self.give_way(shard));
                if patience::endure(round).is_in_vain() {
                    break;
                }
                is_in_vain = false;
            }
        }
        Ok(is_in_vain)
    }

    /// Files of a shard give room away: logs first, which are many to one flush, then data.
    fn give_way(&self, shard: usize) -> FsResult<Round> {
        let logs = self.cold_logs.migrate(shard, Pressure::Highest)?;
        Ok(if logs.is_in_vain() {
            logs.or(self.selector.migrate_cold(shard, 0, Leaving::Relief, LITTLE_BLOCKS)?)
        } else {
            logs
        })
    }
}
