//! Routes: from which tiers to which others data goes to get nearer to one tier.

use terrace_store::space::{Space, Tiers};

/// How data gets nearer to a tier: from each of some tiers to one of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub from: Tiers,
    pub to: Tiers,
}

/// Routes to a tier. Data above it goes there, or to the next tier below that has room. Data below
/// it comes nearer or stays: another place on the same tier would not be worth a copy.
pub(crate) fn routes_to(space: &Space, tier: u8) -> Vec<Route> {
    let Some(above) = tier.checked_sub(1) else {
        return vec![Route { from: Tiers::from(1), to: Tiers { first: 0, last: 0 } }];
    };
    let below = space.tiers().filter(|&t| t > tier);
    let up = below.map(|t| Route {
        from: Tiers { first: t, last: t },
        to: Tiers { first: tier, last: t - 1 },
    });
    let down = Route { from: Tiers { first: 0, last: above }, to: Tiers::from(tier) };
    std::iter::once(down).chain(up).collect()
}
