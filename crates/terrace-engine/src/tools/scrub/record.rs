//! The record of a scrub: how far it is, what it found, whether it is to stop. Written by its
//! thread, read by all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use terrace_layout::{BLOCK_BYTES, DEVICES_MAX};
use terrace_policy::Pace;
use terrace_store::damage::Damage;
use terrace_store::sync::{Condvar, Mutex};

use super::Stopped;
use crate::base::types::{
    ScrubError, ScrubKind, ScrubOptions, ScrubReport, ScrubState, ScrubStatus, ScrubTally, Time,
};
use crate::base::words::counted;
use crate::tools::scrub::View;

/// Blocks that are read at a time: 1 MiB.
pub(crate) const READ_BLOCKS_MAX: u64 = 256;

/// Damage that is listed, and logged; more is counted.
const LISTED_MAX: usize = 1000;
/// Longest time to sleep at once: clocks do not reach arbitrarily far.
const REST_MAX: Duration = Duration::from_secs(3600);
/// A scrub is no longer young enough for its pace to say nothing.
const PACE_KNOWN: Duration = Duration::from_secs(2);

/// Damage to one structure or block, on its way into the record.
#[derive(Debug)]
pub(super) struct Found {
    pub damage: Damage,
    /// What it counts as.
    pub kind: ScrubKind,
    pub len_bytes: u64,
    pub file_offset_bytes: Option<u64>,
    /// What follows from it.
    pub remark: Option<String>,
    pub repaired: bool,
    /// Of its inode, once it is known.
    pub path: Option<String>,
}

impl Found {
    /// Damage that stays.
    pub fn new(kind: ScrubKind, len_bytes: u64, damage: Damage) -> Self {
        let (file_offset_bytes, remark, path) = (None, None, None);
        Self { damage, kind, len_bytes, file_offset_bytes, remark, repaired: false, path }
    }

    /// With what follows from it.
    pub fn remark(self, remark: impl Into<String>) -> Self {
        Self { remark: Some(remark.into()), ..self }
    }

    fn device(&self) -> usize {
        self.damage.device.into()
    }

    fn offset_bytes(&self) -> u64 {
        self.damage.byte.unwrap_or_default()
    }

    /// Whether `next` says the same of something else of the same owner.
    fn is_like(&self, next: &Found) -> bool {
        let (a, b) = (&self.damage, &next.damage);
        (a.device, a.ino, &a.structure, &a.kind) == (b.device, b.ino, &b.structure, &b.kind)
            && (self.kind, self.repaired, &self.remark) == (next.kind, next.repaired, &next.remark)
    }

