//! Wear: bytes written to each device are counted for good, and movers keep within budgets.
//!
//! A device's own counter says how much it was written in this mount; the last record in PM says
//! how much before. Nothing is counted a second time, and no write waits for it.
//!
//! Invariants:
//! * A record is written every few seconds while anything is, when a disk joins or leaves, and at
//!   the end of a mount. A crash loses what was counted after it.
//! * The record says which devices have budgets from the moment on that the mount serves. So a
//!   daemon that goes on with the mount gives none to a disk that has come since.
//! * A move of the policy asks for its [`Permit`] before it writes, and does not write more. Nobody
//!   else asks, and nobody waits: data that may not move stays where it is.
//! * While PM has next to no room, moves that make some there may exceed every budget. So no
//!   program is told that there is no room because of one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use terrace_layout::{BLOCK_BYTES, DEVICES_MAX, Superblock, WearFound, WearRecord, WearRow};
use terrace_media::Pm;
use terrace_policy::{Bucket, Left, Offer, allowance};
use terrace_store::error::{FsError, FsResult};
use terrace_store::space::{Tiers, fitting, with_checksums};
use terrace_store::superblock::Disks;
use terrace_store::sync::{Arc, Mutex};
use terrace_store::wear;

use crate::base::counters::{Counter, Counters};
use crate::base::types::Time;
use crate::base::wear::{
    BudgetStatus, DeviceWear, NamedDevice, VolumeWear, WearBudget, is_of_movers, more_in,
};
use crate::base::words::device_name;
use crate::inode::store::Store;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Averages over less say nothing.
const AVERAGE_MIN: Duration = Duration::from_secs(60);

/// Bytes that each device had counted at a time, by index.
pub(crate) type Counted = BTreeMap<u16, u64>;

/// Budgets by device index, in bytes per day.
pub(crate) type Budgets = BTreeMap<u16, u64>;

/// What these devices have counted until now: what a mount finds is not of this mount.
pub(crate) fn counted(pm: &Pm, disks: &Disks) -> Counted {
    let of_disks = disks.iter().map(|(&index, disk)| (index, disk.stats().bytes_written));
    std::iter::once((0, pm.stats().bytes_stored)).chain(of_disks).collect()
}

/// Which devices these budgets are for. In a mount that `goes_on`, a device may have left the
/// volume and taken its budget along; another one may have its index or its path by now, and has
/// no budget.
///
/// # Errors
/// `EINVAL`: the volume has no such device.
pub(crate) fn resolve(
    wanted: &[WearBudget],
    goes_on: bool,
    pm: &Pm,
    sb: &Superblock,
    disks: &Disks,
) -> FsResult<Budgets> {
    let mut budgets = Budgets::new();
    let last = match wear::read(pm, sb) {
        Ok(WearFound::Record(record)) if goes_on => Some(record),
        _ => None,
    };
    for WearBudget { device, bytes_per_day } in wanted {
        let same = |path: &std::path::Path, other: &std::path::Path| {
            path == other
                || std::fs::canonicalize(path).ok().is_some_and(|path| {
                    std::fs::canonicalize(other).is_ok_and(|other| path == other)
                })
        };
        let index = match device {
            NamedDevice::Index(0) => Some(0),
            NamedDevice::Index(index) => disks.contains_key(index).then_some(*index),
            NamedDevice::Path(path) if same(path, pm.path()) => Some(0),
            NamedDevice::Path(path) => {
                disks.iter().find(|(_, disk)| same(path, disk.path())).map(|(&index, _)| index)
            }
        };
        let Some(index) = index else {
            let name = match device {
                NamedDevice::Index(index) => device_name(*index),
                NamedDevice::Path(path) => path.display().to_string(),
            };
            let known: Vec<String> =
                std::iter::once(0).chain(disks.keys().copied()).map(device_name).collect();
            let message = format!(
                "wear={name}: the volume has no such device; it has {}: name one of them, or leave \
                 the option out",
                known.join(", ")
            );
            if goes_on {
                tracing::warn!("{message}");
                continue;
            }
            return Err(FsError::with_message(libc::EINVAL, message));
        };
        if last.as_ref().is_some_and(|record| record.rows[usize::from(index)].per_day == 0) {
            tracing::warn!(
                "{}: had no budget before this daemon, perhaps because the disk that wear= has \
                 named has left: mount the volume anew to give it one",
                device_name(index)
            );
            continue;
        }
        budgets.insert(index, *bytes_per_day);
    }
    Ok(budgets)
}

