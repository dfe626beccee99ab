//! Daemons that end: by signals, in the foreground, killed, during a recovery.

use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use super::*;

#[test]
fn a_read_only_mount_changes_nothing_even_after_a_crash() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    fs::write(place.path("mnt/file"), "kept").unwrap();
    place.kill_daemon("pm");
    terrace(["umount", &place.path("mnt")]).ok();

    let before = (fs::read(place.path("pm")).unwrap(), fs::read(place.path("disk")).unwrap());
    place.mount("pm", &["-o", "ro"]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), b"kept");
    let refused = fs::write(place.path("mnt/file"), "changed").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    place.umount();
    let after = (fs::read(place.path("pm")).unwrap(), fs::read(place.path("disk")).unwrap());
    assert!(before == after, "a device was changed");
}

/// Only a writable mount sees the memory of a daemon that died: the others say so, and how to get
/// it.
#[test]
fn pages_of_a_dead_daemon_are_not_forgotten() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    // SAFETY: geteuid has no preconditions.
    let default_dir = format!("cache_dir=/dev/shm/terrace-{}", unsafe { libc::geteuid() });
    place.mount("pm", &["-o", "pm_full=1,writeback=600", "-o", &default_dir]).ok();
    let data = vec![7; 4 << 20];
    fs::write(place.path("mnt/file"), &data).unwrap();
    place.kill_daemon("pm");
    terrace(["umount", &place.path("mnt")]).ok();
    let (pm, saved) = (place.path("pm"), place.path("saved"));
    terrace(["save", &pm, &saved]).fails(1, &["1024 pages", "mount the volume once"]);
    let checked = terrace(["check", &pm]);
    assert!(
        checked.stderr.contains("1024 pages") && checked.stderr.contains("without -o ro"),
        "{}",
        checked.stderr
    );
    let read_only = place.mount("pm", &["-o", "ro", "-o", &default_dir]);
    assert!(read_only.stderr.contains("1024 pages"), "{}", read_only.stderr);
    assert_eq!(
        fs::metadata(place.path("mnt/file")).unwrap().len(),
        0,
        "only what is on the devices"
    );
    place.umount();
    place.mount("pm", &["-o", &default_dir]).ok();
    assert!(fs::read(place.path("mnt/file")).unwrap() == data);
    place.umount();
    terrace(["save", &pm, &saved]).ok();
    let checked = terrace(["check", &pm]);
    assert!(!checked.stderr.contains("pages"), "{}", checked.stderr);
}

#[test]
fn a_signal_unmounts_cleanly() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        place.mount("pm", &[]).ok();
        fs::write(place.path("mnt/file"), signal.to_string()).unwrap();
        let daemon = place.daemon("pm");
        kill(daemon, signal);
        wait_until_ended(daemon);
        assert!(!place.is_mounted("mnt"));
        assert_eq!(place.status("pm")["state"], "clean");
    }
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("unmounting") && log.contains("clean=true"), "{log}");
}

#[test]
fn a_signal_hides_a_busy_mount_which_ends_with_its_last_user() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let daemon = place.daemon("pm");
    let mut file = fs::File::create(place.path("mnt/file")).unwrap();
    kill(daemon, libc::SIGTERM);
    wait_until("it is hidden", || !place.is_mounted("mnt"));
    file.write_all(b"still served").unwrap();
    drop(file);
    wait_until_ended(daemon);
    assert_eq!(place.status("pm")["state"], "clean");
    place.mount("pm", &[]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), b"still served");
    place.umount();
}

#[test]
fn a_daemon_keeps_nothing_of_what_its_parent_had_open() {
    if !can_mount() || !has("flock") {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let script = r#"
exec 9> "$DIR/lock"
flock 9
"$TERRACE" mount "$DIR/pm" "$DIR/mnt" --log "$DIR/log" -o "cache=64M,cache_dir=$DIR"
exec 9>&-
flock --nonblock "$DIR/lock" echo free
"$TERRACE" umount "$DIR/mnt"
"#;
    assert_eq!(shell(script, place.dir()).ok(), "free\n");
}

#[test]
fn a_mount_in_the_foreground_ends_with_its_process() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let mut command = Command::new(TERRACE);
    command.args(["mount", "--foreground", &place.path("pm"), &place.path("mnt")]);
    command.args(["-o", &format!("cache=64M,cache_dir={}", place.dir().display())]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is mounted", || place.is_mounted("mnt"));
    fs::write(place.path("mnt/file"), "kept").unwrap();
    kill(child.id() as i32, libc::SIGINT);
    assert!(child.wait().unwrap().success());
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("unmounting"), "{log}");
    assert_eq!(place.status("pm")["state"], "clean");
}

