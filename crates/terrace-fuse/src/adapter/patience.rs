//! Which signals end the wait of a request.
//!
//! Programs expect EINTR of calls that have always waited, and the manual pages of some more name
//! it. Of others, none does: a program that got EINTR from rename(2) or fsync(2) would take it for
//! a failure of the disk. Those end for the death of their program alone, after which nobody sees
//! the answer.

use terrace_engine::let_waits_end;
use terrace_transport::{Operation, Patience, is_wait_over};

/// The calling thread serves this from now on.
pub(super) fn begin(operation: &Operation<'_>) {
    let_waits_end(match operation {
        Operation::Write(..)
        | Operation::Fallocate(_)
        | Operation::CopyFileRange { .. }
        | Operation::Setattr(_)
        | Operation::Ioctl(..) => || is_wait_over(Patience::UntilAsked),
        _ => || is_wait_over(Patience::UntilDeath),
    });
}