    fn listed(&self, devices: &[String]) -> ScrubError {
        let words = self.damage.words();
        ScrubError {
            device_index: self.damage.device,
            device: devices[self.device()].clone(),
            kind: self.kind,
            offset_bytes: self.offset_bytes(),
            len_bytes: self.len_bytes,
            ino: self.damage.ino.map(|ino| ino.0),
            path: self.path.clone(),
            file_offset_bytes: self.file_offset_bytes,
            what: match &self.remark {
                Some(remark) => format!("{words}: {remark}"),
                None => words.to_string(),
            },
            repaired: self.repaired,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Record {
    options: ScrubOptions,
    started: Time,
    begun: Instant,
    /// Names of devices by index.
    devices: Vec<String>,
    /// The devices that there were when it began.
    present: Vec<usize>,
    /// Bytes in use on each device when it began.
    totals: Vec<u64>,
    state: Mutex<State>,
    /// The scrub is to stop, or has ended.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    /// What it is to end as.
    stop: Option<ScrubState>,
    /// What it ended as, when, and how long it took.
    ended: Option<(ScrubState, Time, Duration)>,
    passed: Vec<u64>,
    tallies: BTreeMap<(usize, ScrubKind), Tally>,
    damage: Vec<Found>,
    unlisted: u64,
    repaired: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    verified_bytes: u64,
    errors: u64,
}

impl Record {
    /// Of a scrub that begins now.
    pub fn new(view: &View, options: ScrubOptions) -> Self {
        let (pm, pm_start) = (view.store.space.pm(), view.devices.sb.lock().devices[0].data_start);
        let pm_blocks = (pm.blocks() - pm.free_blocks()).saturating_sub(pm_start);
        let mut present = vec![0];
        let mut totals = vec![0; DEVICES_MAX];
        totals[0] = pm_blocks * BLOCK_BYTES;
        let mut devices: Vec<String> =
            (0..DEVICES_MAX).map(|i| format!("disk{i}, added meanwhile")).collect();
        devices[0] = view.store.pm.path().display().to_string();
        for member in view.store.space.members.all() {
            let device = usize::from(member.entry.index);
            present.push(device);
            totals[device] = member.data_blocks() * BLOCK_BYTES;
            devices[device] = member.disk.path().display().to_string();
        }
        Self {
            options,
            started: Time::now(),
            begun: Instant::now(),
            devices,
            present,
            state: Mutex::new(State {
                pace: Pace::new(options.bytes_per_second),
                stop: None,
                ended: None,
                passed: vec![0; totals.len()],
                tallies: BTreeMap::new(),
                damage: Vec::new(),
                unlisted: 0,
                repaired: 0,
            }),
            totals,
            changed: Condvar::new(),
        }
    }

    /// The devices that there were when it began, PM first.
    pub fn devices(&self) -> impl Iterator<Item = usize> {
        self.present.iter().copied()
    }

    /// Blocks to read at a time: a tenth of a second's worth, so that a low rate is no series of
    /// jerks.
    pub fn piece_blocks(&self) -> u64 {
        match self.options.bytes_per_second {
            0 => READ_BLOCKS_MAX,
            rate => (rate / 10 / BLOCK_BYTES).clamp(1, READ_BLOCKS_MAX),
        }
    }

    /// `bytes` were read, or are about to be: rests as long as the rate demands.
    pub fn pace(&self, bytes: u64) -> Result<(), Stopped> {
        let mut state = self.state.lock();
        let now = self.begun.elapsed();
        let pause = state.pace.pause(bytes, now);
        let until = now.saturating_add(pause);
        loop {
            let rest = until.saturating_sub(self.begun.elapsed()).min(REST_MAX);
            if pause.is_zero() || rest.is_zero() || state.stop.is_some() {
                break;
            }
            self.changed.wait_for(&mut state, rest);
        }
        if state.stop.is_some() { Err(Stopped) } else { Ok(()) }
    }

    /// Checksums of `bytes` were compared, whatever came out.
    pub fn verified(&self, device: usize, kind: ScrubKind, bytes: u64) {
        self.state.lock().tallies.entry((device, kind)).or_default().verified_bytes += bytes;
    }

    /// The scrub has got `bytes` in use further.
    pub fn passed(&self, device: usize, bytes: u64) {
        self.state.lock().passed[device] += bytes;
    }

    /// Notes damage: adjacent blocks of a file together, and what was noted just before not again.
    pub fn found(&self, found: Found) {
        let mut state = self.state.lock();
        if let Some(last) = state.damage.last_mut().filter(|last| last.is_like(&found)) {
            if last.offset_bytes() == found.offset_bytes() {
                return;
            }
            let adjacent = |start: u64, at: u64| start + last.len_bytes == at;
            let same_file = last
                .file_offset_bytes
                .zip(found.file_offset_bytes)
                .is_some_and(|(a, b)| adjacent(a, b));
            if same_file && adjacent(last.offset_bytes(), found.offset_bytes()) {
                last.len_bytes += found.len_bytes;
                state.tallies.entry((found.device(), found.kind)).or_default().errors += 1;
                return;
            }
        }
        state.tallies.entry((found.device(), found.kind)).or_default().errors += 1;
        state.repaired += u64::from(found.repaired);
        if state.damage.len() >= LISTED_MAX {
            state.unlisted += 1;
            return;
        }
        log(&found);
        state.damage.push(found);
    }

    /// The inodes to which listed damage belongs.
    pub fn damaged_inodes(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.damage.iter().filter_map(|found| found.damage.ino).map(|ino| ino.0).collect()
    }

    /// Fills in paths.
    pub fn set_paths(&self, path: impl Fn(u64) -> Option<String>) {
        for found in &mut self.state.lock().damage {
            found.path = found.damage.ino.and_then(|ino| path(ino.0));
        }
    }

    /// Asks the scrub to stop, and to end as `state`.
    pub fn request_stop(&self, state: ScrubState) {
        self.state.lock().stop = Some(state);
        self.changed.notify_all();
    }

    /// Whether the scrub is to leave everything as it is.
    pub fn is_unmounting(&self) -> bool {
        self.state.lock().stop == Some(ScrubState::Unmounted)
    }

    pub fn is_running(&self) -> bool {
        self.state.lock().ended.is_none()
    }

    /// The scrub has ended.
    pub fn end(&self) {
        let mut state = self.state.lock();
        let outcome = state.stop.unwrap_or(ScrubState::Finished);
        state.ended = Some((outcome, Time::now(), self.begun.elapsed()));
        drop(state);
        let status = self.status();
        let (verified, errors, repaired) = (status.verified_bytes, status.errors, status.repaired);
        match outcome {
            ScrubState::Cancelled => tracing::info!("scrub: cancelled at {} %", status.percent),
            ScrubState::Unmounted => {
                tracing::warn!("scrub: stopped by the unmount at {} %", status.percent)
            }
            _ => tracing::info!("scrub: finished"),
        }
        match errors {
            0 => tracing::info!("scrub: no damage in {verified} bytes"),
            _ => {
                let found = counted(errors, "error", "errors");
                tracing::error!("scrub: {found} in {verified} bytes, {repaired} repaired");
            }
        }
        self.changed.notify_all();
    }

    /// Returns when the scrub has ended.
    pub fn wait(&self) {
        let mut state = self.state.lock();
        while state.ended.is_none() {
            self.changed.wait(&mut state);
        }
    }

    pub fn status(&self) -> ScrubStatus {
        self.summary(&self.state.lock())
    }

    fn summary(&self, state: &State) -> ScrubStatus {
        let elapsed = state.ended.map_or_else(|| self.begun.elapsed(), |(_, _, elapsed)| elapsed);
        let total_bytes: u64 = self.totals.iter().sum();
        let passed_bytes: u64 =
            state.passed.iter().zip(&self.totals).map(|(&passed, &total)| passed.min(total)).sum();
        let outcome = state.ended.map_or(ScrubState::Running, |(outcome, ..)| outcome);
        let part = u128::from(passed_bytes) * 100 / u128::from(total_bytes.max(1));
        let remaining = (outcome == ScrubState::Running
            && elapsed >= PACE_KNOWN
            && passed_bytes > 0)
            .then(|| {
                let rest = u128::from(total_bytes - passed_bytes);
                (rest * elapsed.as_millis() / u128::from(passed_bytes)).div_ceil(1000) as u64
            });
        ScrubStatus {
            state: outcome,
            started_unix_seconds: self.started.parts().0,
            ended_unix_seconds: state.ended.map(|(_, at, _)| at.parts().0),
            elapsed_ms: elapsed.as_millis() as u64,
            bytes_per_second: self.options.bytes_per_second,
            total_bytes,
            passed_bytes,
            percent: if outcome == ScrubState::Finished { 100 } else { part.min(99) as u8 },
            remaining_seconds: remaining,
            verified_bytes: state.tallies.values().map(|tally| tally.verified_bytes).sum(),
            errors: state.tallies.values().map(|tally| tally.errors).sum(),
            repaired: state.repaired,
        }
    }

    pub fn report(&self) -> ScrubReport {
        let state = self.state.lock();
        let tallies = state.tallies.iter().map(|(&(device, kind), tally)| ScrubTally {
            device_index: device as u16,
            device: self.devices[device].clone(),
            kind,
            verified_bytes: tally.verified_bytes,
            errors: tally.errors,
        });
        ScrubReport {
            status: self.summary(&state),
            tallies: tallies.collect(),
            damage: state.damage.iter().map(|found| found.listed(&self.devices)).collect(),
            unlisted_errors: state.unlisted,
        }
    }
}

fn log(found: &Found) {
    let (damage, outcome) = (&found.damage, if found.repaired { "; repaired" } else { "" });
    let owner = damage.ino.map_or_else(String::new, |ino| format!(" (inode {})", ino.0));
    let remark = found.remark.as_ref().map_or_else(String::new, |remark| format!(": {remark}"));
    tracing::error!(
        "scrub: {}: at byte {}{owner}: {}{remark}{outcome}",
        damage.path.display(),
        found.offset_bytes(),
        damage.words()
    );
}
