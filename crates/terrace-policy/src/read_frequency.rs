//! The read frequency predictor: is this file read so much more than written that DRAM should serve
//! it?

use crate::{Param, Params};

/// Whether a file of `file_blocks` blocks is read-dominated: since it was last written, strictly
/// more blocks were read than [`Param::ReadFactor`] times its size. The caller counts, and restarts
/// with each write. An empty file never is.
pub fn is_read_dominated(blocks_read_in_a_row: u64, file_blocks: u64, params: &Params) -> bool {
    file_blocks > 0
        && blocks_read_in_a_row > file_blocks.saturating_mul(params.get(Param::ReadFactor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_twice_the_file_and_not_a_block_less() {
        let dominated = |read, size| is_read_dominated(read, size, &Params::default());
        assert!(!dominated(200, 100) && dominated(201, 100));
        assert!(!dominated(u64::MAX, 0));
        assert!(!dominated(u64::MAX, u64::MAX), "a size out of any range is no overflow");
    }

    #[test]
    fn the_factor_is_the_callers() {
        let mut params = Params::default();
        params.set(Param::ReadFactor, 5).unwrap();
        assert!(!is_read_dominated(50, 10, &params) && is_read_dominated(51, 10, &params));
    }
}
