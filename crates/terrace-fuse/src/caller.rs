//! Who is asking: what a message does not say about the calling process.

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
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", caller.pid)).unwrap_or_default();
    Some(groups_in_status(&status, caller.gid))
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
    fn supplementary_groups_are_added_to_the_callers() {
        let status = "Name:\tsetfacl\nGid:\t100\t100\t100\t100\nGroups:\t4 24 100 \nNSpid:\t7\n";
        assert_eq!(groups_in_status(status, 100), [100, 4, 24, 100]);
        assert_eq!(groups_in_status("", 100), [100]);
    }
}
