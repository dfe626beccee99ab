//! The word that pins a file or directory to a tier.

use terrace_layout::DEVICES_MAX;
use terrace_store::sync::atomic::{AtomicU64, Ordering};

/// The extended attribute that pins a file or directory to a tier. Its value is what [`pin_value`]
/// gives.
pub const PIN_XATTR: &str = "user.terrace.pin";

/// What [`PIN_XATTR`] says of a tier: `pm` for tier 0, else the tier's number.
pub fn pin_value(tier: u8) -> String {
    if tier == 0 { "pm".into() } else { tier.to_string() }
}

/// The tier that a value of [`PIN_XATTR`] means; `None` if it means none that any volume could
/// have.
pub fn parse_pin(value: &[u8]) -> Option<u8> {
    (0..DEVICES_MAX as u8).find(|&tier| pin_value(tier).as_bytes() == value)
}

/// The pin of an inode in DRAM.
#[derive(Debug)]
pub(crate) struct Pin(AtomicU64);

/// No tier has this number.
const UNPINNED: u64 = u64::MAX;

impl Pin {
    pub fn new(tier: Option<u8>) -> Pin {
        Pin(AtomicU64::new(tier.map_or(UNPINNED, u64::from)))
    }

    #[inline]
    pub fn get(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::Relaxed)).ok()
    }

    pub fn set(&self, tier: Option<u8>) {
        self.0.store(tier.map_or(UNPINNED, u64::from), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_one_tier_each() {
        assert_eq!((pin_value(0), pin_value(3)), ("pm".into(), "3".into()));
        for tier in 0..DEVICES_MAX as u8 {
            assert_eq!(parse_pin(pin_value(tier).as_bytes()), Some(tier));
        }
        for wrong in ["", "0", "PM", "pm ", "+1", "01", "1\n", "disk1", "255", "99999999999"] {
            assert_eq!(parse_pin(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
