//! The volumes' sizes, devices and settings.

use terrace_policy::Param;

use crate::rig::{Config, PM_FULL_PERCENT};

/// Size of PM.
pub(crate) const PM_BLOCKS: usize = 320;
/// All data in PM.
pub const PM: Config = Config {
    name: "pm",
    shards: 1,
    pm_full_percent: PM_FULL_PERCENT,
    durable: false,
    checksums: false,
    tiers: &[1],
    pm_blocks: PM_BLOCKS,
    // A PM that is nearly full is to stay so: nobody makes room in it.
    params: &[(Param::Migrate, 0)],
};
/// All data in PM, with checksums.
pub const CHECKSUMS: Config = Config { name: "checksums", checksums: true, ..PM };
/// New data goes to two disks.
pub const DISKS: Config = Config { name: "disks", pm_full_percent: 0, tiers: &[1, 1], ..PM };
/// So it does, but is durable when the write returns.
pub const DURABLE: Config = Config { name: "durable", durable: true, ..DISKS };
/// Two tiers of disks.
pub const THREE_TIERS: Config = Config { name: "three-tiers", tiers: &[1, 2], ..PM };
/// So it is, and PM may be full; a directory is pinned to the lower.
pub const PINNED: Config =
    Config { name: "pinned", pm_full_percent: 89, params: &[], ..THREE_TIERS };
/// Groups of 16 blocks, so that a few files make several; nothing depends on a clock.
const SMALL_GROUPS: (Param, u64) = (Param::Group, 64 << 10);
/// All in PM is cold, and too much; what leaves stays cached.
pub const WRITE_MIGRATION: Config = Config {
    name: "write-migration",
    // The largest write finds room beside long files and blocks that are reserved.
    pm_blocks: PM_BLOCKS + 16,
    params: &[
        SMALL_GROUPS,
        COLD,
        (Param::MigrateMin, 1),
        (Param::MigrateAt, 1),
        (Param::MigrateMax, 1),
        KEPT,
    ],
    ..THREE_TIERS
};
/// So it is, in the first tier of disks, too.
pub const DEMOTION: Config = Config {
    name: "demotion",
    params: &[
        SMALL_GROUPS,
        COLD,
        (Param::MigrateMin, 1),
        (Param::MigrateAt, 1),
        (Param::MigrateMax, 1),
        (Param::TierFull, 10),
    ],
    ..THREE_TIERS
};
/// PM is never too full, and reads that lean anywhere move data at once.
pub const READ_MIGRATION: Config = Config {
    name: "read-migration",
    params: &[
        SMALL_GROUPS,
        COLD,
        (Param::MigrateMin, 100),
        (Param::MigrateAt, 100),
        (Param::FlowSeconds, 1),
        (Param::Settle, 0),
        (Param::FlowHigh, 100),
        (Param::FlowLow, 100),
        (Param::ReadFactor, 1),
    ],
    ..THREE_TIERS
};
/// Data stays where it is; logs that have pages do not.
pub const LOG_MIGRATION: Config = Config {
    name: "log-migration",
    params: &[COLD, (Param::MigrateMin, 100), (Param::MigrateAt, 100), (Param::LogsAt, 0)],
    ..THREE_TIERS
};
const COLD: (Param, u64) = (Param::ColdAge, 0);
const KEPT: (Param, u64) = (Param::KeepCached, 100);
/// Two shards.
pub const SHARDS: Config = Config { name: "shards", shards: 2, ..PM };
/// PM is nearly full: data goes there or to the disk.
pub const NEARLY_FULL: Config = Config { name: "nearly-full", pm_full_percent: 89, ..PM };
