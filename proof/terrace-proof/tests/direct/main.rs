//! The direct path beside the mount: programs that `terrace run` has started, and others, on the
//! same files.

mod deaths;
mod edges;
mod mixture;
mod passed;
mod rings;
mod scarce;
mod status;
mod together;
mod two_mounts;
mod wild;
mod worker;
