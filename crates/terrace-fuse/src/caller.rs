//! Who is asking: what a message does not say about the calling process.

use std::fs;

use terrace_transport::Caller;

/// The groups of the caller, which decide whether setting an access ACL or changing contents clears
/// set-group-id; `None` for root, whom nothing is cleared for. A message carries only one group;
/// the rest is in `/proc`, read for this rare case only.
///
/// A process that cannot be seen from here (another PID namespace) counts as a member of that one
/// group.
pub(crate) fn groups(caller: Caller) -> Option<Vec<u32>> {
    if caller.uid == 0 {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{}/status", caller.pid)).unwrap_or_default();
    Some(groups_in_status(&status, caller.gid))
}

/// Whether the calling process could do by itself all that this one can: it has its capabilities,
/// in the same namespaces of mounts and users. Root of a container has no more than root's number.
/// A process that cannot be looked at counts as one that could not.
pub(crate) fn is_as_powerful(caller: Caller) -> bool {
    let powers = |process: &str| {
        let namespace = |kind| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Some((namespace("mnt")?, namespace("user")?, capabilities_in_status(&status)?))
    };
    // A process that cannot be seen from here has the number 0.
    let theirs = Some(caller.pid).filter(|&pid| pid != 0).and_then(|pid| powers(&pid.to_string()));
    let (Some(theirs), Some(ours)) = (theirs, powers("self")) else { return false };
    (theirs.0, theirs.1) == (ours.0, ours.1) && ours.2 & !theirs.2 == 0
}

/// The effective capabilities that the text of a `/proc/<pid>/status` has, a bit for each.
pub fn capabilities_in_status(status: &str) -> Option<u64> {
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

/// `gid` and the supplementary groups that the text of a `/proc/<pid>/status` lists.
fn groups_in_status(status: &str, gid: u32) -> Vec<u32> {
    let supplementary =
        status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    std::iter::once(gid)
        .chain(supplementary.split_whitespace().filter_map(|group| group.parse().ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_as_powerful_as_itself_and_none_that_cannot_be_seen() {
        let caller = |pid| Caller { uid: 0, gid: 0, pid };
        assert!(is_as_powerful(caller(std::process::id())));
        assert!(!is_as_powerful(caller(0)) && !is_as_powerful(caller(u32::MAX)));
        assert_eq!(capabilities_in_status("Name:\tx\nCapEff:\t00000000000000ff\n"), Some(255));
        assert_eq!(capabilities_in_status("Name:\tx\n"), None);
    }

    #[test]
    fn supplementary_groups_are_added_to_the_callers() {
        let status = "Name:\tsetfacl\nGid:\t100\t100\t100\t100\nGroups:\t4 24 100 \nNSpid:\t7\n";
        assert_eq!(groups_in_status(status, 100), [100, 4, 24, 100]);
        assert_eq!(groups_in_status("", 100), [100]);
    }
}
