//! Volumes through the command: made, mounted, examined, damaged, carried across.

#[path = "../common/mod.rs"]
mod common;
mod daemons;
mod namespaces;
mod recognition;
mod remounts;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Place, Ran, TERRACE, can_mount, has, kill, shell, terrace, wait_until, wait_until_ended,
};
use serde_json::Value;
use terrace_engine::PIN_XATTR;
use terrace_layout::{FORMAT_MAJOR, FORMAT_MINOR, MediaStruct, Superblock};
use zerocopy::IntoBytes;

const NOBODY: u32 = 65534;

fn uuid(place: &Place, pm: &str) -> String {
    place.status(pm)["uuid"].as_str().expect("a UUID").to_owned()
}

#[test]
fn the_life_of_a_volume() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let offline = place.status("pm");
    assert_eq!(offline["state"], "clean");

    let mounted = place.mount("pm", &[]);
    assert!(mounted.stderr.contains("lost at reboot"), "{mounted:?}");
    mounted.ok();
    let text = vec![b'x'; 100_000];
    fs::create_dir(place.path("mnt/dir")).unwrap();
    fs::write(place.path("mnt/dir/file"), &text).unwrap();
    fs::File::create(place.path("mnt/sparse")).unwrap().set_len(1 << 20).unwrap();

    let status = place.status("mnt");
    assert_eq!((&status["state"], &status["uuid"]), (&Value::from("mounted"), &offline["uuid"]));
    assert_eq!(status["devices"][0]["kind"], "emulated");
    assert_eq!(status["devices"][1]["size_bytes"], 256 << 20);
    assert_eq!(place.status("pm")["state"], "mounted", "a PM device leads to its mount");
    let table = terrace(["status", &place.path("mnt")]).ok();
    assert!(table.contains("0 (PM)") && table.contains("disk1"), "{table}");

    let where_is =
        terrace(["where", "--json", &place.path("mnt/dir/file"), &place.path("mnt/sparse")]).ok();
    let maps: Value = serde_json::from_str(&where_is).unwrap();
    assert_eq!(maps[0]["path"], place.path("mnt/dir/file"));
    assert_eq!(maps[0]["ino"], fs::metadata(place.path("mnt/dir/file")).unwrap().ino());
    let bytes = |extent: &Value| extent["len_bytes"].as_u64().unwrap();
    let located: u64 = maps[0]["extents"].as_array().unwrap().iter().map(bytes).sum();
    assert!(located + maps[0]["dirty_bytes"].as_u64().unwrap() >= 100_000, "{where_is}");
    assert_eq!(maps[1]["extents"], Value::Array(vec![]), "a hole has no extents");
    let table = terrace(["where", &place.path("mnt/dir/file")]).ok();
    assert!(table.contains("OFFSET") && table.contains(" pm "), "{table}");

    terrace(["sync", &place.path("mnt")]).ok();
    place.umount();
    assert!(!place.is_mounted("mnt"));
    assert_eq!(place.status("pm")["state"], "clean");

    let report: Value =
        serde_json::from_str(&terrace(["check", "--json", &place.path("pm")]).ok()).unwrap();
    assert_eq!(report["problems"], Value::Array(vec![]));
    assert!(terrace(["check", &place.path("pm")]).ok().contains("no damage"));

    place.mount("pm", &["--quiet"]).ok();
    assert_eq!(fs::read(place.path("mnt/dir/file")).unwrap(), text);
    place.umount();
}

