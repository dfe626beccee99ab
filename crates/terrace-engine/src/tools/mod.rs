//! tools

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod ranking;
pub(crate) mod save;
pub(crate) mod scrub;
pub(crate) mod stats;
pub(crate) mod status;