/// One device.
#[derive(Debug)]
struct Device {
    /// As of the last mount.
    before: WearRow,
    /// What the device had counted when this mount, or its place in the volume, began.
    base: u64,
    moved: u64,
    overdrawn: u64,
    bucket: Option<Bucket>,
}

impl Device {
    /// One that nothing is known of.
    fn new(base: u64, budget: Option<u64>, now: Time) -> Self {
        Self {
            before: WearRow { since_ns: now.0, ..WearRecord::empty().rows[0] },
            base,
            moved: 0,
            overdrawn: 0,
            bucket: budget.map(|per_day| Bucket::full(per_day, now.0)),
        }
    }

    /// One that was counted before.
    fn resumed(before: WearRow, made_ns: i64, base: u64, budget: Option<u64>, now: Time) -> Self {
        let left = Left { per_day: before.per_day, level: before.level, at_ns: made_ns };
        let bucket = |per_day| match before.per_day {
            0 => Bucket::full(per_day, now.0),
            _ => Bucket::resumed(per_day, left, now.0),
        };
        Self { before, base, moved: 0, overdrawn: 0, bucket: budget.map(bucket) }
    }

    fn row(&mut self, mount_written: u64, now: Time) -> WearRow {
        let left = self.bucket.as_mut().map(|bucket| bucket.left(now.0));
        WearRow {
            since_ns: self.before.since_ns,
            written: self.before.written.saturating_add(mount_written),
            moved: self.before.moved.saturating_add(self.moved),
            overdrawn: self.before.overdrawn.saturating_add(self.overdrawn),
            per_day: left.map_or(0, |left| left.per_day),
            level: left.map_or(0, |left| left.level),
        }
    }
}

#[derive(Debug)]
struct State {
    /// The last record.
    record: WearRecord,
    /// Bytes that programs had written before this mount.
    programs_before: u64,
    devices: BTreeMap<u16, Device>,
    /// What the devices had counted when the last record was written.
    saved: Counted,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wear {
    store: Arc<Store>,
    counters: Arc<Counters>,
    sb: Superblock,
    /// Nothing is counted in a mount that changes nothing.
    counts: bool,
    opened: Instant,
    state: Mutex<State>,
}

/// What a mount begins to count with.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// What the devices had counted before the mount.
    pub counted: Counted,
    pub budgets: Budgets,
    pub read_only: bool,
}

impl Wear {
    /// Goes on counting where the last record ends.
    pub fn new(
        store: Arc<Store>,
        counters: Arc<Counters>,
        sb: Superblock,
        beginning: Beginning,
    ) -> Self {
        let now = Time::now();
        let record = last_record(&store.pm, &sb, now);
        let Beginning { counted, budgets, read_only } = beginning;
        let device = |(&index, &base): (&u16, &u64)| {
            let before = record.rows[usize::from(index)];
            let budget = budgets.get(&index).copied();
            let device = match before.since_ns {
                0 => Device::new(base, budget, now),
                _ => Device::resumed(before, record.made_ns, base, budget, now),
            };
            (index, device)
        };
        let devices: BTreeMap<u16, Device> = counted.iter().map(device).collect();
        // A crash, or an older version, may have let a disk leave and the record stay.
        let rows = (0..DEVICES_MAX as u16).zip(&record.rows);
        let gone = rows.filter(|(index, _)| !devices.contains_key(index));
        let departed = gone.fold(record.departed, |sum, (_, row)| sum.saturating_add(row.written));
        let state = State {
            programs_before: record.programs,
            devices,
            record: WearRecord { departed, ..record },
            saved: Counted::new(),
        };
        let (counts, opened) = (!read_only, Instant::now());
        Self { store, counters, sb, counts, opened, state: Mutex::new(state) }
    }

