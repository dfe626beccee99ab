//! Mount namespaces: the helpers of mount(8) and umount(8), fstab, a mount that is elsewhere, too.

use super::*;

#[test]
fn mount_and_umount_find_their_helpers() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let script = r#"
mount -t terrace "$DIR/pm" "$DIR/mnt" -o "$OPTIONS"
echo one > "$DIR/mnt/file"
findmnt -no FSTYPE,SOURCE "$DIR/mnt"
umount "$DIR/mnt"
mount -t terrace "$DIR/pm" "$DIR/mnt" -o "ro,$OPTIONS"
cat "$DIR/mnt/file"
if echo two > "$DIR/mnt/file"; then exit 1; fi
umount "$DIR/mnt"
"#;
    let ran = in_namespace(&format!("{WITH_HELPERS}{script}"), place.dir());
    assert!(ran.stderr.contains("Read-only file system"), "{ran:?}");
    let expected = format!("fuse.terrace {}\none\n", place.path("pm"));
    assert_eq!(ran.ok(), expected);
}

#[test]
fn a_line_of_fstab_mounts() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    fs::rename(place.path("disk"), place.path("moved")).unwrap();
    let script = r#"
echo "$DIR/pm $DIR/mnt terrace defaults,user,x-test=1,disk=$DIR/moved,$OPTIONS 0 0" > "$DIR/fstab"
mount -T "$DIR/fstab" "$DIR/mnt"
echo one > "$DIR/mnt/file"
umount "$DIR/mnt"
mount -T "$DIR/fstab" -a
cat "$DIR/mnt/file"
"#;
    assert_eq!(in_namespace(&format!("{WITH_HELPERS}{script}"), place.dir()).ok(), "one\n");
}

/// Unmounting here does not end a mount there, however long one waits.
#[test]
fn umount_names_another_mount_namespace_that_has_the_volume() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", "echo; exec cat"]);
    let mut other = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let (mnt, pm, daemon) = (place.path("mnt"), place.path("pm"), place.daemon("pm"));
    let there = format!("in another mount namespace, that of process {}", other.id());
    let nsenter = format!("`nsenter -t {} -m terrace umount {mnt}`", other.id());
    let unmounted = terrace(["umount", &mnt]);
    let refused = terrace(["check", &pm]);
    // The end of its input ends it, and its namespace with it.
    drop(other.stdin.take());
    other.wait().unwrap();
    unmounted.fails(1, &["unmounted here, but still mounted at ", &there, &nsenter]);
    refused.fails(1, &["its volume is mounted at ", &there]);
    wait_until_ended(daemon);
    assert_eq!(place.status("pm")["state"], "clean");
}
