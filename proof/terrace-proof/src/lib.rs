//! Harness for the outer proof of Terrace FS: tests that see a mount only as a program sees it.
//!
//! Each test in `tests/` calls [`proof`] and mounts its own [`TestVolume`]. Environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `TERRACE_BIN` | the `terrace` binary (default: the one built beside the test program) |
//! | `TERRACE_TOOLS` | directory of pjdfstest and fsx (default: `target/tools/bin`) |
//! | `TERRACE_PROOF_TMP` | where disk images and reference trees live (default: `/var/tmp`) |
//! | `TERRACE_PROOF_DIR` | use this directory instead of mounts, to try the tests themselves |
//! | `TERRACE_PROOF_TRANSPORT` | the way of messages of mounts (default: that of `terrace mount`) |
//! | `TERRACE_PROOF_DIRECT` | if set, mounts lend files: to a test program under `terrace run` |
//! | `TERRACE_PROOF_KILLS` | kill daemons that have a keeper, every so many milliseconds |
//! | `TERRACE_PROOF_REQUIRE` | if set, a test that cannot run here fails instead of being skipped |

mod command;
mod direct;
mod environment;
mod killer;
mod process;
mod rng;
mod scratch;
mod skip;
mod transport;
mod tree;
mod volume;

pub use command::{run, run_with_input, tool, wait_or_kill};
pub use environment::environment;
pub use rng::Rng;
pub use scratch::Scratch;
pub use skip::{Skipped, proof, skip};
pub use transport::is_over_io_uring;
pub use tree::{Node, Tree, TreeScope, check_holes, checked, crc32c, pattern};
pub use volume::{MIB, TestVolume, VolumeSpec, Watch, terrace_binary, when_idle};
