//! Tools: what people ask of a volume, mounted or not.
//!
//! `check` (with repair) and `dump` and `save` read a volume that is not mounted; `scrub` verifies
//! one that is; `status`, `stats`, `ranking` and `why` say how it is.
//!
//! They use all floors below, each through a view of its own.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod ranking;
pub(crate) mod save;
pub(crate) mod scrub;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod why;