    /// Bytes that a device has been asked to write since it was opened.
    fn stat(&self, device: u16) -> u64 {
        match device {
            // Those who have files by themselves store to PM by themselves, too.
            0 => {
                let direct = self.counters.snapshot().get(Counter::DirectWrittenBytes);
                self.store.pm.stats().bytes_stored.saturating_add(direct)
            }
            _ => self
                .store
                .space
                .members
                .get(device)
                .map_or(0, |member| member.disk.stats().bytes_written),
        }
    }

    fn mount_written(&self, index: u16, device: &Device) -> u64 {
        if self.counts { self.stat(index).saturating_sub(device.base) } else { 0 }
    }

    /// Bytes that programs have written since the mount.
    fn mount_programs(&self) -> u64 {
        let counters = self.counters.snapshot();
        counters.get(Counter::WrittenPm).saturating_add(counters.get(Counter::WrittenCache))
    }

    /// The mount begins: writes a record, if the last one tells of other devices or budgets.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn begin(&self) -> FsResult<()> {
        let mut state = self.state.lock();
        let rows = (0..DEVICES_MAX as u16).zip(state.record.rows);
        let is_told = rows.into_iter().all(|(index, row)| match state.devices.get(&index) {
            Some(device) => row.per_day == device.bucket.map_or(0, |bucket| bucket.per_day()),
            None => row.since_ns == 0,
        });
        match self.counts && !is_told {
            true => self.write(&mut state),
            false => Ok(()),
        }
    }

    /// Writes a record, if anything was written since the last one.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn save(&self) -> FsResult<()> {
        let mut state = self.state.lock();
        let counted = self.counted_by(&state);
        match self.counts && counted != state.saved {
            true => self.write(&mut state),
            false => Ok(()),
        }
    }

    fn counted_by(&self, state: &State) -> Counted {
        state.devices.keys().map(|&index| (index, self.stat(index))).collect()
    }

    fn write(&self, state: &mut State) -> FsResult<()> {
        let record = self.next_record(state);
        wear::write(&self.store.pm, &self.sb, &record)?;
        state.record = record;
        // What this took is no reason to write another one.
        state.saved = self.counted_by(state);
        Ok(())
    }

    fn next_record(&self, state: &mut State) -> WearRecord {
        let now = Time::now();
        let mut record = WearRecord {
            sequence: state.record.sequence + 1,
            made_ns: now.0,
            programs: state.programs_before.saturating_add(self.mount_programs()),
            rows: WearRecord::empty().rows,
            ..state.record
        };
        for (&index, device) in &mut state.devices {
            let written = self.mount_written(index, device);
            record.rows[usize::from(index)] = device.row(written, now);
        }
        record
    }

    /// A disk has joined the volume; `base`: what it had counted before that.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn join(&self, index: u16, base: u64) -> FsResult<()> {
        let mut state = self.state.lock();
        state.devices.insert(index, Device::new(base, None, Time::now()));
        self.write(&mut state)
    }

    /// A disk, which had counted so much, has left the volume and taken its counts along.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn part(&self, index: u16, counted: u64) -> FsResult<()> {
        let mut state = self.state.lock();
        let Some(device) = state.devices.remove(&index) else { return Ok(()) };
        let written = device.before.written.saturating_add(counted.saturating_sub(device.base));
        state.record.departed = state.record.departed.saturating_add(written);
        self.write(&mut state)
    }

    /// Whether moves need not ask: PM has next to no room, and programs wait for what they make.
    fn is_pressed(&self, tiers: Tiers) -> bool {
        tiers.first > 0 && self.store.pm_is_low()
    }

    /// What a move may write that is about to write so many blocks to these tiers.
    ///
    /// # Errors
    /// `EDQUOT`: nothing, since budgets are used up.
    pub fn ask(self: &Arc<Self>, tiers: Tiers, counter: Counter, blocks: u64) -> FsResult<Permit> {
        let wanted = with_checksums(blocks).saturating_mul(BLOCK_BYTES);
        let mut permit = Permit {
            wear: self.clone(),
            of_movers: is_of_movers(counter),
            most: u64::MAX,
            avoided: Vec::new(),
            held: Vec::new(),
        };
        let mut state = self.state.lock();
        let is_bounded = state.devices.values().any(|device| device.bucket.is_some());
        if !permit.of_movers || !is_bounded || self.is_pressed(tiers) {
            return Ok(permit);
        }
        let (now, offers) = (Time::now(), self.offers(&mut state, tiers));
        if offers.is_empty() {
            // A program that looks for room there is told that there is none.
            return Ok(permit);
        }
        let Some(found) = allowance(&offers, wanted) else {
            return Err(FsError::with_message(libc::EDQUOT, used_up(&mut state, &offers, now)));
        };
        (permit.most, permit.avoided) = (found.most, found.avoided);
        for offer in offers.iter().filter(|offer| !permit.avoided.contains(&offer.device)) {
            let device = state.devices.get_mut(&offer.device);
            if let Some(bucket) = device.and_then(|device| device.bucket.as_mut()) {
                bucket.hold(permit.most);
                permit.held.push(offer.device);
            }
        }
        Ok(permit)
    }

    /// Why nothing may move to these tiers, if budgets keep it from that.
    pub fn held_up(&self, tiers: Tiers) -> Option<String> {
        let mut state = self.state.lock();
        let is_bounded = state.devices.values().any(|device| device.bucket.is_some());
        if !is_bounded || self.is_pressed(tiers) {
            return None;
        }
        let offers = self.offers(&mut state, tiers);
        let may_begin = offers.is_empty() || allowance(&offers, 1).is_some();
        (!may_begin).then(|| used_up(&mut state, &offers, Time::now()))
    }

    /// The devices of these tiers that have room, and what movers may write to them.
    fn offers(&self, state: &mut State, tiers: Tiers) -> Vec<Offer> {
        let (now, space) = (Time::now(), &self.store.space);
        let mut offer = |device: u16, tier: u8| {
            let known = state.devices.get_mut(&device);
            let bucket = known.and_then(|device| device.bucket.as_mut());
            let budget = bucket.map(|bucket| (bucket.available(now.0), bucket.least()));
            Offer { device, tier, budget }
        };
        if tiers.first == 0 {
            return vec![offer(0, 0)];
        }
        let leaving = space.leaving();
        let members = space.members.all();
        let takes_some = members.iter().filter(|member| {
            tiers.contains(member.entry.tier)
                && member.alloc.free_blocks() > 0
                && !leaving.contains(&member.entry.index)
        });
        takes_some.map(|member| offer(member.entry.index, member.entry.tier)).collect()
    }

    fn spent(&self, device: u16, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(device) = state.devices.get_mut(&device) {
            device.moved += bytes;
            if let Some(bucket) = &mut device.bucket {
                device.overdrawn += bucket.spend(bytes, Time::now().0);
            }
        }
    }

    /// What was counted.
    pub fn report(&self) -> VolumeWear {
        let (now, mut state) = (Time::now(), self.state.lock());
        let record = self.next_record(&mut state);
        let mounted = self.opened.elapsed();
        let mut report = report_of(&record, now);
        for wear in &mut report.devices {
            let Some(device) = state.devices.get_mut(&wear.index) else { continue };
            wear.mount_written_bytes = self.mount_written(wear.index, device);
            wear.mount_bytes_per_day = per_day(wear.mount_written_bytes, mounted);
            wear.budget = device.bucket.as_mut().map(|bucket| BudgetStatus {
                bytes_per_day: bucket.per_day(),
                left_bytes: bucket.left(now.0).level,
                more_in_seconds: bucket.wait_ns(now.0).div_ceil(NANOS_PER_SECOND),
            });
        }
        report
    }
}