#[test]
fn thresholds_are_set_and_files_moved_by_hand() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "group=1M,cold_age=7"]).ok();
    let mnt = place.path("mnt");
    let values =
        || -> Value { serde_json::from_str(&terrace(["set", "--json", &mnt]).ok()).unwrap() };
    assert_eq!(
        (&values()["group"], &values()["cold_age"]),
        (&Value::from(1 << 20), &Value::from(7))
    );
    assert!(terrace(["set", &mnt, "migrate_rate=100M", "cold_age=9"]).ok().is_empty());
    assert_eq!(
        (&values()["migrate_rate"], &values()["cold_age"]),
        (&Value::from(100 << 20), &Value::from(9))
    );
    let table = terrace(["set", &mnt]).ok();
    assert!(table.contains("cold_age") && table.contains("100 MiB/s"), "{table}");
    terrace(["set", &mnt, "cold_age=1", "group=3"]).fails(2, &["group=SIZE"]);
    assert_eq!(values()["cold_age"], 9, "all or none");

    let file = place.path("mnt/file");
    let data: Vec<u8> = (0..300_000u32).map(|i| (i % 253) as u8).collect();
    fs::write(&file, &data).unwrap();
    let tiers = |file: &str| -> Vec<String> {
        let maps: Value = serde_json::from_str(&terrace(["where", "--json", file]).ok()).unwrap();
        maps[0]["extents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["tier"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(tiers(&file).iter().all(|tier| tier == "pm"));
    assert!(terrace(["where", &file]).ok().contains("synchronous, bulk; on average written"));
    assert!(terrace(["evict", &file]).ok().is_empty());
    assert_eq!((tiers(&file), fs::read(&file).unwrap() == data), (vec!["disk1".to_owned()], true));
    terrace(["evict", "--tier", "2", &file]).fails(1, &["no such tier"]);
    let moved = terrace(["warm", &file]);
    assert!(moved.stderr.contains("296 KiB moved"), "{moved:?}");
    moved.ok();
    assert!(tiers(&file).iter().all(|tier| tier == "pm") && fs::read(&file).unwrap() == data);
    terrace(["evict", &mnt]).fails(1, &["directory"]);
    let status = terrace(["status", &mnt]).ok();
    assert!(status.contains("migration: idle"), "{status}");
    place.umount();
    place.mount("pm", &["-o", "migrate=0"]).ok();
    assert!(terrace(["status", &mnt]).ok().contains("migration: off"));
    assert_eq!(fs::read(&file).unwrap(), data);
    place.umount();
}

/// Pins, as programs see and set them: through the kernel, `cp -a` and a remount.
#[test]
fn files_and_trees_are_pinned() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let second = place.path("second") + ":256M";
    place.format("pm", "disk", &["--disk", &second, "--tier", "1,2"]);
    // Movers rest but for one step: else they would be faster than the commands now and then.
    place.mount("pm", &["-o", "migrate=0"]).ok();
    let movers = |on: &str| {
        assert_eq!(terrace(["set", &place.path("mnt"), &format!("migrate={on}")]).ok(), "")
    };
    let path = |name: &str| place.path(&format!("mnt/{name}"));
    let pin = |name: &str| {
        let mut value = [0; 16];
        match rustix::fs::lgetxattr(path(name), PIN_XATTR, &mut value[..]) {
            Ok(len) => Some(String::from_utf8(value[..len].to_vec()).unwrap()),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::NODATA, "{name}");
                None
            }
        }
    };
    let map = |name: &str| -> Value {
        let maps: Value =
            serde_json::from_str(&terrace(["where", "--json", &path(name)]).ok()).unwrap();
        maps[0].clone()
    };
    let is_on = |name: &str, tier: &str| {
        let map = map(name);
        let extents = map["extents"].as_array().unwrap();
        !extents.is_empty() && extents.iter().all(|e| e["tier"] == tier)
    };
    let lies_on = |name: &str, tier: &str| assert!(is_on(name, tier), "{name}: {}", map(name));
    fs::create_dir_all(path("tree/sub")).unwrap();
    fs::write(path("tree/sub/file"), [1; 100_000]).unwrap();
    symlink("sub/file", path("tree/link")).unwrap();
    let pinned = terrace(["pin", "2", &path("tree")]);
    for part in [
        "1 file, 2 directories pinned to 2; 100 KiB moved",
        "1 symbolic link or special file cannot",
    ] {
        assert!(pinned.stderr.contains(part), "{pinned:?}");
    }
    pinned.ok();
    lies_on("tree/sub/file", "disk2");
    assert_eq!(map("tree/sub/file")["pin"], "disk2");
    assert!(terrace(["where", &path("tree/sub/file")]).ok().contains(", pinned to disk2"));
    // What is made there, and a copy elsewhere.
    fs::write(path("tree/sub/new"), [2; 5000]).unwrap();
    assert!(
        Command::new("cp")
            .args(["-a", &path("tree/sub"), &path("copy")])
            .status()
            .unwrap()
            .success()
    );
    fs::rename(path("tree/sub/new"), path("moved")).unwrap();
    for name in ["tree", "tree/sub", "tree/sub/file", "moved", "copy", "copy/new"] {
        assert_eq!(pin(name).as_deref(), Some("2"), "{name}");
    }
    terrace(["sync", &place.path("mnt")]).ok();
    lies_on("moved", "disk2");
    // It was written before it was pinned: a mover brings it.
    movers("1");
    wait_until("the copy is where it belongs", || {
        is_on("copy/new", "disk2") && is_on("copy/file", "disk2")
    });
    movers("0");
    // Programs set them, within reason; symbolic links have none.
    let set = |name: &str, value: &str| {
        rustix::fs::lsetxattr(
            path(name),
            PIN_XATTR,
            value.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        )
    };
    assert_eq!(set("moved", "pm"), Ok(()));
    for wrong in ["3", "0", "disk1"] {
        assert_eq!(set("moved", wrong), Err(rustix::io::Errno::INVAL), "{wrong}");
    }
    assert_eq!(set("tree/link", "pm"), Err(rustix::io::Errno::PERM));
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("\"3\" is none of this volume's tiers: pm, 1, 2"), "{log}");
    // By hand, nobody moves it elsewhere; a pin does.
    terrace(["evict", &path("moved")]).fails(1, &["is pinned to another tier", "terrace unpin"]);
    terrace(["warm", &path("copy/new")]).fails(1, &["is pinned to another tier", "terrace unpin"]);
    terrace(["pin", "3", &path("moved")]).fails(1, &["no such tier", "terrace status"]);
    terrace(["pin", "pm", &path("moved")]).ok();
    lies_on("moved", "pm");
    let status = terrace(["status", &place.path("mnt")]).ok();
    assert!(
        status.contains("pinned: 4 files used since the mount, 0 with data on another tier"),
        "{status}"
    );
    place.umount();
    place.mount("pm", &["-o", "migrate=0"]).ok();
    assert_eq!((pin("moved").as_deref(), pin("copy/file").as_deref()), (Some("pm"), Some("2")));
    let unpinned = terrace(["unpin", &path("tree"), &path("moved")]);
    assert!(unpinned.stderr.contains("1 file, 2 directories unpinned"), "{unpinned:?}");
    unpinned.ok();
    for name in ["tree", "tree/sub", "tree/sub/file", "moved"] {
        assert_eq!(pin(name), None, "{name}");
    }
    terrace(["evict", &path("moved")]).ok();
    lies_on("moved", "disk1");
    place.umount();
    assert!(terrace(["check", &place.path("pm")]).ok().contains("no damage"));
}

