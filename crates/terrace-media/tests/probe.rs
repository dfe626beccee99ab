//! What stands on a device before it is formatted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use terrace_media::{DeviceContents, probe_device};

const LEN: u64 = 8 << 20;

/// A sparse file with some bytes written at some offsets.
fn device(dir: &TempDir, writes: &[(u64, &[u8])]) -> DeviceContents {
    let path = dir.path().join("device");
    let file = File::create(&path).unwrap();
    file.set_len(LEN).unwrap();
    for (offset, bytes) in writes {
        file.write_all_at(bytes, *offset).unwrap();
    }
    probe_device(&path).unwrap()
}

#[test]
fn empty_devices_and_unknown_data_are_told_apart() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    assert_eq!(device(&dir, &[]), DeviceContents::Empty);
    assert_eq!(
        device(&dir, &[(LEN / 2, b"x")]),
        DeviceContents::Empty,
        "only the ends are looked at"
    );
    for offset in [0, 700_000, (1 << 20) - 1, LEN - (1 << 20), LEN - 1] {
        assert_eq!(device(&dir, &[(offset, b"x")]), DeviceContents::Data, "{offset}");
    }
    let short = dir.path().join("short");
    for (contents, expected) in
        [(vec![], DeviceContents::Empty), (vec![0; 100], DeviceContents::Empty)]
    {
        std::fs::write(&short, contents).unwrap();
        assert_eq!(probe_device(&short).unwrap(), expected);
    }
    std::fs::write(&short, [vec![0; 1 << 20], vec![1]].concat()).unwrap();
    assert_eq!(
        probe_device(&short).unwrap(),
        DeviceContents::Data,
        "the last byte of little more than a MiB"
    );
}

#[test]
fn signatures_are_recognized() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let cases: [(u64, &[u8], &str); 9] = [
        (0, b"LUKS\xba\xbe", "LUKS"),
        (0, b"XFSB", "XFS"),
        (65536 + 64, b"_BHRfS_M", "btrfs"),
        (512, b"LABELONE", "LVM"),
        (4086, b"SWAPSPACE2", "swap"),
        (512, b"EFI PART", "GPT"),
        (4096, b"EFI PART", "GPT"),
        (510, b"\x55\xaa", "MBR"),
        (1024 + 56, b"\x53\xef", "ext2"),
    ];
    for (offset, magic, name) in cases {
        let found = device(&dir, &[(offset, magic), (LEN - 1, b"x")]);
        assert!(
            matches!(found, DeviceContents::Found(what) if what.contains(name)),
            "{name}: {found}"
        );
    }
    let magic: (u64, &[u8]) = (1024 + 56, b"\x53\xef");
    assert!(device(&dir, &[magic, (1024 + 92, &[4])]).to_string().contains("ext3"));
    assert!(
        device(&dir, &[magic, (1024 + 92, &[4]), (1024 + 96, &[0x40])])
            .to_string()
            .contains("ext4")
    );
    let both = device(&dir, &[(510, b"\x55\xaa"), (512, b"EFI PART")]);
    assert!(both.to_string().contains("GPT"), "a protective MBR stands before every GPT");
}

/// The real tools agree, where they are installed.
#[test]
fn freshly_made_file_systems_are_recognized() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("device");
    let makers: [(&str, &[&str], &str); 4] = [
        ("mkfs.ext2", &["-q", "-F"], "ext2"),
        ("mkfs.ext3", &["-q", "-F"], "ext3"),
        ("mkfs.ext4", &["-q", "-F"], "ext4"),
        ("mkswap", &[], "swap"),
    ];
    for (maker, arguments, name) in makers {
        File::create(&path).unwrap().set_len(LEN).unwrap();
        let made = Command::new(maker).args(arguments).arg(&path).output();
        if made.is_ok_and(|output| output.status.success()) {
            let found = probe_device(&path).unwrap();
            assert!(found.to_string().contains(name), "{maker}: {found}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    assert_eq!(probe_device(Path::new("/no/such/device")).unwrap_err().errno(), libc::ENOENT);
    assert_eq!(probe_device(Path::new("/dev/null")).unwrap_err().errno(), libc::EINVAL);
    assert_eq!(probe_device(Path::new("/")).unwrap_err().errno(), libc::EINVAL);
}