/// The record that the last mount has left, or an empty one.
fn last_record(pm: &Pm, sb: &Superblock, now: Time) -> WearRecord {
    let empty = WearRecord { since_ns: now.0, made_ns: now.0, ..WearRecord::empty() };
    match wear::read(pm, sb) {
        Ok(WearFound::Record(record)) => *record,
        Ok(WearFound::Nothing) => empty,
        Ok(WearFound::Damaged) | Err(_) => {
            let path = pm.path().display();
            tracing::warn!(
                "{path}: the wear record is damaged: bytes written are counted anew from now on"
            );
            empty
        }
    }
}

/// What was counted of a volume that is not mounted; none if nobody has counted.
pub(crate) fn offline_report(pm: &Pm, sb: &Superblock) -> Option<VolumeWear> {
    match wear::read(pm, sb) {
        Ok(WearFound::Record(record)) => Some(report_of(&record, Time::now())),
        _ => None,
    }
}

fn report_of(record: &WearRecord, now: Time) -> VolumeWear {
    let since = |ns: i64| Duration::from_nanos(now.0.saturating_sub(ns).max(0) as u64);
    let rows = (0..DEVICES_MAX as u16).zip(&record.rows).filter(|(_, row)| row.since_ns != 0);
    let devices: Vec<DeviceWear> = rows
        .map(|(index, row)| DeviceWear {
            index,
            name: device_name(index),
            since_unix_seconds: row.since_ns / 1_000_000_000,
            written_bytes: row.written,
            moved_bytes: row.moved,
            overdrawn_bytes: row.overdrawn,
            bytes_per_day: per_day(row.written, since(row.since_ns)),
            ..DeviceWear::default()
        })
        .collect();
    let of_disks = devices.iter().filter(|device| device.index > 0);
    let disks = of_disks.fold(record.departed, |sum, disk| sum.saturating_add(disk.written_bytes));
    let pm = devices.iter().find(|device| device.index == 0).map_or(0, |pm| pm.written_bytes);
    let per_byte =
        |bytes: u64| (record.programs > 0).then(|| bytes as f64 / record.programs as f64);
    VolumeWear {
        since_unix_seconds: record.since_ns / 1_000_000_000,
        programs_bytes: record.programs,
        departed_bytes: record.departed,
        pm_amplification: per_byte(pm),
        disk_amplification: per_byte(disks),
        devices,
    }
}

