//! The crash-state engine: what may a power cut leave of a volume, and does every such state
//! recover?
//!
//! A workload runs on simulated devices. Before each fence of PM and each flush of a disk the power
//! may go: a [`point`]. Which stores and writes are kept is a state; each is recovered, checked,
//! and compared with the states that the reference [`model`] and its [`history`] allow. See
//! `docs/CRASH-STATES.md`.
//!
//! `op`, `model` and `apply` are also what the engine's own tests compare volumes with.

pub mod actions;
pub mod again;
pub mod apply;
pub mod catalog;
mod catch;
pub mod configs;
pub mod explore;
pub mod history;
pub mod id;
pub mod image;
pub mod model;
pub mod op;
mod paths;
pub mod point;
pub mod rig;
pub mod run;
pub mod search;
pub mod tree;
