//! Wear: how much the movers may write to a device in a day, and which of several disks takes what
//! they write.

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400 * 1_000_000_000;
/// Movers wait until they may write so much, or a quarter of a day's budget: less is not worth a
/// flush.
const LEAST_BYTES: u64 = 1 << 20;

/// What the movers may write to a device. It fills at a day's budget per day, holds a day's budget,
/// and is full at first. What they write beyond it has to fill up first: a day's budget at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    per_day: u64,
    /// Bytes; below 0: overdrawn.
    level: i64,
    /// The time for which that is the level.
    at_ns: i64,
    /// Bytes of it that moves under way may need.
    held: u64,
}

/// A budget and what was left of it at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Bytes per day.
    pub per_day: u64,
    /// Bytes; below 0: overdrawn.
    pub level: i64,
    /// When.
    pub at_ns: i64,
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Bucket {
    /// A full one, of so many bytes per day, at least one.
    pub fn full(per_day: u64, now_ns: i64) -> Self {
        let per_day = per_day.max(1);
        Self { per_day, level: signed(per_day), at_ns: now_ns, held: 0 }
    }

    /// One that goes on from what was left. If the budget is another one by now, what was used of
    /// the old one is used of the new one.
    pub fn resumed(per_day: u64, left: Left, now_ns: i64) -> Self {
        let mut bucket = Self::full(per_day, now_ns);
        let used = signed(left.per_day).saturating_sub(left.level).max(0);
        bucket.set(bucket.level.saturating_sub(used));
        // A clock that was set back gives nothing.
        bucket.at_ns = left.at_ns.min(now_ns);
        bucket
    }

    fn set(&mut self, level: i64) {
        let day = signed(self.per_day);
        self.level = level.clamp(-day, day);
    }

    /// Lets time pass.
    fn fill(&mut self, now_ns: i64) {
        let elapsed = now_ns.saturating_sub(self.at_ns);
        if !(0..DAY_NS * 2).contains(&elapsed) {
            // After two days it is full whatever it was; a clock that was set back gives nothing.
            self.level = if elapsed < 0 { self.level } else { signed(self.per_day) };
            self.at_ns = now_ns;
            return;
        }
        let gained = i128::from(elapsed) * i128::from(self.per_day) / i128::from(DAY_NS);
        let gained = gained as i64;
        self.set(self.level.saturating_add(gained));
        // The part of a byte that is under way is not lost.
        let spent_ns = i128::from(gained) * i128::from(DAY_NS) / i128::from(self.per_day);
        self.at_ns += spent_ns as i64;
    }

    /// Bytes per day.
    pub fn per_day(&self) -> u64 {
        self.per_day
    }

    /// What is left now.
    pub fn left(&mut self, now_ns: i64) -> Left {
        self.fill(now_ns);
        Left { per_day: self.per_day, level: self.level, at_ns: now_ns }
    }

    /// Bytes that nobody has spent, and no move under way may need.
    pub fn available(&mut self, now_ns: i64) -> u64 {
        self.fill(now_ns);
        self.level.saturating_sub(signed(self.held)).max(0) as u64
    }

    /// Bytes that movers want to find before they begin.
    pub fn least(&self) -> u64 {
        LEAST_BYTES.min(self.per_day / 4).max(1)
    }

    /// A move begins that may need so much.
    pub fn hold(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(bytes);
    }

    /// Such a move has ended, and has spent as much as it wrote.
    pub fn let_go(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// Movers have written so much; returns how much of it was beyond the budget.
    pub fn spend(&mut self, bytes: u64, now_ns: i64) -> u64 {
        self.fill(now_ns);
        let beyond = bytes.saturating_sub(self.level.max(0) as u64);
        self.set(self.level.saturating_sub(signed(bytes)));
        beyond
    }

    /// How long until movers may begin; 0: they may now.
    pub fn wait_ns(&mut self, now_ns: i64) -> u64 {
        self.fill(now_ns);
        let wanted = signed(self.least()).saturating_add(signed(self.held));
        let lacking = i128::from(wanted.saturating_sub(self.level).max(0));
        let wait = lacking * i128::from(DAY_NS) / i128::from(self.per_day);
        u64::try_from(wait).unwrap_or(u64::MAX)
    }
}

/// A disk that has room for what is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its index.
    pub device: u16,
    /// Its tier.
    pub tier: u8,
    /// Bytes that movers may write to it, and the least with which they begin; `None`: any number.
    pub budget: Option<(u64, u64)>,
}

