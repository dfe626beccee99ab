//! Group migration: small cold pieces that lie side by side in a file go to disk as one run.

/// A cold extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First file block.
    pub block: u64,
    /// Blocks.
    pub blocks: u64,
}

/// File blocks that move to one run of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// First file block.
    pub block: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Joins pieces, given in file order, into groups of at most `group_blocks` blocks (at least one):
/// each group takes the pieces that follow on it until it is full, and the next begins where it
/// ends, be it within a piece. No group reaches across a gap.
pub fn groups(pieces: impl Iterator<Item = Piece>, group_blocks: u64) -> Vec<Group> {
    let most = group_blocks.max(1);
    let mut groups: Vec<Group> = Vec::new();
    for Piece { mut block, mut blocks } in pieces {
        if let Some(open) =
            groups.last_mut().filter(|open| open.block.checked_add(open.blocks) == Some(block))
        {
            let joining = blocks.min(most - open.blocks);
            open.blocks += joining;
            (block, blocks) = (block.saturating_add(joining), blocks - joining);
        }
        while blocks > 0 {
            let group = Group { block, blocks: blocks.min(most) };
            groups.push(group);
            (block, blocks) = (block.saturating_add(group.blocks), blocks - group.blocks);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(pieces: &[(u64, u64)], group_blocks: u64) -> Vec<(u64, u64)> {
        let pieces = pieces.iter().map(|&(block, blocks)| Piece { block, blocks });
        groups(pieces, group_blocks).iter().map(|g| (g.block, g.blocks)).collect()
    }

    /// The slides' file: entries of pages 1 to 4, the second and fourth rewritten, become one
    /// entry.
    #[test]
    fn the_slides_example() {
        assert_eq!(of(&[(0, 1), (1, 1), (2, 1), (3, 1)], 4096), [(0, 4)]);
    }

    #[test]
    fn gaps_part_groups_and_long_pieces_are_cut() {
        assert_eq!(of(&[(0, 4), (5, 4)], 16), [(0, 4), (5, 4)]);
        assert_eq!(of(&[(0, 40)], 16), [(0, 16), (16, 16), (32, 8)]);
        assert_eq!(of(&[(0, 12), (12, 12), (24, 1)], 16), [(0, 16), (16, 9)]);
        assert_eq!(of(&[(3, 0), (7, 1), (8, 0)], 16), [(7, 1)]);
        assert_eq!(of(&[], 16), []);
        assert_eq!(of(&[(5, 2)], 0), [(5, 1), (6, 1)]);
        assert_eq!(of(&[(u64::MAX - 1, 1), (u64::MAX, 1)], 16), [(u64::MAX - 1, 2)]);
    }

    proptest! {
        /// Groups hold exactly the pieces' blocks, in order, none is too long, and only a gap or a
        /// full group ends one.
        #[test]
        fn groups_cover_exactly_the_pieces(
            gaps in prop::collection::vec((0u64..3, 1u64..40), 0..30),
            most in 1u64..50,
        ) {
            let mut end = 0;
            let pieces: Vec<(u64, u64)> = gaps
                .into_iter()
                .map(|(gap, blocks)| {
                    let block = end + gap;
                    end = block + blocks;
                    (block, blocks)
                })
                .collect();
            let blocks_of = |runs: &[(u64, u64)]| -> Vec<u64> {
                runs.iter().flat_map(|&(b, n)| b..b + n).collect()
            };
            let groups = of(&pieces, most);
            prop_assert_eq!(blocks_of(&groups), blocks_of(&pieces));
            prop_assert!(groups.iter().all(|&(_, blocks)| (1..=most).contains(&blocks)));
            prop_assert!(groups.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0 || w[0].1 == most));
        }
    }
}
