//! The signals that end the wait of a request.
//!
//! Programs expect EINTR of calls that have always waited, and the manual pages of some more name
//! it. Of others, none does: a program that got EINTR from rename(2) or fsync(2) would take it for
//! a failure of the disk. Those end for the death of their program alone, after which nobody sees
//! the answer.

use terrace_engine::let_waits_end;
use terrace_transport::abi::SetattrValid;
use terrace_transport::{Operation, Patience, is_wait_over};

/// The calling thread serves this from now on.
pub(super) fn begin(operation: &Operation<'_>) {
    let_waits_end(match patience_with(operation) {
        Patience::UntilAsked => || is_wait_over(Patience::UntilAsked),
        Patience::UntilDeath => || is_wait_over(Patience::UntilDeath),
    });
}

fn patience_with(operation: &Operation<'_>) -> Patience {
    let truncates = |valid| SetattrValid::from_bits_retain(valid).contains(SetattrValid::SIZE);
    match operation {
        Operation::Write(..)
        | Operation::Fallocate(_)
        | Operation::CopyFileRange { .. }
        | Operation::Ioctl(..) => Patience::UntilAsked,
        Operation::Setattr(set) if truncates(set.valid) => Patience::UntilAsked,
        _ => Patience::UntilDeath,
    }
}

#[cfg(test)]
mod tests {
    use terrace_transport::abi::SetattrIn;

    use super::*;

    #[test]
    fn a_change_of_attributes_is_patient_unless_it_truncates() {
        let with = |valid: SetattrValid| SetattrIn { valid: valid.bits(), ..Default::default() };
        for (valid, patience) in
            [(SetattrValid::SIZE, Patience::UntilAsked), (SetattrValid::MODE, Patience::UntilDeath)]
        {
            assert_eq!(patience_with(&Operation::Setattr(&with(valid))), patience);
        }
        assert_eq!(patience_with(&Operation::Fsync { data_only: true }), Patience::UntilDeath);
    }
}
