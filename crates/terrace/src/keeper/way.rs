//! A daemon's way to its keeper, on which it asks to be replaced.
//!
//! The request for an upgrade stays without an answer while daemons change. So the kernel hands it
//! out again to the daemon that comes, which knows its number ([`Upgrade::token`]) and what became
//! of it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use terrace_fuse::control::{DaemonStatus, Upgrade, Upgraded, Upgrader};

use super::line::{Line, Told, Word};
use super::takeover::open_program;

/// Why most mounts without a keeper have none.
const NO_KEEPER: &str = "has no keeper, without which a daemon cannot be replaced: a mount has one \
                         with Linux 6.9 or later, and without -o nokeeper and -o clone_fd; unmount \
                         it, and mount the volume with the new program";
const UNDER_WAY: &str = "another upgrade is under way; try again when it is over";
/// How long the keeper may take to become the new program, too.
const KEEPER_MAX: Duration = Duration::from_secs(10);

/// An upgrade that led to this daemon.
#[derive(Debug)]
pub struct Past {
    /// Its number.
    pub token: u64,
    /// Its result; `None`: the keeper has not said the last word.
    pub outcome: Option<Result<Upgraded, String>>,
}

/// See the module.
#[derive(Debug)]
pub struct Way {
    line: Mutex<Line>,
    /// A successor can take the mount up.
    is_kept: AtomicBool,
    past: Mutex<Option<Past>>,
    settled: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Way {
    /// Of the first daemon.
    pub fn of_first(line: Line) -> Arc<Way> {
        let (is_kept, past) = (AtomicBool::new(false), Mutex::new(None));
        Arc::new(Way { line: Mutex::new(line), is_kept, past, settled: Condvar::new() })
    }

    /// Of a daemon that takes a mount up, after an upgrade or after a death.
    pub fn of_successor(line: Line, past: Option<Past>) -> Arc<Way> {
        let (is_kept, past) = (AtomicBool::new(true), Mutex::new(past));
        Arc::new(Way { line: Mutex::new(line), is_kept, past, settled: Condvar::new() })
    }

    /// The line, for who waits for no answer.
    pub fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.line)
    }

    /// From now on a successor can take the mount up.
    pub fn is_kept_from_now_on(&self) {
        self.is_kept.store(true, Ordering::Release);
    }

    /// The mount is served: if an upgrade led to that, the keeper becomes the new program, too.
    pub fn settle(&self) {
        if lock(&self.past).as_ref().is_none_or(|past| past.outcome.is_some()) {
            return;
        }
        let remark = {
            let line = self.line();
            // A keeper that is gone is found below.
            let _ = line.tell(Word::Serves, "", None);
            match line.hear_within(KEEPER_MAX) {
                Ok(Some(told)) if told.word == Word::Kept && told.text.is_empty() => None,
                Ok(Some(told)) => Some(told.text),
                Ok(None) => Some("the keeper of the mount has ended; it has none any more".into()),
                Err(error) => Some(format!("the keeper of the mount says nothing: {error}")),
            }
        };
        if let Some(remark) = &remark {
            tracing::warn!("{remark}");
        }
        let upgraded = Upgraded { daemon: DaemonStatus::here(), remark };
        if let Some(past) = &mut *lock(&self.past) {
            past.outcome = Some(Ok(upgraded));
        }
        self.settled.notify_all();
    }

    /// Asks to be replaced. Does not return if that succeeds.
    fn upgrade(&self, wanted: &Upgrade) -> Result<Upgraded, String> {
        if let Some(outcome) = self.outcome_of(wanted.token) {
            return outcome;
        }
        if !self.is_kept.load(Ordering::Acquire) {
            return Err(NO_KEEPER.to_owned());
        }
        let program = open_program(&wanted.program, wanted.device, wanted.inode)?;
        tracing::info!(program = %wanted.program.display(), "an upgrade is asked for");
        let line = match self.line.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(line)) => line.into_inner(),
            // That keeps a thread. Another one would keep the mount from answering anybody.
            Err(TryLockError::WouldBlock) => return Err(UNDER_WAY.to_owned()),
        };
        let mut told = line.tell(Word::Upgrade, &wanted.token.to_string(), Some(program.as_fd()));
        while told.is_ok() {
            match line.hear() {
                Ok(Some(Told { word: Word::Refused, text, .. })) => {
                    tracing::warn!("no upgrade: {text}");
                    return Err(text);
                }
                // The last word of an upgrade before, which came late.
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => told = Err(error),
            }
        }
        Err("its keeper has ended, without which the daemon cannot be replaced: unmount it, and \
             mount the volume with the new program"
            .to_owned())
    }

    /// The result of the upgrade with this number, if it led to this daemon. Waits until it is
    /// over, as no other one may begin before.
    fn outcome_of(&self, token: u64) -> Option<Result<Upgraded, String>> {
        let is_under_way =
            |past: &mut Option<Past>| past.as_ref().is_some_and(|past| past.outcome.is_none());
        let past = self.settled.wait_while(lock(&self.past), is_under_way);
        let past = past.unwrap_or_else(PoisonError::into_inner);
        past.as_ref().filter(|past| past.token == token).and_then(|past| past.outcome.clone())
    }
}

/// The function that commands of the mount call; `None`: there is no keeper.
pub fn upgrader(way: Option<Arc<Way>>) -> Arc<Upgrader> {
    match way {
        Some(way) => Arc::new(move |wanted: &Upgrade| way.upgrade(wanted)),
        None => Arc::new(|_: &Upgrade| Err(NO_KEEPER.to_owned())),
    }
}
