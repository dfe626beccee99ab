//! Wear of devices on real mounts: what is counted, shown and bounded.

mod common;

use std::fs;
use std::io::Write;

use common::{Place, can_mount, terrace, wait_until};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn wear(place: &Place, target: &str) -> Value {
    place.status(target)["wear"].take()
}

fn number(wear: &Value, device: usize, name: &str) -> u64 {
    wear["devices"][device][name].as_u64().unwrap_or_else(|| panic!("{name}: {wear}"))
}

/// Writes files of a MiB each, little by little, as what belongs to PM is written.
fn write(place: &Place, names: std::ops::Range<u32>) {
    for name in names {
        let mut file = fs::File::create(place.path(&format!("mnt/{name}"))).unwrap();
        (0..64).for_each(|_| file.write_all(&[name as u8; 16384]).unwrap());
        file.sync_all().unwrap();
    }
}

#[test]
fn counts_go_on_after_an_unmount_and_after_a_kill() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    assert_eq!(wear(&place, "pm"), Value::Null, "nobody has counted yet");
    place.mount("pm", &[]).ok();
    write(&place, 0..4);
    let mounted = wear(&place, "mnt");
    assert_eq!(mounted["programs_bytes"], 4 * MIB);
    assert!(number(&mounted, 0, "written_bytes") >= 4 * MIB, "{mounted}");
    assert_eq!(mounted["devices"][1]["name"], "disk1");
    place.umount();
    let left = wear(&place, "pm");
    assert_eq!(left["programs_bytes"], 4 * MIB);
    place.mount("pm", &["-o", "nokeeper"]).ok();
    write(&place, 4..6);
    // The pulse writes a record within ten seconds.
    wait_until("a record is written", || {
        let again = wear(&place, "mnt");
        assert_eq!(again["programs_bytes"], 6 * MIB);
        let copy = place.path("copy");
        fs::copy(place.path("pm"), &copy).unwrap();
        wear(&place, "copy")["programs_bytes"] == 6 * MIB
    });
    place.kill_daemon("pm");
    place.umount();
    let killed = wear(&place, "pm");
    assert_eq!(killed["programs_bytes"], 6 * MIB);
    assert_eq!(killed["since_unix_seconds"], left["since_unix_seconds"]);
    place.mount("pm", &[]).ok();
    let recovered = wear(&place, "mnt");
    assert_eq!(recovered["programs_bytes"], 6 * MIB);
    assert!(number(&recovered, 0, "written_bytes") >= number(&killed, 0, "written_bytes"));
    let text = terrace(["status", &place.path("mnt")]).ok();
    for part in ["wear: counted since ", "programs wrote 6 MiB", "THIS MOUNT", "BY MOVERS"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("LIFE USED"), "a file tells nothing: {text}");
    place.umount();
}

#[test]
fn a_budget_is_kept_and_shown() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let budget = ["-o", "wear=disk1:1M/day"];
    place.mount("pm", &budget).ok();
    write(&place, 0..16);
    // From now on nearly everything is to leave PM.
    let empty_pm = || {
        for setting in ["cold_age=0", "migrate_min=5", "migrate_at=5", "migrate_max=5"] {
            terrace(["set", &place.path("mnt"), setting]).ok();
        }
    };
    empty_pm();
    let trouble = || place.status("mnt")["migration"]["trouble"].as_str().map(str::to_owned);
    wait_until("movers are held up", || {
        // Each second with traffic they try again.
        write(&place, 0..1);
        trouble().is_some_and(|why| why.starts_with("disk1 has used what wear= allows, more in "))
    });
    let text = terrace(["status", &place.path("mnt")]).ok();
    for part in ["1 MiB/day", "migration waits: disk1 has used what wear= allows"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let bounded = wear(&place, "mnt");
    assert_eq!(number(&bounded, 1, "overdrawn_bytes"), 0, "{bounded}");
    let moved = number(&bounded, 1, "moved_bytes");
    assert!(moved > 0 && moved <= MIB, "{bounded}");
    assert_eq!(bounded["devices"][1]["budget"]["bytes_per_day"], MIB);
    // By hand it moves all the same.
    terrace(["evict", &place.path("mnt/9")]).ok();
    assert_eq!(number(&wear(&place, "mnt"), 1, "moved_bytes"), moved);
    place.umount();
    // A budget that is used up stays so; without the option nothing is bounded.
    place.mount("pm", &budget).ok();
    empty_pm();
    write(&place, 20..21);
    assert!(number(&wear(&place, "mnt"), 1, "moved_bytes") <= MIB);
    place.umount();
    place.mount("pm", &[]).ok();
    empty_pm();
    wait_until("data leaves PM", || {
        write(&place, 20..21);
        number(&wear(&place, "mnt"), 1, "moved_bytes") > 4 * MIB
    });
    assert_eq!(wear(&place, "mnt")["devices"][1]["budget"], Value::Null);
    place.umount();
}

#[test]
fn budgets_that_cannot_be_are_refused() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let before = fs::read(place.path("pm")).unwrap();
    place
        .mount("pm", &["-o", "wear=disk1:1G"])
        .fails(2, &["wear=DEVICE:BYTES/day", "as in 100G/day"]);
    place.mount("pm", &["-o", "wear=disk1:1K/day"]).fails(2, &["at least 1 MiB/day", "migrate=0"]);
    place
        .mount("pm", &["-o", "wear=disk7:1G/day"])
        .fails(1, &["wear=disk7: the volume has no such device", "pm, disk1"]);
    assert!(fs::read(place.path("pm")).unwrap() == before, "nothing has changed");
    let by_path = format!("wear={}:1G/day", place.path("disk"));
    place.mount("pm", &["-o", &by_path]).ok();
    assert_eq!(wear(&place, "mnt")["devices"][1]["budget"]["bytes_per_day"], 1024 * MIB);
    place.umount();
}
