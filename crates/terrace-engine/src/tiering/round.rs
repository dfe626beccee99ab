//! A round of migration: one attempt to move something, what came of it, and what keeps a shard's
//! rounds from moving anything.

use std::collections::BTreeMap;

use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::{Arc, Mutex};

use crate::inode::table::Inodes;

/// What came of a round.
#[derive(Debug)]
pub(crate) enum Round {
    /// Nothing is wanted.
    Idle,
    /// So many bytes were copied; there may be more to do.
    Moved(u64),
    /// There is nothing that would do what is wanted.
    Stuck(String),
    /// Something kept data from moving. `is_final`: it would keep all other data, too.
    Failed { why: String, is_final: bool },
}

/// The source and the destination of a round's data, in words.
#[derive(Debug)]
pub(crate) struct Direction {
    pub from: String,
    pub to: &'static str,
}

impl Round {
    /// Whether there may be more to do.
    ///
    /// # Errors
    /// What keeps data from moving.
    pub fn into_progress(self) -> FsResult<bool> {
        match self {
            Round::Idle => Ok(false),
            Round::Moved(_) => Ok(true),
            Round::Stuck(why) | Round::Failed { why, .. } => {
                Err(FsError::with_message(libc::EAGAIN, why))
            }
        }
    }

    /// Nothing has moved.
    pub fn is_in_vain(&self) -> bool {
        !matches!(self, Round::Moved(_))
    }

    /// This round, or the other if that did more.
    pub fn or(self, other: Round) -> Round {
        match (&self, &other) {
            (Round::Idle, _) | (_, Round::Moved(_)) | (Round::Stuck(_), Round::Failed { .. }) => {
                other
            }
            _ => self,
        }
    }

    /// Another file may be tried: nothing has moved, and nothing would keep all data from moving.
    pub fn may_try_another(&self) -> bool {
        !matches!(self, Round::Moved(_) | Round::Failed { is_final: true, .. })
    }

    /// The round so far, after one more attempt.
    pub fn after(self, attempt: FsResult<u64>, direction: &Direction) -> FsResult<Round> {
        match attempt {
            Ok(0) => Ok(match self {
                Round::Stuck(_) => {
                    Round::Stuck(format!("the data in {} is in use", direction.from))
                }
                round => round,
            }),
            Ok(bytes) => Ok(Round::Moved(bytes)),
            Err(error) if error.is_no_room() => {
                Ok(Round::Failed { why: format!("no room in {}", direction.to), is_final: true })
            }
            Err(error) => self.after_failure(error),
        }
    }

    /// The round so far, after one more attempt that failed, not for lack of room.
    pub fn after_failure(self, error: FsError) -> FsResult<Round> {
        match error {
            error if error.is_fatal() => Err(error),
            // It has gone meanwhile.
            error if error.errno() == libc::ESTALE => Ok(self),
            // A budget was used up by others meanwhile.
            error if error.errno() == libc::EDQUOT => Ok(Round::Stuck(error.to_string())),
            error => Ok(Round::Failed { why: error.to_string(), is_final: false }),
        }
    }
}

/// Runs rounds. See the module.
#[derive(Debug)]
pub(crate) struct Rounds {
    inodes: Arc<Inodes>,
    /// By shard.
    trouble: Mutex<BTreeMap<usize, Trouble>>,
}

/// Why a round was in vain.
#[derive(Debug)]
struct Trouble {
    why: String,
    /// A later round has moved something. The log need not say the same again.
    is_past: bool,
}

impl Rounds {
    pub fn new(inodes: Arc<Inodes>) -> Self {
        Self { inodes, trouble: Mutex::default() }
    }

    /// Runs a round in a shard, and remembers what came of it.
    pub fn run(&self, shard: usize, work: impl FnOnce() -> FsResult<Round>) -> Round {
        let round = self.inodes.mutate(work);
        let round =
            round.unwrap_or_else(|error| Round::Failed { why: error.to_string(), is_final: true });
        self.note(shard, &round);
        round
    }

    /// Remembers why rounds of a shard are in vain, as long as they are.
    fn note(&self, shard: usize, round: &Round) {
        let mut trouble = self.trouble.lock();
        match round {
            Round::Idle => drop(trouble.remove(&shard)),
            Round::Moved(_) => {
                trouble.get_mut(&shard).into_iter().for_each(|trouble| trouble.is_past = true);
            }
            Round::Stuck(why) | Round::Failed { why, .. } => {
                // The log says so once, however often it is so.
                if matches!(round, Round::Failed { .. })
                    && !trouble.values().any(|known| known.why == *why)
                {
                    tracing::warn!("migration waits: {why}");
                }
                trouble.insert(shard, Trouble { why: why.clone(), is_past: false });
            }
        }
    }

    /// Nothing is to move any more: what kept it from moving is forgotten.
    pub fn forget_trouble(&self) {
        self.trouble.lock().clear();
    }

    /// Why the last round of some shard was in vain.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().values().find(|trouble| !trouble.is_past).map(|t| t.why.clone())
    }
}