#[test]
fn save_and_restore_carry_pm_across_a_reboot() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    fs::write(place.path("mnt/file"), "kept").unwrap();
    let (pm, saved) = (place.path("pm"), place.path("saved"));
    terrace(["save", &pm, &saved]).fails(1, &["mounted at"]);
    place.umount();
    fs::write(&saved, "something else").unwrap();
    terrace(["save", &pm, &saved]).fails(1, &["saved", "no saved image"]);
    for device in [&pm, &place.path("disk")] {
        let before = fs::read(device).unwrap();
        terrace(["save", &pm, device]).fails(1, &["no saved image"]);
        assert!(fs::read(device).unwrap() == before, "a device is no place for an image");
    }
    fs::remove_file(&saved).unwrap();
    terrace(["save", &pm, &saved]).ok();
    terrace(["save", &pm, &saved]).ok();
    shell("\"$TERRACE\" save \"$DIR/pm\" - | cat >\"$DIR/piped\"", place.dir()).ok();
    // They differ in when they were saved.
    assert_eq!(
        fs::metadata(place.path("piped")).unwrap().len(),
        fs::metadata(&saved).unwrap().len()
    );

    terrace(["restore", &saved, &pm]).fails(1, &["the Terrace volume", "--force"]);
    fs::remove_file(&pm).unwrap();
    terrace(["restore", &saved, &pm]).ok();
    place.mount("pm", &[]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), b"kept");
    place.umount();

    // The disk has been written since that image was saved: it is refused, and a new one is not.
    let newer = place.path("newer");
    terrace(["save", &pm, &newer]).ok();
    terrace(["restore", "--force", &saved, &pm]).ok();
    place.mount("pm", &[]).fails(1, &["older than", "disk"]);
    let saved = newer;
    fs::remove_file(&pm).unwrap();
    shell("cat \"$DIR/newer\" | \"$TERRACE\" restore - \"$DIR/pm\"", place.dir()).ok();
    terrace(["check", &pm]).ok();
    terrace(["restore", "--force", &saved, &pm]).ok();
    terrace(["check", &pm]).ok();

    let whole = fs::read(&saved).unwrap();
    fs::write(&saved, &whole[..whole.len() / 2]).unwrap();
    terrace(["restore", "--force", &saved, &pm]).fails(1, &["newer", "damaged"]);
    terrace(["check", &pm]).ok();
    terrace(["restore", &saved, &place.path("pm2")]).fails(1, &["newer"]);
    assert!(!place.names().contains(&"pm2".to_owned()), "a failed restore leaves nothing");
    fs::File::create(place.path("small")).unwrap().set_len(1 << 20).unwrap();
    fs::write(&saved, &whole).unwrap();
    terrace(["restore", &saved, &place.path("small")]).fails(1, &["small", "1 MiB", "64 MiB"]);
}

