//! What every operation has in common, whether it goes through a system call or straight to the
//! engine.

use std::time::Duration;

use anyhow::Result;

use fastrand::Rng;

use crate::interrupt;
use crate::options::Options;

/// Random reads and writes are of one block, at a multiple of its size.
pub const BLOCK_BYTES: usize = 4096;
/// What an append appends: a small record.
pub const RECORD_BYTES: usize = 128;
/// Operations between two looks at the clock, where a workload has no other preference.
pub const BATCH_OPS: u64 = 64;
/// What fills files.
pub static FILLING: [u8; PIECE_BYTES] = [0x5a; PIECE_BYTES];

/// What files are filled and streamed with.
pub const PIECE_BYTES: usize = 1 << 20;
const APPENDED_BYTES_MAX: u64 = 64 << 20;
/// Budget of the page cache of a volume, unless a benchmark is about that.
pub const CACHE_BYTES: u64 = 32 << 20;

/// One side of a benchmark: an operation, ready to be repeated.
pub trait Workload {
    /// Operations to be done at a time.
    fn batch_ops(&self) -> u64 {
        BATCH_OPS
    }

    /// Makes `ops` operations possible; its time does not count.
    fn prepare(&mut self, _ops: u64) -> Result<()> {
        Ok(())
    }

    /// Does `ops` operations.
    fn run(&mut self, ops: u64) -> Result<()>;

    /// What the last run took, where the workload knows better than a clock around it.
    fn spent(&self) -> Option<Duration> {
        None
    }

    /// A remark for the row, if it has found anything else.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Operations that take a little more than a round, so that one run does, if the last so many took
/// that long.
pub fn to_fill(round: Duration, ops: u64, spent: Duration) -> u64 {
    (1.1 * round.as_secs_f64() * ops as f64 / spent.as_secs_f64().max(1e-6)) as u64
}

/// How large files are, and how much there is of what is many.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The file that is read and overwritten.
    pub file_bytes: u64,
    /// A file that is appended to is replaced by a new one before it grows beyond this.
    pub appended_bytes_max: u64,
    /// A file on disk that is read or written from one end to the other.
    pub stream_bytes: u64,
    /// A database that is filled.
    pub database_bytes: u64,
    /// Budget of a volume's page cache.
    pub cache_bytes: u64,
    /// What stands for "very many" files.
    pub many: u64,
    /// A round of one side.
    pub round: Duration,
}

impl Sizes {
    /// Of benchmarks in process.
    pub fn in_process(options: &Options) -> Self {
        Self {
            file_bytes: options.size,
            appended_bytes_max: APPENDED_BYTES_MAX.min(options.size),
            stream_bytes: whole_pieces(options.size / 2),
            database_bytes: options.size / 8,
            cache_bytes: CACHE_BYTES,
            many: options.many(),
            round: Duration::from_secs_f64(options.seconds),
        }
    }

    /// Of benchmarks on mounts: smaller, since the kernel caches these files once more.
    pub fn on_mounts(options: &Options) -> Self {
        let in_process = Self::in_process(options);
        let file_bytes = whole_pieces(options.size / 4);
        Self { file_bytes, appended_bytes_max: APPENDED_BYTES_MAX.min(file_bytes), ..in_process }
    }

    fn blocks(&self) -> u64 {
        self.file_bytes / BLOCK_BYTES as u64
    }
}

fn whole_pieces(bytes: u64) -> u64 {
    bytes / PIECE_BYTES as u64 * PIECE_BYTES as u64
}

/// Writes the file that is read and overwritten: first in long pieces, then each block again in
/// random order, so that every file system finds it as a long life would leave it.
pub fn write_aged(sizes: Sizes, mut write: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    for offset in (0..sizes.file_bytes).step_by(PIECE_BYTES) {
        interrupt::check()?;
        write(offset, &FILLING)?;
    }
    for batch in shuffled_offsets(sizes).chunks(BATCH_OPS as usize) {
        interrupt::check()?;
        batch.iter().try_for_each(|&offset| write(offset, &FILLING[..BLOCK_BYTES]))?;
    }
    Ok(())
}

/// The offsets of all blocks of the file, each once, in random order.
pub fn shuffled_offsets(sizes: Sizes) -> Vec<u64> {
    let mut offsets: Vec<u64> =
        (0..sizes.blocks()).map(|block| block * BLOCK_BYTES as u64).collect();
    let mut random = Random::new();
    for left in (1..offsets.len()).rev() {
        offsets.swap(left, random.below(left as u64 + 1) as usize);
    }
    offsets
}