#[test]
fn after_a_dead_daemon_the_volume_is_mounted_again() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    fs::write(place.path("mnt/file"), "kept").unwrap();
    place.kill_daemon("pm");
    terrace(["status", &place.path("mnt")]).fails(1, &["mnt", "daemon"]);
    // On top of what the dead one left behind.
    place.mount("pm", &[]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), b"kept");
    place.umount();
    terrace(["check", &place.path("pm")]).ok();
}

/// A signal that comes early ends the mount as one that comes late does.
#[test]
fn a_signal_at_any_moment_of_the_beginning_unmounts_cleanly() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let (pm, mnt, log, cache) =
        (place.path("pm"), place.path("mnt"), place.path("log"), place.path("cache"));
    let socket = place.path("socket");
    let exists = |path: &str| fs::symlink_metadata(path).is_ok();
    let holds_pm = || fs::read_dir(&cache).is_ok_and(|files| files.count() > 0);
    let moments: [(&str, &dyn Fn() -> bool); 4] = [
        ("the log is open", &|| exists(&log)),
        ("the volume is open", &holds_pm),
        ("metrics are served", &|| exists(&socket)),
        ("it is mounted", &|| place.is_mounted("mnt")),
    ];
    for (what, has_come) in moments.iter().cycle().take(12) {
        let _ = fs::remove_file(&log);
        let options = format!("cache=64M,cache_dir={cache},metrics={socket}");
        let mut command = Command::new(TERRACE);
        command.args(["mount", "--foreground", &pm, &mnt, "--log", &log, "-o", &options]);
        let mut daemon = command.stderr(Stdio::null()).spawn().unwrap();
        while !has_come() && daemon.try_wait().unwrap().is_none() {}
        kill(daemon.id() as i32, libc::SIGTERM);
        let ended = daemon.wait().unwrap();
        assert!(ended.success(), "{what}: {ended}");
        assert!(!place.is_mounted("mnt"), "{what}");
        assert_eq!(place.status("pm")["state"], "clean", "{what}");
    }
}

/// A recovery may take long: a signal gives it up, or ends the mount that follows if it comes too
/// late for that. Nothing is lost.
#[test]
fn a_signal_during_recovery_loses_nothing() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let (pm, mnt, cache) = (
        place.path("pm"),
        place.path("mnt"),
        format!("cache=64M,cache_dir={},nokeeper", place.path("cache")),
    );
    place.mount("pm", &[]).ok();
    fs::write(place.path("mnt/file"), "precious").unwrap();
    fs::File::open(place.path("mnt/file")).unwrap().sync_all().unwrap();
    place.kill_daemon("pm");
    place.umount();
    // The recovery waits with its first word until somebody makes room for it.
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    while (&writer).write(&[b'\n'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).unwrap();
    let mut command = Command::new(TERRACE);
    command.args(["mount", "--foreground", &pm, &mnt, "--log", &place.path("log"), "-o", &cache]);
    let mut daemon = command.stderr(writer).spawn().unwrap();
    drop(command);
    let pid = daemon.id() as i32;
    // One of its threads writes to the pipe that is full.
    let writes = |task: fs::DirEntry| {
        fs::read_to_string(task.path().join("wchan"))
            .is_ok_and(|wchan| wchan.contains("pipe_write"))
            || fs::read_to_string(task.path().join("syscall"))
                .is_ok_and(|call| call.starts_with("1 0x2 "))
    };
    let tasks = || fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    wait_until("recovery begins", || tasks().any(writes));
    kill(pid, libc::SIGTERM);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    let ended = daemon.wait().unwrap();
    assert!(
        ended.success()
            || said.contains("a signal has ended the recovery; the next mount begins it anew\n"),
        "{ended}: {said}"
    );
    assert!(!place.is_mounted("mnt"));
    place.mount("pm", &[]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), b"precious");
    place.umount();
    assert!(terrace(["check", &pm]).ok().contains("no damage"));
}

#[test]
fn the_kernel_asks_nobody_when_files_of_a_new_mount_are_opened() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let file = place.path("mnt/file");
    fs::write(&file, "").unwrap();
    let daemon = place.daemon("pm");
    kill(daemon, libc::SIGSTOP);
    let mut reader = Command::new("sh").args(["-c", ": < \"$0\"", &file]).spawn().unwrap();
    let mut status = None;
    for _ in 0..500 {
        status = reader.try_wait().unwrap();
        if status.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(daemon, libc::SIGCONT);
    reader.wait().unwrap();
    let root = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(place.path("mnt"));
    if root.is_err() {
        eprintln!("skipped: this kernel has no files without names on FUSE (Linux 6.2)");
    } else {
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
    drop(root);
    place.umount();
}
