//! What becomes of damaged media.
//!
//! * [`specimen`] makes volumes to damage, and knows what a program must see of them.
//! * [`places`] says what lies where on their devices; [`seal`] makes checksums right again after a
//!   change, so that what stands behind them is reached.
//! * [`Bench`] puts an image with some damage on devices, uses it, and judges what came of it.
//! * [`targets`] are the functions that the fuzzers call, one per decoder and one for a whole
//!   volume.
//!
//! `docs/DAMAGE.md` says what each damaged structure leads to, and how to run all this. For
//! development only.

mod bench;
mod image;
pub mod places;
pub mod seal;
pub mod specimen;
pub mod targets;
mod tree;

pub use bench::{Bench, Change, Opened, Outcome, count_panics};
pub use image::{Devices, Image};
pub use tree::{Failure, Tree, read_tree};
