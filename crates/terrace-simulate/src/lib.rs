//! What if the volume had more PM, less cache, another threshold? A trace is replayed through the
//! decisions of `terrace-policy`, against models of devices, and what comes of it is counted. Pure:
//! records in, numbers out; the same records give the same numbers on any machine.
//!
//! [`Simulation`] is the volume that might have been, as its [`Config`] says; [`Replay`] has the
//! operations of a trace come to it in their order; [`Outcome`] is what it did; [`advice`] compares
//! several. [`Calibration`] learns what the engine costs, and [`Check`] tells how well that fits.
//! `docs/WHATIF.md` says what is modelled and what is not.
//!
//! `file` knows where the blocks of a file are, `pages` what the page cache holds, `clock` who
//! waits for the disk how long, `cost` what the engine takes; `volume` holds them. `write` and
//! `read` are operations on it, `flush` takes dirty pages to disk, `migrate` moves data between
//! tiers. `hindsight` says afterwards what of it was right. `simulation` lets time pass and does
//! one operation after the other, which `replay` brings; `calibration` compares them with what was
//! recorded.

mod calibration;
mod clock;
mod config;
mod cost;
mod file;
mod flush;
mod hindsight;
mod migrate;
mod outcome;
mod pages;
mod prices;
mod read;
mod replay;
mod simulation;
mod volume;
mod write;

pub use calibration::{Calibration, Check, Fit};
pub use config::{Config, DRAM};
pub use cost::{Cost, Costs, Work};
pub use hindsight::Hindsight;
pub use outcome::{Advice, GOOD_ENOUGH_PERCENT, Outcome, advice};
pub use prices::{BadPrices, Prices};
pub use replay::{Done, Replay};
pub use simulation::Simulation;