#[test]
fn formatting_again_needs_force_and_an_unused_device() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let first = uuid(&place, "pm");
    let (pm, disk) = (place.path("pm"), place.path("disk"));
    terrace(["format", "--pm", &pm, "--disk", &disk])
        .fails(1, &["the Terrace volume", &first, "--force"]);
    let other_pm = place.path("other:64M");
    terrace(["format", "--pm", &other_pm, "--disk", &disk])
        .fails(1, &["device 1 of the Terrace volume", &first]);
    assert!(!place.names().contains(&"other".to_owned()));
    place.mount("pm", &[]).ok();
    terrace(["format", "--force", "--pm", &pm, "--disk", &disk]).fails(1, &["in use"]);
    let (sized_pm, sized_disk) = (place.path("pm:64M"), place.path("disk:256M"));
    terrace(["format", "--force", "--pm", &sized_pm, "--disk", &sized_disk]).fails(1, &["in use"]);
    place.umount();
    assert_eq!(uuid(&place, "pm"), first);
    terrace(["format", "--force", "--pm", &pm, "--disk", &disk]).ok();
    let second = uuid(&place, "pm");
    terrace(["format", "--force", "--pm", &sized_pm, "--disk", &sized_disk]).ok();
    assert!(first != second && uuid(&place, "pm") != second);
}

#[test]
fn formatting_over_a_volume_removes_what_its_daemon_left_in_memory() {
    let place = Place::new();
    let (pm, disk, sized) = (place.path("pm"), place.path("disk"), place.path("pm:64M"));
    place.format("pm", "disk", &[]);
    // SAFETY: geteuid has no preconditions.
    let dir = format!("/dev/shm/terrace-{}", unsafe { libc::geteuid() });
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let others = format!("{dir}/terrace-{}.cache", "00000000-test-of-terrace-format");
    fs::write(&others, "another volume's").unwrap();
    for pm_argument in [&pm, &sized] {
        let file = format!("{dir}/terrace-{}.cache", uuid(&place, "pm"));
        for path in [file.clone(), format!("{file}.old-1"), format!("{file}.old-27")] {
            fs::write(path, "dirty pages").unwrap();
        }
        terrace(["format", "--force", "--quiet", "--pm", pm_argument, "--disk", &disk]).ok();
        let left = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<_> = left.filter(|path| path.to_str().unwrap().starts_with(&file)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(fs::read_to_string(&others).unwrap(), "another volume's");
    fs::remove_file(&others).unwrap();
}

#[test]
fn where_shows_what_waits_in_memory() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "pm_full=1,writeback=86400"]).ok();
    let file = place.path("mnt/file");
    fs::write(&file, vec![b'x'; 2 << 20]).unwrap();
    let waiting = terrace(["where", &file]).ok();
    assert!(waiting.contains("  page cache (dirty)") && !waiting.contains("hole"), "{waiting}");
    let map = |file: &str| -> Value {
        serde_json::from_str(&terrace(["where", "--json", file]).ok()).unwrap()
    };
    let dirty: u64 = map(&file)[0]["dirty"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["len_bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(map(&file)[0]["dirty_bytes"], dirty);
    assert!(dirty > 1 << 20);
    terrace(["sync", &place.path("mnt")]).ok();
    assert!(!terrace(["where", &file]).ok().contains("dirty"));
    assert_eq!(map(&file)[0]["dirty"], Value::Array(vec![]));
    place.umount();
}

#[test]
fn a_path_may_have_colons_and_several_tiers_are_listed() {
    let place = Place::new();
    let devices = [place.path("p:m:64M"), place.path("d:1:128M"), place.path("d:2:128M")];
    let [pm, fast, slow] = devices.each_ref().map(String::as_str);
    terrace([
        "format", "--pm", pm, "--disk", slow, "--disk", fast, "--tier", "2", "--tier", "1",
        "--shards", "2",
    ])
    .ok();
    assert_eq!(place.names(), ["d:1", "d:2", "mnt", "p:m"]);
    let status = place.status("p:m");
    let tiers: Vec<_> =
        status["devices"].as_array().unwrap().iter().map(|device| device["tier"].clone()).collect();
    assert_eq!(tiers, [0, 2, 1]);
    assert_eq!(status["devices"][1]["path"], place.path("d:2"));
}

#[test]
fn relative_paths_are_found_again() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let script = "cd \"$DIR\"; \"$TERRACE\" format --pm pm:64M --disk disk:256M; \
                  \"$TERRACE\" mount pm mnt --log log -o cache=64M,cache_dir=.; echo x > mnt/file; \
                  \"$TERRACE\" umount mnt; cd /; \"$TERRACE\" check \"$DIR/pm\"";
    assert!(shell(script, place.dir()).ok().contains("no damage"));
    assert_eq!(place.status("pm")["devices"][1]["path"], place.path("disk"));
}

