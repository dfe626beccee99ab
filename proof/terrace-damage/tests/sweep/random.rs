//! Chance that is the same each time.

/// Repeatable numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        println!("seed {seed}");
        Random(seed)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 ^ self.0 >> 29) >> 8) as usize % limit
    }
}
