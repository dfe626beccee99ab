//! What a mount needs to come about: the device, and for users other than root the helper and
//! root's permission.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Finding, Machine};

const SET_USER_ID: u32 = 0o4000;

/// All of them.
pub fn findings(machine: &Machine) -> [Finding; 3] {
    [device(machine), helper(machine), others(machine)]
}

fn device(machine: &Machine) -> Finding {
    const TOPIC: &str = "/dev/fuse";
    let opened = OpenOptions::new().read(true).write(true).open(machine.path("dev/fuse"));
    match opened.map_err(|error| (error.kind(), error)) {
        Ok(_) => Finding::ok(TOPIC, "can be opened"),
        Err((ErrorKind::NotFound, _)) => Finding::missing(
            TOPIC,
            "is not there: nothing can be mounted",
            "`modprobe fuse`; for a container, let it have the device (`--device /dev/fuse`)",
        ),
        Err((ErrorKind::PermissionDenied, _)) => Finding::missing(
            TOPIC,
            "you may not open it: you cannot mount",
            "`chmod 666 /dev/fuse`, as distributions have it; for a container, \
             `--device /dev/fuse`",
        ),
        Err((_, error)) => {
            Finding::missing(TOPIC, format!("cannot be opened: {error}"), "`modprobe fuse`")
        }
    }
}

fn helper(machine: &Machine) -> Finding {
    const TOPIC: &str = "fusermount3";
    let is_root = machine.user == 0;
    let dirs = std::env::split_paths(&machine.search_path);
    let found = dirs
        .map(|dir| machine.path(dir.join(TOPIC)))
        .find_map(|path: PathBuf| path.metadata().ok());
    match found.map(|meta| meta.permissions().mode() & SET_USER_ID != 0) {
        Some(true) => Finding::ok(TOPIC, "is installed"),
        _ if is_root => Finding::ok(TOPIC, "root needs none, and other users cannot mount"),
        Some(false) => Finding::missing(
            TOPIC,
            "is not set-user-id: only root can mount",
            format!("as root, `chmod u+s \"$(command -v {TOPIC})\"`"),
        ),
        None => Finding::missing(
            TOPIC,
            "is not installed: only root can mount",
            "install the package fuse3",
        ),
    }
}

fn others(machine: &Machine) -> Finding {
    const TOPIC: &str = "allow_other";
    let is_set = machine
        .text("etc/fuse.conf")
        .is_some_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    match (is_set, machine.user) {
        (true, _) => Finding::ok(TOPIC, "every user may mount with it"),
        (false, 0) => Finding::ok(TOPIC, "root may mount with it, other users may not"),
        (false, _) => Finding::missing(
            TOPIC,
            "you cannot let other users into your mounts",
            "as root, a line `user_allow_other` in /etc/fuse.conf",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Verdict;
    use super::super::machine::made_up::MadeUp;
    use super::*;

    #[test]
    fn the_device_must_be_there_and_open() {
        let made_up = MadeUp::with(&[]);
        let missing = device(&made_up.machine);
        assert_eq!(missing.verdict, Verdict::Missing);
        assert!(missing.remedy.unwrap().contains("modprobe fuse"));
        made_up.set("dev/fuse", "");
        assert_eq!(device(&made_up.machine).verdict, Verdict::Ok);
        let other = MadeUp::with(&[("dev/fuse/no-device", "")]);
        let broken = device(&other.machine);
        assert_eq!(broken.verdict, Verdict::Missing);
        assert!(broken.found.contains("cannot be opened"), "{broken:?}");
    }

    #[test]
    fn users_other_than_root_need_a_helper_that_is_set_user_id() {
        let made_up = MadeUp::with(&[("etc/fuse.conf", "# user_allow_other\n")]);
        let user = Machine { user: 1000, ..made_up.machine.clone() };
        assert_eq!(helper(&made_up.machine).verdict, Verdict::Ok);
        assert_eq!(helper(&user).found, "is not installed: only root can mount");
        made_up.set("bin/fusermount3", "");
        let plain = helper(&user);
        assert!(plain.remedy.as_ref().unwrap().contains("chmod u+s"), "{plain:?}");
        let path = made_up.machine.path("/bin/fusermount3");
        fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(helper(&user), Finding::ok("fusermount3", "is installed"));
        let elsewhere = Machine { search_path: "/opt/bin".into(), ..user };
        assert_eq!(helper(&elsewhere).verdict, Verdict::Missing);
    }

    #[test]
    fn root_lets_other_users_let_others_in() {
        let made_up = MadeUp::with(&[("etc/fuse.conf", "#user_allow_other\nmount_max = 9\n")]);
        let user = Machine { user: 1000, ..made_up.machine.clone() };
        assert_eq!(others(&user).verdict, Verdict::Missing);
        assert_eq!(others(&made_up.machine).verdict, Verdict::Ok);
        made_up.set("etc/fuse.conf", "mount_max = 9\n user_allow_other \n");
        assert_eq!(others(&user), Finding::ok("allow_other", "every user may mount with it"));
    }
}
