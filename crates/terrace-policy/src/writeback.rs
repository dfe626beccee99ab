//! When dirty files are written back, and which of them together.

use std::time::Duration;

/// A cache is crowded when more than one page in so many is dirty.
const CROWDED_SHARE: u64 = 16;
/// Least dirty pages with which a file is written back because the cache is crowded: 1 MiB.
const LONG_FILE_PAGES: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// A file with dirty pages, as writeback sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyState {
    /// Time since its oldest dirty page was written.
    pub age: Duration,
    /// It replaces contents that were truncated away.
    pub urgent: bool,
    /// Its dirty pages.
    pub pages: u64,
}

/// Why a file is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Dirty data should be on disk by now.
    Time,
    /// The cache fills with dirty pages: a disk that begins early has less left to do when somebody
    /// waits for it.
    Room,
}

/// Whether a cache of `budget` pages, `dirty` of them dirty, is so crowded that long files are
/// written back.
pub fn is_crowded(dirty: u64, budget: u64) -> bool {
    dirty * CROWDED_SHARE > budget
}

/// Whether and why a file is written back now. `dirty` and `budget`: pages in the cache; above half
/// of it, everything goes.
pub fn writeback_due(
    file: DirtyState,
    age_limit: Duration,
    dirty: u64,
    budget: u64,
) -> Option<Due> {
    if file.urgent || file.age >= age_limit {
        return Some(Due::Time);
    }
    let crowded = is_crowded(dirty, budget) && file.pages >= LONG_FILE_PAGES;
    (crowded || dirty * 2 > budget).then_some(Due::Room)
}

/// Groups files, each given with its dirty pages: one flush writes back a group. Short files share
/// a group, in their order, as many as have no more than `most_bytes` together. A long file comes
/// alone: it is worth a flush, and those who wait for it wait for no other. Groups are in the order
/// of their first files.
pub fn flush_groups<T>(files: impl IntoIterator<Item = (T, u64)>, most_bytes: u64) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let (mut of_short, mut short_bytes) = (None, 0);
    for (file, pages) in files {
        let bytes = pages.saturating_mul(PAGE_BYTES);
        let is_short = pages < LONG_FILE_PAGES;
        if let Some(group) = of_short.filter(|_| is_short && short_bytes + bytes <= most_bytes) {
            let group: &mut Vec<T> = &mut groups[group];
            group.push(file);
            short_bytes += bytes;
            continue;
        }
        if is_short {
            (of_short, short_bytes) = (Some(groups.len()), bytes);
        }
        groups.push(vec![file]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writeback_comes_with_age_urgency_or_a_crowd() {
        let file = |age, urgent, pages| DirtyState { age: Duration::from_secs(age), urgent, pages };
        let due = |file, dirty| writeback_due(file, Duration::from_secs(5), dirty, 16_000);
        assert_eq!(due(file(4, false, 1), 1_000), None);
        assert_eq!(due(file(5, false, 1), 1_000), Some(Due::Time));
        assert_eq!(due(file(0, true, 1), 0), Some(Due::Time));
        assert_eq!(due(file(0, false, 1), 8_001), Some(Due::Room));
        assert_eq!(due(file(0, false, 256), 1_001), Some(Due::Room));
        assert_eq!(due(file(0, false, 255), 1_001), None);
    }

    #[test]
    fn short_files_share_a_flush_and_long_ones_have_their_own() {
        let of = |pages: &[u64], most_bytes| flush_groups((0..).zip(pages.to_vec()), most_bytes);
        let groups = |most_pages: u64| of(&[3, 256, 255, 1, 4, 1000, 2], most_pages * PAGE_BYTES);
        assert_eq!(groups(1 << 20), [vec![0, 2, 3, 4, 6], vec![1], vec![5]]);
        // 3 and 255 are just too many.
        assert_eq!(groups(257), [vec![0], vec![1], vec![2, 3], vec![4, 6], vec![5]]);
        assert_eq!(groups(258), [vec![0, 2], vec![1], vec![3, 4, 6], vec![5]]);
        assert_eq!(groups(0).len(), 7, "one at a time");
        assert!(of(&[], PAGE_BYTES).is_empty());
        // A file that has nothing dirty any more takes nobody's place.
        assert_eq!(of(&[0, 1, 0], PAGE_BYTES), [vec![0, 1, 2]]);
    }
}
