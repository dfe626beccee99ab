//! `terrace device`: what it takes, what it says, what it refuses.

mod common;

use std::fs;

use common::{Place, can_mount, terrace};
use serde_json::Value;

fn list(place: &Place) -> Vec<Value> {
    let listed = terrace(["device", "list", "--json", &place.path("mnt")]).ok();
    serde_json::from_str::<Value>(&listed).unwrap().as_array().unwrap().clone()
}

fn file(place: &Place, name: &str, len: u64) -> String {
    fs::File::create(place.path(name)).unwrap().set_len(len).unwrap();
    place.path(name)
}

#[test]
fn disks_are_listed_added_replaced_and_removed() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let (mnt, disk) = (place.path("mnt"), place.path("disk"));
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(place.path("mnt/file"), &data).unwrap();
    terrace(["evict", &place.path("mnt/file")]).ok();

    let rows = list(&place);
    assert_eq!(
        (rows.len(), &rows[1]["path"], &rows[1]["state"]),
        (2, &Value::from(disk.clone()), &Value::from("in use"))
    );
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    assert_eq!(number(&rows[1], "used_bytes") + number(&rows[1], "free_bytes"), 256 << 20);
    let table = terrace(["device", "list", &place.path("pm")]).ok();
    assert!(
        table.contains("STATE") && table.contains("disk1") && table.contains("in use"),
        "{table}"
    );

    let second = file(&place, "second", 64 << 20);
    let added =
        terrace(["device", "add", &mnt, &second, &(place.path("third") + ":64M"), "--tier", "2"]);
    assert!(
        added.stderr.contains("second: added, device 2")
            && added.stderr.contains("third: added, device 3")
    );
    added.ok();
    assert_eq!(
        list(&place).iter().map(|row| number(row, "tier")).collect::<Vec<_>>(),
        [0, 1, 2, 2]
    );

    let fourth = file(&place, "fourth", 64 << 20);
    let replaced = terrace(["device", "replace", &mnt, &disk, &fourth]);
    assert!(replaced.stderr.contains("disk: removed"), "{replaced:?}");
    replaced.ok();
    assert!(terrace(["where", &place.path("mnt/file")]).ok().contains(&fourth));
    terrace(["device", "remove", "--quiet", &mnt, &second, &place.path("third")]).ok();
    let rows = list(&place);
    assert_eq!(
        rows.iter().map(|row| (number(row, "index"), number(row, "tier"))).collect::<Vec<_>>(),
        [(0, 0), (4, 1)]
    );
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), data);
    place.umount();
    // A disk that left is no volume's any more: its data counts as anybody's would.
    let format = |more: &[&str]| {
        terrace(
            ["format", "--pm", &(place.path("pm2") + ":64M"), "--disk", &disk].iter().chain(more),
        )
    };
    format(&[]).fails(1, &["disk: holds data of an unknown kind"]);
    format(&["--force"]).ok();
    terrace(["check", &place.path("pm")]).ok();
    assert!(terrace(["dump", "superblock", &place.path("pm")]).ok().contains("device 4"));
    place.mount("pm", &["--quiet"]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), data);
    // The last one: everything to PM.
    terrace(["device", "remove", "--quiet", &mnt, &fourth]).ok();
    assert_eq!((list(&place).len(), fs::read(place.path("mnt/file")).unwrap() == data), (1, true));
    place.umount();
    place.mount("pm", &["--quiet"]).ok();
    assert_eq!(fs::read(place.path("mnt/file")).unwrap(), data);
    place.umount();
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.format("other", "foreign", &[]);
    place.mount("pm", &[]).ok();
    let (mnt, disk) = (place.path("mnt"), place.path("disk"));
    let add = |path: &str| terrace(["device", "add", &mnt, path]);
    add(&place.path("nothing")).fails(1, &["nothing"]);
    add(&file(&place, "small", 64 << 10)).fails(1, &["small", "too few for a disk"]);
    add(&disk).fails(1, &["is device 1 of the volume already"]);
    add(&place.path("pm")).fails(1, &["is device 0 of the volume already"]);
    std::os::unix::fs::symlink(&disk, place.path("alias")).unwrap();
    add(&place.path("alias")).fails(1, &["is device 1 of the volume already"]);
    fs::copy(&disk, place.path("copy")).unwrap();
    add(&place.path("copy")).fails(1, &["copy: holds device 1 of", "--force"]);
    fs::remove_file(place.path("copy")).unwrap();
    let own = place.path("mnt/own");
    add(&(own.clone() + ":64M")).fails(1, &["mnt/own: lies on the volume itself"]);
    assert!(!std::path::Path::new(&own).exists());
    add(&place.path("foreign"))
        .fails(1, &["foreign: holds device 1 of the Terrace volume", "--force"]);
    fs::write(place.path("text"), vec![b'x'; 4 << 20]).unwrap();
    add(&place.path("text")).fails(1, &["text", "--force"]);
    add(&(place.path("disk") + ":4G")).fails(1, &["exists"]);
    add(&place.path("mnt")).fails(1, &["mnt"]);
    let new = place.path("new") + ":4G";
    terrace(["device", "add", &mnt, &new, "--tier", "0"]).fails(2, &["--tier"]);
    terrace(["device", "add", &place.dir().display().to_string(), &new]).fails(1, &["no"]);
    assert!(!place.names().contains(&"new".to_owned()));
    let twice = file(&place, "twice", 4 << 20);
    let added = terrace(["device", "add", &mnt, &twice, &twice]);
    assert_eq!(added.code, Some(1));
    assert!(added.stderr.contains("is device 2 of the volume already"), "{added:?}");
    terrace(["device", "add", "--force", "--quiet", &mnt, &place.path("foreign")]).ok();

    let remove = |path: &str| terrace(["device", "remove", &mnt, path]);
    remove(&place.path("pm"))
        .fails(1, &["is the PM device of the volume, which cannot be removed"]);
    remove(&place.path("text")).fails(1, &["is no device of the volume", "terrace device list"]);
    remove("/no/such").fails(1, &["/no/such"]);
    terrace(["device", "replace", &mnt, &place.path("text"), &new])
        .fails(1, &["is no device of the volume"]);
    // Twelve more make sixteen.
    let more: Vec<String> = (0..12).map(|i| file(&place, &format!("more{i}"), 2 << 20)).collect();
    terrace(
        ["device", "add", "--quiet", &mnt].iter().copied().chain(more.iter().map(String::as_str)),
    )
    .ok();
    add(&file(&place, "seventeenth", 2 << 20)).fails(1, &["seventeenth", "16 devices"]);
    // More than PM takes, on the last disk.
    terrace(
        ["device", "remove", "--quiet", &mnt]
            .iter()
            .copied()
            .chain(more.iter().map(String::as_str)),
    )
    .ok();
    terrace(["device", "remove", "--quiet", &mnt, &twice, &place.path("foreign")]).ok();
    let data = vec![7; 90 << 20];
    fs::write(place.path("mnt/large"), &data).unwrap();
    terrace(["sync", &mnt]).ok();
    remove(&disk)
        .fails(1, &["disk: holds ", " of them have no room on the other devices: add a disk"]);
    assert_eq!(list(&place)[1]["state"], "in use");
    assert!(fs::read(place.path("mnt/large")).unwrap() == data);
    place.umount();

    place.mount("pm", &["-o", "ro"]).ok();
    add(&place.path("seventeenth")).fails(1, &["seventeenth", "Read-only"]);
    remove(&disk).fails(1, &["disk", "Read-only"]);
    place.umount();
}
