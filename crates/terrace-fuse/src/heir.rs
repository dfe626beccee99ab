//! Translates between the engine's words for a heritage and the transport's ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::{Effect, Heritage, Ino, Volume};
use terrace_policy::{Param, Params};
use terrace_transport::{Ledger, Past};

/// A heritage of the engine that lies in this ledger.
pub fn heritage(ledger: &'static Ledger) -> Arc<dyn Heritage> {
    Arc::new(Heir(ledger))
}

#[derive(Debug)]
struct Heir(&'static Ledger);

impl Heritage for Heir {
    /// An append that is cut into pieces begins with the first.
    fn is_about_to(&self, effect: Effect) {
        let is_append = |effect| matches!(effect, Effect::Appended(_));
        if is_append(effect) && self.0.noted_effect().and_then(in_words).is_some_and(is_append) {
            return;
        }
        let (kind, word) = in_numbers(effect);
        self.0.note_effect(kind, word);
    }

    fn lookups(&self, ino: Ino) -> u64 {
        self.0.lookups(ino.0)
    }

    fn look_up(&self, ino: Ino) {
        self.0.look_up(ino.0);
    }

    fn take_back(&self, ino: Ino, count: u64) -> u64 {
        match count {
            0 => self.0.lookups(ino.0),
            count => self.0.forget(ino.0, count),
        }
    }

    fn is_linkable(&self, ino: Ino) -> bool {
        self.0.is_linkable(ino.0)
    }

    fn set_linkable(&self, ino: Ino, linkable: bool) {
        self.0.set_linkable(ino.0, linkable);
    }
}

fn in_numbers(effect: Effect) -> (u32, u64) {
    match effect {
        Effect::Named(ino) => (1, ino.0),
        Effect::Unnamed => (2, 0),
        Effect::Appended(offset) => (3, offset),
        Effect::Attribute => (4, 0),
    }
}

fn in_words((kind, word): (u32, u64)) -> Option<Effect> {
    match kind {
        1 => Some(Effect::Named(Ino(word))),
        2 => Some(Effect::Unnamed),
        3 => Some(Effect::Appended(word)),
        4 => Some(Effect::Attribute),
        _ => None,
    }
}

/// The effect that a request was about to have when the daemon died.
pub(crate) fn effect_of(past: &Past) -> Option<Effect> {
    past.effect.and_then(in_words)
}

/// Keeps the thresholds for a successor.
pub(crate) fn keep_thresholds(ledger: &Ledger, volume: &Volume) {
    /// Those who keep them take turns.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let params = volume.params();
    let values: BTreeMap<&str, u64> =
        Param::ALL.iter().map(|&param| (param.tunable().name, params.get(param))).collect();
    match serde_json::to_string(&values) {
        Ok(text) => ledger.set_note(&text),
        Err(error) => tracing::warn!("thresholds are not kept for a successor: {error}"),
    }
}

/// The thresholds that the daemon before this one had, if any were changed.
pub fn kept_thresholds(ledger: &Ledger) -> Option<Params> {
    let values: BTreeMap<String, u64> = serde_json::from_str(&ledger.note()).ok()?;
    let mut params = Params::default();
    for (name, value) in values {
        params.set(Param::from_name(&name)?, value).ok()?;
    }
    Some(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_the_same_after_the_ledger() {
        let all = [Effect::Named(Ino(7)), Effect::Unnamed, Effect::Appended(9), Effect::Attribute];
        for effect in all {
            assert_ne!(in_numbers(effect).0, 0, "0 means that nothing was noted");
            assert_eq!(in_words(in_numbers(effect)), Some(effect));
        }
        assert_eq!(in_words((5, 0)), None);
    }
}
