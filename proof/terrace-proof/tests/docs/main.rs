//! Every command of the docs, run as it is printed, on a machine of its own with devices of a
//! test's size; what it prints is looked at. A page's test has a step for each of its commands: a
//! command that is added, changed or removed needs its step.
//!
//! `TERRACE_DOCS_SHOW` prints what the commands print.

mod commands;
mod contributing;
mod direct;
mod inline;
mod library;
mod libterrace;
mod links;
mod metrics;
mod page;
mod readme;
mod stage;
mod whatif;
