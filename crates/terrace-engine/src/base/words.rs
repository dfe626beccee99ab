//! Numbers, and advice, in messages.

use std::path::Path;

use terrace_store::damage::{Damage, advice};
use terrace_store::error::FsError;

/// The name of a device in `terrace device list`, which is made as that of a tier is.
pub(crate) fn device_name(index: u16) -> String {
    u8::try_from(index).map_or_else(|_| format!("disk{index}"), tier_name)
}

/// A number of things: `1 file`, `2 files`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// An error as a person reads it: with what to do, if metadata of the volume whose PM is at `pm`
/// are damaged.
pub fn with_advice(error: &FsError, pm: &Path) -> String {
    match error.damage().is_some_and(Damage::concerns_metadata) {
        true => format!("{error}: {}", advice(pm)),
        false => error.to_string(),
    }
}

/// The name of a tier: `pm`, then `disk1`, `disk2`, …
pub(crate) fn tier_name(tier: u8) -> String {
    if tier == 0 { "pm".into() } else { format!("disk{tier}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "entry", "entries")),
            ["0 entries", "1 entry", "2 entries"]
        );
    }
}
