//! The devices' wear, as a status shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terrace_engine::VolumeWear;

use super::Table;
use super::scrub::utc;
use crate::size::format_size;

/// How worn a device says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endurance {
    /// How much of the life that its maker vouches for is used, in percent.
    pub used_percent: u8,
    /// Bytes written to it in its life, by whomever, if it tells.
    pub written_bytes: Option<u64>,
}

impl From<terrace_media::Endurance> for Endurance {
    fn from(told: terrace_media::Endurance) -> Self {
        let terrace_media::Endurance { used_percent, written_bytes } = told;
        Self { used_percent, written_bytes }
    }
}

/// By the name of the device.
pub type Endurances = BTreeMap<String, Endurance>;

/// Lines and a table.
pub(super) fn wear(wear: &VolumeWear, endurances: &Endurances) -> String {
    let per_byte =
        |times: Option<f64>| times.map_or(String::new(), |times| format!(" (× {times:.2})"));
    let sum = |is_disk: bool| {
        let devices = wear.devices.iter().filter(|device| (device.index > 0) == is_disk);
        devices.fold(0u64, |sum, device| sum.saturating_add(device.written_bytes))
    };
    let mut text = format!(
        "wear: counted since {}; programs wrote {}, PM took {}{}, disks {}{}\n",
        utc(wear.since_unix_seconds),
        format_size(wear.programs_bytes),
        format_size(sum(false)),
        per_byte(wear.pm_amplification),
        format_size(sum(true).saturating_add(wear.departed_bytes)),
        per_byte(wear.disk_amplification),
    );
    let shown = |is_shown: bool, heading: &'static str| if is_shown { heading } else { "" };
    let has_budgets = wear.devices.iter().any(|device| device.budget.is_some());
    let tells = !endurances.is_empty();
    let mut table = Table::new(&[
        "DEVICE",
        ">WRITTEN",
        ">PER DAY",
        ">THIS MOUNT",
        ">PER DAY",
        ">BY MOVERS",
        shown(has_budgets, ">BUDGET"),
        shown(has_budgets, ">LEFT"),
        "",
        shown(tells, ">LIFE USED"),
        shown(tells, ">LIFE WRITTEN"),
    ]);
    let rate = |rate: Option<u64>| rate.map_or_else(|| "-".to_owned(), format_size);
    for device in &wear.devices {
        let told = endurances.get(&device.name);
        let budget = device.budget.as_ref();
        let left = |left: i64| match u64::try_from(left) {
            Ok(left) => format_size(left),
            Err(_) => format!("-{}", format_size(left.unsigned_abs())),
        };
        table.row([
            device.name.clone(),
            format_size(device.written_bytes),
            rate(device.bytes_per_day),
            format_size(device.mount_written_bytes),
            rate(device.mount_bytes_per_day),
            format_size(device.moved_bytes),
            budget.map_or_else(String::new, |b| format!("{}/day", format_size(b.bytes_per_day))),
            budget.map_or_else(String::new, |b| left(b.left_bytes)),
            budget.and_then(|budget| budget.wait()).unwrap_or_default(),
            told.map_or_else(String::new, |told| format!("{} %", told.used_percent)),
            told.and_then(|told| told.written_bytes).map_or_else(String::new, format_size),
        ]);
    }
    text += &table.to_text();
    text
}

#[cfg(test)]
mod tests {
    use terrace_engine::{BudgetStatus, DeviceWear};

    use super::*;

    fn device(index: u16, name: &str, written_bytes: u64) -> DeviceWear {
        DeviceWear { index, name: name.to_owned(), written_bytes, ..DeviceWear::default() }
    }

    #[test]
    fn it_shows_bytes_per_day_amplification_budgets_and_endurance() {
        let budget = |left_bytes, more_in_seconds| {
            Some(BudgetStatus { bytes_per_day: 1 << 30, left_bytes, more_in_seconds })
        };
        let worn = VolumeWear {
            since_unix_seconds: 951_827_696,
            programs_bytes: 2 << 30,
            departed_bytes: 1 << 30,
            pm_amplification: Some(1.5),
            disk_amplification: Some(2.0),
            devices: vec![
                DeviceWear { bytes_per_day: Some(1 << 20), ..device(0, "pm", 3 << 30) },
                DeviceWear {
                    moved_bytes: 1 << 29,
                    mount_written_bytes: 1 << 28,
                    mount_bytes_per_day: Some(5 << 30),
                    budget: budget(-(1 << 20), 61),
                    ..device(1, "disk1", 2 << 30)
                },
                DeviceWear { budget: budget(1 << 29, 0), ..device(2, "disk2", 1 << 30) },
            ],
        };
        let told = Endurance { used_percent: 7, written_bytes: Some(1 << 40) };
        let shown = wear(&worn, &Endurances::from([("disk2".to_owned(), told)]));
        let expected = "\
wear: counted since 2000-02-29 12:34:56 UTC; programs wrote 2 GiB, PM took 3 GiB (× 1.50), disks \
4 GiB (× 2.00)
DEVICE  WRITTEN  PER DAY  THIS MOUNT  PER DAY  BY MOVERS     BUDGET     LEFT                 LIFE \
USED  LIFE WRITTEN
pm        3 GiB    1 MiB         0 B        -        0 B
disk1     2 GiB        -     256 MiB    5 GiB    512 MiB  1 GiB/day   -1 MiB  more in 2 min
disk2     1 GiB        -         0 B        -        0 B  1 GiB/day  512 MiB                       \
7 %         1 TiB
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_nobody_bounds_and_no_device_tells_takes_no_room() {
        let worn = VolumeWear { devices: vec![device(0, "pm", 4096)], ..VolumeWear::default() };
        let shown = wear(&worn, &Endurances::new());
        assert!(shown.contains("disks 0 B\n") && !shown.contains("×"), "{shown}");
        assert!(!shown.contains("BUDGET") && !shown.contains("LIFE"), "{shown}");
    }
}