fn per_day(bytes: u64, elapsed: Duration) -> Option<u64> {
    let per_day = bytes as f64 * 86_400.0 / elapsed.as_secs_f64();
    (elapsed >= AVERAGE_MIN).then_some(per_day as u64)
}

/// Which budgets are used up, in words.
fn used_up(state: &mut State, offers: &[Offer], now: Time) -> String {
    let first = offers.iter().map(|offer| offer.tier).min();
    let of_first = offers.iter().filter(|offer| Some(offer.tier) == first);
    let mut waits = u64::MAX;
    let names: Vec<String> = of_first
        .map(|offer| {
            let device = state.devices.get_mut(&offer.device);
            let wait = device
                .and_then(|device| device.bucket.as_mut())
                .map_or(0, |bucket| bucket.wait_ns(now.0));
            waits = waits.min(wait);
            device_name(offer.device)
        })
        .collect();
    let have = if names.len() == 1 { "has" } else { "have" };
    let more = more_in(waits.div_ceil(NANOS_PER_SECOND));
    format!("{} {have} used what wear= allows, {more}", names.join(", "))
}

/// What a move may write, and to which disks. What it has not written is others' again when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    wear: Arc<Wear>,
    of_movers: bool,
    most: u64,
    /// Disks that it leaves alone.
    pub avoided: Vec<u16>,
    held: Vec<u16>,
}

impl Permit {
    /// Blocks of data that it may write; those of their checksums come on top.
    pub fn blocks(&self) -> u64 {
        fitting(self.most / BLOCK_BYTES).max(1)
    }

    /// It has written so many blocks to a device.
    pub fn wrote(&self, device: u16, blocks: u64) {
        if self.of_movers {
            self.wear.spent(device, blocks * BLOCK_BYTES);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut state = self.wear.state.lock();
        for device in &self.held {
            let device = state.devices.get_mut(device);
            if let Some(bucket) = device.and_then(|device| device.bucket.as_mut()) {
                bucket.let_go(self.most);
            }
        }
    }
}