#[test]
fn an_ordinary_user_formats_and_mounts() {
    if !can_mount() || !has("setpriv") || !has("fusermount3") || !has_namespaces() {
        return;
    }
    let place = Place::new();
    // The build directory may be closed to others.
    fs::copy(TERRACE, place.path("terrace")).unwrap();
    fs::set_permissions(place.path("mnt"), PermissionsExt::from_mode(0o777)).unwrap();
    fs::create_dir(place.path("state")).unwrap();
    fs::set_permissions(place.path("state"), PermissionsExt::from_mode(0o777)).unwrap();
    let script = r#"
cd "$DIR"
export XDG_STATE_HOME="$DIR/state"
trap './terrace umount mnt 2>/dev/null || true' EXIT
./terrace format --pm pm:64M --disk disk:256M
./terrace mount pm mnt -o cache=64M,cache_dir="$DIR/state"
echo mine > mnt/file
id -u; stat -c %u mnt mnt/file
./terrace status mnt | grep -c '^disk1'
./terrace umount mnt
./terrace check pm
"#;
    fs::write(place.path("script"), script).unwrap();
    // Everybody may open /dev/fuse on most machines; here, if need be, it is made so for this test
    // alone.
    let frame = r#"
if [ "$(stat -c %a /dev/fuse)" != 666 ]; then
    mkdir "$DIR/dev"
    mount -t tmpfs tmpfs "$DIR/dev"
    mknod -m 666 "$DIR/dev/fuse" c 10 229
    mount --bind "$DIR/dev/fuse" /dev/fuse
fi
setpriv --reuid=65534 --regid=65534 --clear-groups sh -euc "$(cat "$DIR/script")"
"#;
    let printed = in_namespace(frame, place.dir()).ok();
    assert!(
        printed.starts_with("65534\n65534\n65534\n2\n") && printed.contains("no damage"),
        "{printed}"
    );
    assert!(fs::read_dir(place.path("state/terrace")).unwrap().count() == 1, "its log");
    assert_eq!(fs::metadata(place.path("pm")).unwrap().uid(), NOBODY);
}

/// The beginning of a script, after which mount(8) finds the helpers.
const WITH_HELPERS: &str = r#"
mkdir "$DIR/orig" "$DIR/sbin"
mount --bind /usr/sbin "$DIR/orig"
for file in "$DIR"/orig/*; do ln -s "$file" "$DIR/sbin/"; done
for name in mount.terrace mount.fuse.terrace umount.fuse.terrace; do
  ln -sf "$TERRACE" "$DIR/sbin/$name"
done
mount --bind "$DIR/sbin" /usr/sbin
trap '"$TERRACE" umount "$DIR/mnt" 2>/dev/null || true' EXIT
OPTIONS="noatime,nofail,cache=64M,cache_dir=$DIR,log=$DIR/log"
"#;

/// Runs a script of the shell in a mount namespace of its own.
fn in_namespace(script: &str, dir: &Path) -> Ran {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc", script]);
    Ran::of(command.env("TERRACE", TERRACE).env("DIR", dir))
}

fn has_namespaces() -> bool {
    let can = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    let can = can.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: mount namespaces cannot be made here");
    }
    can
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let mut file = fs::File::create(place.path("mnt/file")).unwrap();
    terrace(["umount", &place.path("mnt")]).fails(1, &["is in use", "fuser -vm"]);
    file.write_all(b"still there").unwrap();
    drop(file);
    place.umount();
}

#[test]
fn the_files_of_a_failed_format_are_removed() {
    let place = Place::new();
    // Too small for the tables of a volume.
    let (pm, disk) = (place.path("pm:4K"), place.path("disk:256M"));
    terrace(["format", "--pm", &pm, "--disk", &disk]).fails(1, &["pm"]);
    assert_eq!(place.names(), ["mnt"]);
}

#[test]
fn models_and_engines_can_be_chosen() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &["--model", "disk=sata-ssd"]);
    place
        .mount("pm", &["--model", "pm=pm", "-o", "model=disk1=hdd,engine=sync,nodirect,durable"])
        .ok();
    fs::write(place.path("mnt/file"), "slow").unwrap();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), b"slow");
    place.umount();
}
