//! The synchronicity predictor: will somebody call fsync on this file soon?
//!
//! Invariants: since the last fsync, `blocks` were written. `unjudged` of the writes since then
//! wait for their outcome; all of them were predicted to be as the file is now, since it changes
//! only when they are judged.
//!
//! The outcome of a write is that of the stretch between two fsyncs in which it lies: synchronous
//! if fewer blocks than the threshold were written in it. That is known at the fsync, or already
//! when the count reaches the threshold.

/// What a file's writes have been so far, and thus will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synchronicity {
    blocks: u32,
    unjudged: u32,
    asynchronous: bool,
}

/// Predictions, one for each write, whose outcome is now known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Judged {
    /// It was as predicted.
    pub right: u32,
    /// It was not.
    pub wrong: u32,
}

impl Synchronicity {
    /// The prediction for the next write. A new file is synchronous: PM is the faster guess.
    pub fn is_synchronous(&self) -> bool {
        !self.asynchronous
    }

    /// A write of `blocks` blocks was placed as predicted. When `threshold` blocks have been
    /// written since the last fsync, the file is asynchronous at once.
    pub fn wrote(&mut self, blocks: u64, threshold: u64) -> Judged {
        self.blocks = self.blocks.saturating_add(u32::try_from(blocks).unwrap_or(u32::MAX));
        self.unjudged = self.unjudged.saturating_add(1);
        if self.is_short(threshold) { Judged::default() } else { self.judge(false) }
    }

    /// The file was fsynced. It is synchronous now if fewer than `threshold` blocks were written
    /// since the last time (none at all, too), and counting restarts.
    pub fn synced(&mut self, threshold: u64) -> Judged {
        let judged = self.judge(self.is_short(threshold));
        self.blocks = 0;
        judged
    }

    /// A write that is durable when it returns (O_SYNC, O_DSYNC), however long: synchronous
    /// whatever the predictor says. It was no prediction, so it is not judged and not counted; what
    /// was written before is judged as by an fsync.
    pub fn wrote_synchronously(&mut self, threshold: u64) -> Judged {
        self.synced(threshold)
    }

    fn is_short(&self, threshold: u64) -> bool {
        u64::from(self.blocks) < threshold
    }

    /// The writes since the last fsync turn out to be synchronous or not, and the next are
    /// predicted to be the same.
    fn judge(&mut self, synchronous: bool) -> Judged {
        let writes = std::mem::take(&mut self.unjudged);
        let as_predicted = synchronous == self.is_synchronous();
        self.asynchronous = !synchronous;
        if as_predicted {
            Judged { right: writes, wrong: 0 }
        } else {
            Judged { right: 0, wrong: writes }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Judged = Judged { right: 0, wrong: 0 };

    fn right(right: u32) -> Judged {
        Judged { right, wrong: 0 }
    }

    fn wrong(wrong: u32) -> Judged {
        Judged { right: 0, wrong }
    }

    #[test]
    fn it_is_small() {
        assert!(size_of::<Synchronicity>() <= 16);
    }

    /// The slides' two programs, with a threshold of four blocks: three times write(2 blocks) and
    /// fsync, then three writes and one fsync.
    #[test]
    fn the_slides_example() {
        let mut file = Synchronicity::default();
        for _ in 0..3 {
            assert!(file.is_synchronous());
            assert_eq!(file.wrote(2, 4), NOTHING);
            assert_eq!(file.synced(4), right(1));
        }
        assert_eq!(file.wrote(2, 4), NOTHING);
        assert!(file.is_synchronous());
        assert_eq!(file.wrote(2, 4), wrong(2), "four blocks without fsync");
        assert!(!file.is_synchronous());
        assert_eq!(file.wrote(2, 4), right(1), "the outcome is known already");
        assert_eq!(file.synced(4), NOTHING);
        assert!(!file.is_synchronous(), "six blocks between two fsyncs");
    }

    #[test]
    fn a_file_becomes_synchronous_again_at_an_fsync_only() {
        let mut file = Synchronicity::default();
        assert_eq!(file.wrote(1024, 1024), wrong(1));
        assert_eq!(file.synced(1024), NOTHING);
        assert_eq!(file.wrote(1, 1024), NOTHING);
        assert_eq!(file.wrote(1, 1024), NOTHING);
        assert!(!file.is_synchronous());
        assert_eq!(file.synced(1024), wrong(2));
        assert!(file.is_synchronous());
    }

    #[test]
    fn the_threshold_is_the_first_asynchronous_count() {
        let mut file = Synchronicity::default();
        assert_eq!(file.wrote(1023, 1024), NOTHING);
        assert!(file.is_synchronous());
        assert_eq!(file.wrote(1, 1024), wrong(2));
        assert!(!file.is_synchronous());
    }

    #[test]
    fn an_asynchronous_file_that_stays_so_was_predicted_right() {
        let mut file = Synchronicity::default();
        assert_eq!(file.wrote(8, 8), wrong(1));
        assert_eq!(file.synced(8), NOTHING);
        assert_eq!(file.wrote(7, 8), NOTHING);
        assert_eq!(file.wrote(1, 8), right(2));
        assert_eq!(file.wrote(1, 8), right(1));
    }

    #[test]
    fn durable_writes_are_not_predictions_but_tell_that_the_file_is_synchronous() {
        let mut file = Synchronicity::default();
        assert_eq!(file.wrote(8, 8), wrong(1));
        assert_eq!(file.wrote_synchronously(8), NOTHING);
        assert!(!file.is_synchronous(), "eight blocks before it were not synced");
        assert_eq!(file.wrote_synchronously(8), NOTHING);
        assert!(file.is_synchronous());
        assert_eq!(file.wrote(3, 8), NOTHING);
        assert_eq!(file.wrote_synchronously(8), right(1));
    }

    #[test]
    fn a_threshold_that_changes_in_between_judges_by_its_new_value() {
        let mut file = Synchronicity::default();
        assert_eq!(file.wrote(8, 100), NOTHING);
        assert_eq!(file.synced(8), wrong(1));
        assert!(!file.is_synchronous());
    }

    #[test]
    fn counts_saturate() {
        let mut file = Synchronicity::default();
        assert_eq!(file.wrote(u64::MAX, 1 << 30), wrong(1));
        assert_eq!(file.wrote(u64::MAX, 1 << 30), right(1));
        assert_eq!(file.synced(1 << 30), NOTHING);
        assert!(!file.is_synchronous());
    }
}
