//! pageio

pub(crate) mod fetch;
pub(crate) mod runs;
pub(crate) mod writeback;
