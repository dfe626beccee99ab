//! Programs that are written for Terrace: `terrace_direct::File` and `libterrace`, on real mounts.

mod deaths;
mod edges;
mod examples;
mod forks;
mod interface;
mod mixture;
mod program;
#[path = "../direct/worker.rs"]
#[allow(dead_code, reason = "tests of the direct path start other programs, and read reports")]
mod worker;
