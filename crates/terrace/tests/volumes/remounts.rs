//! Options of a mount that change while it is mounted.

use super::*;

/// As administrators do before a backup or a shutdown, by the kernel's table and by fstab.
#[test]
fn a_mount_becomes_read_only_and_writable_again() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let script = r#"
state() { findmnt -rno OPTIONS "$DIR/mnt" | cut -d, -f1-3; }
echo "$DIR/pm $DIR/mnt terrace nosuid,allow_other,$OPTIONS 0 0" > "$DIR/fstab"
mount -T "$DIR/fstab" "$DIR/mnt"
head -c 5000000 /dev/zero > "$DIR/mnt/file"
for how in "" "-T $DIR/fstab"; do
    mount $how -o remount,ro "$DIR/mnt"
    state
    "$TERRACE" status --json "$DIR/mnt" | grep cache_dirty_bytes
    if echo two > "$DIR/mnt/file"; then exit 1; fi
    mount $how -o remount,rw "$DIR/mnt"
    state
    echo three > "$DIR/mnt/file"
done
exec 3>> "$DIR/mnt/file"
if mount -o remount,ro "$DIR/mnt"; then exit 1; fi
exec 3>&-
cat "$DIR/mnt/file"
umount "$DIR/mnt"
"$TERRACE" mount "$DIR/pm" "$DIR/mnt" -o "ro,$OPTIONS"
if "$TERRACE" mount "$DIR/pm" "$DIR/mnt" -o remount,rw; then exit 1; fi
umount "$DIR/mnt"
if "$TERRACE" mount "$DIR/pm" "$DIR/mnt" -o remount,ro; then exit 1; fi
"#;
    let ran = in_namespace(&format!("{WITH_HELPERS}{script}"), place.dir());
    for part in [
        "Read-only file system",
        "files are open for writing; `fuser -vm",
        "its daemon cannot write (mounted with -o ro); unmount the volume, and mount it again",
        "no file system is mounted here",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    let once = "ro,nosuid,relatime\n  \"cache_dirty_bytes\": 0,\nrw,nosuid,relatime\n";
    assert_eq!(ran.ok(), format!("{once}{once}three\n"));
}

/// What the kernel sees to of a mount, in the words of mount(8).
fn in_force(mountpoint: &str) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let options = table.lines().map(|line| line.split(' ').skip(4)).find_map(|mut fields| {
        let place = fields.next();
        (place == Some(mountpoint)).then(|| fields.next().unwrap())
    });
    options.expect("it is mounted").split(',').map(str::to_owned).collect()
}

/// Each option by itself, from every start: all the others stay, those too that only mount(8)
/// knows.
#[test]
fn a_remount_changes_what_is_given_and_nothing_else() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let (pm, mnt) = (place.path("pm"), place.path("mnt"));
    place.mount("pm", &["-o", "nosuid,nodev,noexec"]).ok();
    shell(
        "mount -i -o remount,bind,nosymfollow,noatime,nosuid,nodev,noexec \"$DIR/mnt\"",
        place.dir(),
    )
    .ok();
    let mut expected = in_force(&mnt);
    expected.sort();
    assert_eq!(expected, ["noatime", "nodev", "noexec", "nosuid", "nosymfollow", "rw"]);
    // Each pair's second one is what the kernel's table says nothing of.
    let pairs = [("ro", "rw"), ("nosuid", "suid"), ("nodev", "dev"), ("noexec", "exec")];
    let singly = pairs.iter().flat_map(|&(first, second)| [first, second]);
    for given in singly.clone().chain(singly.rev()) {
        terrace(["mount", &pm, &mnt, "-o", &format!("remount,{given}")]).ok();
        let (first, second) =
            pairs.into_iter().find(|&(first, second)| [first, second].contains(&given)).unwrap();
        expected.retain(|option| option != first && option != second);
        expected.extend((given == first || given == "rw").then(|| given.to_owned()));
        expected.sort();
        let mut found = in_force(&mnt);
        found.sort();
        assert_eq!(found, expected, "after remount,{given}");
    }
    place.umount();
}

#[test]
fn a_remount_names_what_is_mounted() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.format("other", "other_disk", &[]);
    place.mount("pm", &[]).ok();
    let (pm, mnt) = (place.path("pm"), place.path("mnt"));
    let before = in_force(&mnt);
    for wrong in ["other", "absent", "disk"] {
        let wrong = place.path(wrong);
        terrace(["mount", &wrong, &mnt, "-o", "remount,ro"]).fails(1, &[&mnt, &wrong, &pm]);
        assert_eq!(in_force(&mnt), before, "{wrong}");
    }
    symlink(&pm, place.path("link")).unwrap();
    terrace(["mount", &place.path("link"), &mnt, "-o", "remount,ro"]).ok();
    assert_eq!(in_force(&mnt)[0], "ro");
    place.umount();
}

#[test]
fn a_remount_says_that_it_changes_no_budget() {
    if !can_mount() || !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let disk = place.path("disk");
    place.mount("pm", &["-o", &format!("wear=disk1:2G/day,wear={disk}:1G/day")]).ok();
    let (pm, mnt) = (place.path("pm"), place.path("mnt"));
    let remount =
        |options: &str| terrace(["mount", &pm, &mnt, "-o", &format!("remount,{options}")]);
    for (options, now) in [
        ("ro,wear=disk1:2G/day".to_owned(), "that device has 1 GiB/day"),
        (format!("ro,wear={disk}:2G/day"), "that device has 1 GiB/day"),
        (
            "ro,wear=disk1:1G/day,wear=pm:1G/day".to_owned(),
            "wear=pm:1073741824/day: that device has no",
        ),
    ] {
        remount(&options).fails(1, &[&mnt, now, "a remount changes no budget", "leave the option"]);
        fs::write(place.path("mnt/file"), "still writable").unwrap();
    }
    // fstab gives mount(8) all of its options: those in force are nothing new, and a disk that they
    // name may have left.
    remount(&format!("ro,wear=disk1:3G/day,wear={disk}:1G/day,wear=/absent:1G/day")).ok();
    assert!(fs::write(place.path("mnt/file"), "read-only").is_err());
    place.umount();
}