/// What movers may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes that they may write.
    pub most: u64,
    /// Disks that they leave alone.
    pub avoided: Vec<u16>,
}

/// What movers may do that want to write so many bytes, to the fastest tier of those offered:
/// slower ones take what that has no room for, but nothing because of a budget. Disks that can take
/// all of it, if there are any; else the one that may take most. `None`: no disk of that tier may
/// take anything worth it.
pub fn allowance(offers: &[Offer], wanted: u64) -> Option<Allowance> {
    let first = offers.iter().map(|offer| offer.tier).min()?;
    let takes_all =
        |offer: &&Offer| offer.budget.is_none_or(|(left, least)| left >= wanted.max(least));
    let avoided = |keep: &dyn Fn(&&Offer) -> bool| {
        offers.iter().filter(|offer| !keep(offer)).map(|offer| offer.device).collect()
    };
    let mut of_first = offers.iter().filter(|offer| offer.tier == first);
    if of_first.clone().any(|offer| takes_all(&offer)) {
        return Some(Allowance { most: wanted, avoided: avoided(&takes_all) });
    }
    let left = |offer: &Offer| offer.budget.map_or(u64::MAX, |(left, _)| left);
    let begins = |offer: &&Offer| offer.budget.is_none_or(|(left, least)| left >= least);
    let best = of_first.by_ref().filter(begins).max_by_key(|offer| left(offer))?;
    Some(Allowance { most: left(best), avoided: avoided(&|offer| offer.device == best.device) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const HOUR_NS: i64 = DAY_NS / 24;

    #[test]
    fn it_begins_full_and_fills_at_a_days_budget_per_day() {
        let mut bucket = Bucket::full(24 * MIB, 0);
        assert_eq!(bucket.available(0), 24 * MIB);
        assert_eq!(bucket.spend(24 * MIB, 0), 0);
        assert_eq!((bucket.available(0), bucket.wait_ns(0)), (0, HOUR_NS as u64));
        assert_eq!(bucket.available(HOUR_NS), MIB);
        assert_eq!(bucket.wait_ns(HOUR_NS), 0);
        assert_eq!(bucket.available(100 * HOUR_NS), 24 * MIB, "no more than a day's budget");
    }

    #[test]
    fn an_overdraft_is_counted_and_paid_back_a_day_at_most() {
        let mut bucket = Bucket::full(24 * MIB, 0);
        assert_eq!(bucket.spend(30 * MIB, 0), 6 * MIB);
        assert_eq!(bucket.available(6 * HOUR_NS), 0);
        assert_eq!(bucket.available(7 * HOUR_NS), MIB);
        assert_eq!(bucket.spend(1000 * MIB, 7 * HOUR_NS), 999 * MIB);
        assert_eq!(bucket.available(32 * HOUR_NS), MIB);
    }

    #[test]
    fn looking_often_loses_nothing() {
        let mut bucket = Bucket::full(1000, 0);
        bucket.spend(1000, 0);
        let mut now = 0;
        while now < 2 * HOUR_NS {
            now += 1_000_000_007;
            bucket.available(now);
        }
        assert_eq!(bucket.available(now), (i128::from(now) * 1000 / i128::from(DAY_NS)) as u64);
    }

    #[test]
    fn a_move_under_way_holds_what_it_may_need() {
        let mut bucket = Bucket::full(10 * MIB, 0);
        bucket.hold(8 * MIB);
        assert_eq!(bucket.available(0), 2 * MIB);
        bucket.spend(3 * MIB, 0);
        bucket.let_go(8 * MIB);
        assert_eq!(bucket.available(0), 7 * MIB);
    }

    #[test]
    fn a_clock_that_is_set_back_gives_nothing_and_takes_nothing() {
        let mut bucket = Bucket::full(24 * MIB, 10 * HOUR_NS);
        bucket.spend(20 * MIB, 10 * HOUR_NS);
        assert_eq!(bucket.available(0), 4 * MIB);
        assert_eq!(bucket.available(HOUR_NS), 5 * MIB);
    }

    #[test]
    fn another_budget_goes_on_from_what_was_used() {
        let left = Left { per_day: 24 * MIB, level: 4 * MIB as i64, at_ns: 0 };
        let of = |per_day| Bucket::resumed(per_day, left, 0).available(0);
        assert_eq!([of(24 * MIB), of(48 * MIB), of(10 * MIB)], [4 * MIB, 28 * MIB, 0]);
        assert_eq!(Bucket::resumed(24 * MIB, left, HOUR_NS).available(HOUR_NS), 5 * MIB);
        let overdrawn = Left { level: -(24 * MIB as i64), ..left };
        assert_eq!(Bucket::resumed(24 * MIB, overdrawn, 0).available(25 * HOUR_NS), MIB);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = Bucket::full(u64::MAX, i64::MIN);
        assert!(bucket.available(i64::MAX) > 0);
        bucket.spend(u64::MAX, i64::MAX);
        bucket.spend(u64::MAX, i64::MIN);
        bucket.hold(u64::MAX);
        assert_eq!(bucket.available(i64::MAX), 0);
        bucket.wait_ns(0);
        let left = Left { per_day: u64::MAX, level: i64::MIN, at_ns: i64::MIN };
        let mut least = Bucket::resumed(0, left, i64::MAX);
        assert_eq!((least.per_day(), least.available(i64::MAX)), (1, 1));
    }

    fn offer(device: u16, tier: u8, left: Option<u64>) -> Offer {
        Offer { device, tier, budget: left.map(|left| (left, MIB)) }
    }

    #[test]
    fn disks_that_take_all_of_it_come_first_then_the_one_that_takes_most() {
        let share_of = |lefts: &[Option<u64>], wanted| {
            let offers: Vec<Offer> =
                (1..).zip(lefts).map(|(device, &left)| offer(device, 1, left)).collect();
            allowance(&offers, wanted).map(|found| (found.most, found.avoided))
        };
        assert_eq!(share_of(&[None, Some(9 * MIB)], 4 * MIB), Some((4 * MIB, vec![])));
        assert_eq!(share_of(&[None, Some(3 * MIB)], 4 * MIB), Some((4 * MIB, vec![2])));
        assert_eq!(share_of(&[Some(2 * MIB), Some(3 * MIB)], 4 * MIB), Some((3 * MIB, vec![1])));
        assert_eq!(share_of(&[Some(MIB - 1), Some(0)], 4 * MIB), None);
        assert_eq!(share_of(&[Some(MIB - 1)], 4096), None, "too little to begin with");
        assert_eq!(share_of(&[], 4096), None);
    }

    #[test]
    fn a_slower_tier_takes_nothing_because_of_a_budget() {
        let offers = [offer(1, 1, Some(0)), offer(2, 2, None)];
        assert_eq!(allowance(&offers, MIB), None);
        let offers = [offer(1, 1, Some(4 * MIB)), offer(2, 2, Some(0)), offer(3, 2, None)];
        assert_eq!(allowance(&offers, MIB), Some(Allowance { most: MIB, avoided: vec![2] }));
    }

    proptest! {
        #[test]
        fn over_any_time_no_more_is_spent_than_a_days_budget_and_what_has_filled(
            per_day in 1u64..1 << 40,
            moves in prop::collection::vec((0i64..2 * HOUR_NS, 1u64..1 << 36), 1..60),
        ) {
            let mut bucket = Bucket::full(per_day, 0);
            let (mut now, mut spent) = (0, 0u128);
            for (pause, wanted) in moves {
                now += pause;
                let budget = Some((bucket.available(now), bucket.least()));
                let Some(found) = allowance(&[Offer { device: 1, tier: 1, budget }], wanted) else {
                    continue;
                };
                prop_assert_eq!(bucket.spend(found.most, now), 0, "nothing is beyond the budget");
                spent += u128::from(found.most);
                let filled = u128::from(per_day) * now as u128 / DAY_NS as u128;
                prop_assert!(spent <= u128::from(per_day) + filled);
            }
        }
    }
}
