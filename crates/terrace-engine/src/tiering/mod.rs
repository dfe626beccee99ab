//! tiering

pub(crate) mod cold_logs;
pub(crate) mod drain;
pub(crate) mod pins;
pub(crate) mod placement;
pub(crate) mod relocate;
pub(crate) mod room;
pub(crate) mod schedule;
pub(crate) mod select;
