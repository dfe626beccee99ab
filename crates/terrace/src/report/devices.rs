//! What `terrace device list` says.

use serde::Serialize;
use terrace_engine::RemovalState;

use super::{Status, Table, device_name};
use crate::size::format_size;

/// A device of a mounted volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    /// 0 is PM.
    pub index: u16,
    /// Where it is.
    pub path: String,
    /// 0 is PM's.
    pub tier: u8,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// `in use`, `draining`, or `failed` and why.
    pub state: String,
}

impl Status {
    /// The devices.
    pub fn device_rows(&self) -> Vec<DeviceRow> {
        let leaving =
            self.removal.as_ref().filter(|removal| removal.state == RemovalState::Running);
        let row = |device: &super::Device| DeviceRow {
            index: device.index,
            path: device.path.clone(),
            tier: device.tier,
            size_bytes: device.size_bytes,
            used_bytes: device.used_bytes,
            free_bytes: device.size_bytes.saturating_sub(device.used_bytes),
            state: match (&device.failure, leaving) {
                (Some(failure), _) => format!("failed: {failure}"),
                (None, Some(removal)) if removal.device_index == device.index => {
                    "draining".to_owned()
                }
                (None, _) => "in use".to_owned(),
            },
        };
        self.devices.iter().map(row).collect()
    }

    /// A removal that is under way or went wrong, in a line.
    pub(super) fn removal_in_a_line(&self) -> Option<String> {
        let removal = self.removal.as_ref()?;
        match removal.state {
            RemovalState::Running => Some(format!(
                "draining {}: {} of {} left",
                removal.path,
                format_size(removal.left_bytes),
                format_size(removal.total_bytes)
            )),
            RemovalState::Failed => Some(format!(
                "not removed: {}",
                removal.message.as_deref().unwrap_or(&removal.path)
            )),
            RemovalState::Finished | RemovalState::Cancelled => None,
        }
    }
}

/// A table of devices.
pub fn device_list(rows: &[DeviceRow]) -> String {
    let mut table = Table::new(&["DEVICE", "TIER", ">SIZE", ">USED", ">FREE", "PATH", "STATE"]);
    for row in rows {
        table.row([
            device_name(row.index),
            row.tier.to_string(),
            format_size(row.size_bytes),
            format_size(row.used_bytes),
            format_size(row.free_bytes),
            row.path.clone(),
            row.state.clone(),
        ]);
    }
    table.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_in_use_or_leaves_or_fails() {
        let status = |removal: &str| {
            let device = |index: u16, failure: Option<&str>| {
                let health = failure.map_or("ok".to_owned(), |why| format!("failing: {why}"));
                let failure = serde_json::to_string(&failure).unwrap();
                format!(
                    r#"{{"index":{index},"tier":1,"path":"/d{index}","size_bytes":4096,
                        "used_bytes":1024,"health":"{health}","failure":{failure}}}"#
                )
            };
            let devices = [device(1, None), device(2, None), device(3, Some("no power"))].join(",");
            let removal = format!(
                r#"{{"device_index":2,"path":"/d2","state":"{removal}",
                    "total_bytes":4096,"left_bytes":1024}}"#
            );
            serde_json::from_str::<Status>(&format!(
                r#"{{"devices":[{devices}],"removal":{removal}}}"#
            ))
            .unwrap()
        };
        let states = |status: &Status| {
            status.device_rows().into_iter().map(|row| row.state).collect::<Vec<_>>()
        };
        let running = status("running");
        assert_eq!(states(&running), ["in use", "draining", "failed: no power"]);
        assert_eq!(running.removal_in_a_line().unwrap(), "draining /d2: 1 KiB of 4 KiB left");
        assert_eq!(states(&status("cancelled"))[1], "in use");
        assert_eq!(running.device_rows()[0].free_bytes, 3072);
        let text = device_list(&running.device_rows());
        assert!(
            text.contains("disk2") && text.contains("draining") && text.contains("/d3"),
            "{text}"
        );
    }
}
