//! A mount: its way to the kernel, and what its daemon says of the volume.

use serde::Deserialize;
use terrace_fuse::{RingOffer, Transport, TransportStatus};

use super::{Finding, Machine};

/// What is looked at of a mounted volume's state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MountState {
    read_only: Option<String>,
    transport: Option<TransportStatus>,
    /// Its devices, PM first.
    pub devices: Vec<DeviceState>,
}

/// What is looked at of a device's state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceState {
    /// Where it is.
    pub path: String,
    /// How it is used: of PM, in the words of [`terrace_media::PmKind`].
    pub kind: String,
    failure: Option<String>,
}

/// What is to say about a mount.
pub fn findings(machine: &Machine, state: &MountState) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        state.transport.iter().map(|transport| way(machine, transport)).collect();
    if let Some(reason) = &state.read_only {
        findings.push(Finding::dangerous(
            "mount",
            format!("cannot be written: {reason}"),
            "see the daemon's log; unmount, `terrace check` the volume, and mount it again",
        ));
    }
    let failing = state.devices.iter().filter_map(|device| {
        let (path, failure) = (&device.path, device.failure.as_ref()?);
        let remedy = "`terrace device replace` for a disk; a backup first";
        Some(Finding::dangerous(&format!("device {path}"), failure.clone(), remedy))
    });
    findings.extend(failing);
    findings
}

fn way(machine: &Machine, transport: &TransportStatus) -> Finding {
    const TOPIC: &str = "transport";
    let offer = RingOffer::below(&machine.root, || machine.has_rings);
    match (&*transport.way, offer) {
        ("io_uring", _) => Finding::ok(TOPIC, "messages come over io_uring"),
        (_, RingOffer::Offered) => Finding::slow(
            TOPIC,
            "messages come over /dev/fuse, although the kernel offers io_uring",
            "`-o transport=io_uring` takes it, or says what stands in the way",
        ),
        _ => Finding::ok(TOPIC, "messages come over /dev/fuse"),
    }
}

/// A word at a mount that would have messages over io_uring if the kernel offered it.
pub fn ring_remark(wanted: Transport, offer: RingOffer) -> Option<String> {
    let obstacle = offer.obstacle().filter(|_| wanted == Transport::Auto)?;
    let for_good = offer.remedy_for_good().or(offer.remedy_now())?;
    Some(format!(
        "note: messages come over /dev/fuse, as {obstacle}; {for_good} changes that for good, \
         and `terrace doctor` says more"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::machine::made_up::MadeUp;
    use super::*;

    const SWITCH: &str = "sys/module/fuse/parameters/enable_uring";

    fn state(json: &str) -> MountState {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_mount_over_the_device_is_slow_where_the_kernel_has_better() {
        let over = |way: &str| state(&format!(r#"{{"transport": {{"way": "{way}"}}}}"#));
        let made_up = MadeUp::with(&[(SWITCH, "Y\n")]);
        let found = findings(&made_up.machine, &over("device"));
        assert_eq!((found.len(), found[0].verdict), (1, Verdict::Slow));
        assert_eq!(findings(&made_up.machine, &over("io_uring"))[0].verdict, Verdict::Ok);
        made_up.set(SWITCH, "N\n");
        assert_eq!(findings(&made_up.machine, &over("device"))[0].verdict, Verdict::Ok);
    }

    #[test]
    fn a_daemon_in_trouble_is_unsafe() {
        let state = state(
            r#"{"read_only": "damage in PM", "transport": null,
                "devices": [{"path": "/dev/a"}, {"path": "/dev/b", "failure": "it clicks"}]}"#,
        );
        let found = findings(&MadeUp::with(&[]).machine, &state);
        let found: Vec<_> = found.iter().map(|it| (it.verdict, &*it.topic, &*it.found)).collect();
        assert_eq!(
            found,
            [
                (Verdict::Unsafe, "mount", "cannot be written: damage in PM"),
                (Verdict::Unsafe, "device /dev/b", "it clicks"),
            ]
        );
    }

    #[test]
    fn a_mount_that_takes_what_there_is_says_what_there_is_not() {
        let off = RingOffer::SwitchedOff { built_in: false };
        let remark = ring_remark(Transport::Auto, off).unwrap();
        assert_eq!(
            remark,
            "note: messages come over /dev/fuse, as FUSE over io_uring is switched off; `options \
             fuse enable_uring=1` in a file of /etc/modprobe.d changes that for good, and \
             `terrace doctor` says more"
        );
        assert_eq!(ring_remark(Transport::Device, off), None);
        assert_eq!(ring_remark(Transport::Auto, RingOffer::Offered), None);
    }
}
