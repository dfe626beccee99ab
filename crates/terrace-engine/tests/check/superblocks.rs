//! Superblocks: two copies of each, older ones, those of other disks.

use super::*;

#[test]
fn superblock_copies_come_from_the_other() {
    for device in 0..3 {
        for copy in 0..2u64 {
            for byte in [0, 9, 40, 66, 130, 4000] {
                let rig = PLAIN.rig();
                rig.flip(device, copy * 4096 + byte);
                let path = if device == 0 { "<memory>" } else { "" };
                let (found, at) = (rig.check(false), format!("(at byte {})", copy * 4096));
                assert!(found.problems.iter().all(|p| p.what.ends_with(&at)), "{found:#?}");
                repairable(&rig, path, &format!("copy {copy} of the superblock is "));
            }
        }
    }
}

#[test]
fn an_older_superblock_copy_is_no_damage_after_a_crash_but_is_on_a_clean_volume() {
    for copy in [0, 1] {
        let rig = PLAIN.rig();
        let mut sb = superblock(&rig);
        sb.sequence -= 1;
        sb.seal();
        rig.pm.write(copy * 4096, sb.as_bytes());
        repairable(&rig.image().rig(), "", "is older than the other one");
        rig.pm.write(sb.checkpoint_header * BLOCK_BYTES, &[0; 8]);
        assert_eq!(report(&rig, false).problems.len(), 0);
    }
}

#[test]
fn both_superblock_copies_gone_is_an_error_that_names_the_device() {
    let rig = PLAIN.rig();
    rig.flip(0, 70);
    rig.flip(0, 4096 + 70);
    let error = check(
        &rig.pm,
        &rig.disks,
        &CheckOptions { repair: true, data: true, ..CheckOptions::default() },
        &|_, _, _| {},
    )
    .unwrap_err();
    assert!(error.to_string().contains("superblock"), "{error}");
}

/// A block that went to the wrong disk: nobody can tell which of the two copies belongs there.
#[test]
fn superblock_copies_of_different_disks_are_refused() {
    let rig = PLAIN.rig();
    write_disk(&rig, 1, 0, &read_disk(&rig, 2, 0, 1));
    let before = rig.image();
    let error = check(
        &rig.pm,
        &rig.disks,
        &CheckOptions { repair: true, data: true, ..CheckOptions::default() },
        &|_, _, _| {},
    )
    .unwrap_err();
    assert!(error.to_string().contains("are of different devices of the volume"), "{error}");
    let options = OpenOptions::default();
    let opened = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {});
    assert_eq!(opened.unwrap_err().errno(), libc::EIO);
    assert!(rig.image() == before);
}

#[test]
fn a_disk_of_another_size_than_the_table_says() {
    let rig = PLAIN.rig();
    for copy in 0..2 {
        let mut buf = read_disk(&rig, 1, copy, 1);
        let mut sb = Superblock::decode(&buf).unwrap().unwrap();
        sb.blocks -= 1;
        sb.seal();
        buf.copy_from_slice(sb.as_bytes());
        write_disk(&rig, 1, copy, &buf);
    }
    let found = report(&rig, true);
    let expected = Expected { place: "", what: "device table", data_lost: false };
    assert!(!the_problem(&found, &expected).repaired);
}
