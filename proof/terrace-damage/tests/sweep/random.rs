//! Chance that is the same each time.

/// Repeatable numbers.
pub struct Random(fastrand::Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        println!("seed {seed}");
        Random(fastrand::Rng::with_seed(seed))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }
}