/// Random offsets of blocks, without end and with repetition.
#[derive(Debug)]
pub struct RandomOffsets {
    random: Random,
    blocks: u64,
}

impl RandomOffsets {
    /// Offsets in the file that is read and overwritten.
    pub fn new(sizes: Sizes) -> Self {
        Self { random: Random::new(), blocks: sizes.blocks() }
    }

    /// The next one.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.random.below(self.blocks) * BLOCK_BYTES as u64
    }
}

/// The same numbers on both sides and in every run, at next to no cost.
#[derive(Debug)]
pub struct Random(Rng);

impl Random {
    /// The sequence from its start.
    pub fn new() -> Self {
        Self::nth(0)
    }

    /// Another sequence for each `number`, for threads that run side by side.
    pub fn nth(number: u64) -> Self {
        Self(Rng::with_seed(number))
    }

    /// A number below `limit`.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
}

/// Ranks of which the first are drawn most, by Zipf's law with the exponent 1.2: the whole part of
/// a number of Pareto's distribution.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    ranks: u64,
    /// All of Pareto's distribution that lies below `ranks`.
    whole: f64,
}

impl Zipf {
    /// Of so many ranks.
    pub fn of(ranks: u64) -> Self {
        Self { ranks, whole: Self::below(ranks) }
    }

    /// Of Pareto's distribution without an end: the part of the first so many ranks.
    fn below(ranks: u64) -> f64 {
        1.0 - ((ranks + 1) as f64).powf(-0.2)
    }

    /// The share of what is drawn that lies below a rank.
    pub fn share_below(self, ranks: u64) -> f64 {
        Self::below(ranks.min(self.ranks)) / self.whole
    }

    /// A rank, from 0.
    #[inline]
    pub fn draw(self, random: &mut Random) -> u64 {
        let unit = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let rest = 1.0 - unit * self.whole;
        (rest.powi(-5) as u64 - 1).min(self.ranks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        file_bytes: 4 << 20,
        appended_bytes_max: 4 << 20,
        stream_bytes: 4 << 20,
        database_bytes: 4 << 20,
        cache_bytes: CACHE_BYTES,
        many: 10,
        round: Duration::ZERO,
    };

    #[test]
    fn shuffling_keeps_every_block_once() {
        let mut offsets = shuffled_offsets(SIZES);
        assert!(!offsets.is_sorted());
        offsets.sort_unstable();
        let all: Vec<u64> = (0..1024).map(|block| block * 4096).collect();
        assert_eq!(offsets, all);
    }

    #[test]
    fn random_offsets_are_blocks_of_the_file_and_reach_most_of_it() {
        let mut offsets = RandomOffsets::new(SIZES);
        let drawn: std::collections::HashSet<u64> = (0..8192).map(|_| offsets.next()).collect();
        assert!(drawn.iter().all(|offset| offset % 4096 == 0 && *offset < SIZES.file_bytes));
        assert!(drawn.len() > 1000, "{}", drawn.len());
    }

    #[test]
    fn an_aged_file_has_every_byte_written_twice() {
        let mut written = vec![0_u8; SIZES.file_bytes as usize / BLOCK_BYTES];
        write_aged(SIZES, |offset, data| {
            for block in 0..data.len() / BLOCK_BYTES {
                written[offset as usize / BLOCK_BYTES + block] += 1;
            }
            Ok(())
        })
        .unwrap();
        assert!(written.iter().all(|&times| times == 2));
    }

    #[test]
    fn few_ranks_are_drawn_most_and_all_can_be() {
        let (zipf, mut random) = (Zipf::of(1000), Random::new());
        let mut drawn = vec![0_u32; 1000];
        for _ in 0..1_000_000 {
            drawn[zipf.draw(&mut random) as usize] += 1;
        }
        assert!(drawn.iter().all(|&times| times > 0));
        for ranks in [1, 10, 100, 1000] {
            let share = f64::from(drawn[..ranks].iter().sum::<u32>()) / 1e6;
            let expected = zipf.share_below(ranks as u64);
            assert!((share - expected).abs() < 0.002, "{ranks}: {share} of {expected}");
        }
        // Twice the rank, and 2 to the power of 1.2 as often.
        let ratio = |a: usize, b: usize| f64::from(drawn[a - 1]) / f64::from(drawn[b - 1]);
        assert!((1.9..2.7).contains(&ratio(20, 40)), "{}", ratio(20, 40));
    }
}
