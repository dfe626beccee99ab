//! File data: verified to the block, and blocks that have two owners or none.

use super::*;

#[test]
fn data_on_disks_is_verified_to_the_block() {
    let rig = PLAIN.rig();
    let v = rig.open(90);
    for path in ["dir/one", "dir/some", "dir/big"] {
        let map = v.file_map(find(&v, path)).unwrap();
        let extent = map.extents.last().unwrap().clone();
        // Both disks hold something; which one, the address in the log tells.
        let dump = rig.dump(find(&v, path));
        let device = usize::from(dump.contains(": 2:")) + 1;
        let damaged = PLAIN.rig();
        let last = extent.len_bytes - 4096;
        damaged.flip(device, extent.device_offset_bytes + last + 100);
        let first = extent.offset_bytes + last;
        let what = format!("bytes {first} to {} of the file", first + 4095);
        lasting(&damaged, &format!("(/{path})"), &what);
    }
}

#[test]
fn adjacent_bad_blocks_are_one_problem() {
    let rig = PLAIN.rig();
    let extent =
        rig.image().rig().open(90).file_map(rig.ino("dir/some")).unwrap().extents[0].clone();
    let device = usize::from(rig.dump(rig.ino("dir/some")).contains(": 2:")) + 1;
    for block in [2, 3, 4, 7] {
        rig.flip(device, extent.device_offset_bytes + block * 4096);
    }
    let found = lasting(&rig, "(/dir/some)", "bytes 8192 to 20479 of the file");
    assert_eq!(found.problems.len(), 2);
}

#[test]
fn a_damaged_checksum_block_is_named() {
    let rig = PLAIN.rig();
    let big = rig.ino("dir/big");
    let dump = rig.dump(big);
    let (device, block) = rig::blocks_from(&dump).expect("a run with checksum blocks");
    rig.flip(device as usize, block * BLOCK_BYTES + 12);
    lasting(
        &rig,
        "(/dir/big)",
        &format!("a checksum block is damaged (at byte {})", block * BLOCK_BYTES),
    );
}

#[test]
fn a_disk_that_cannot_be_read_is_named_with_the_block() {
    let image = PLAIN.rig().image();
    let rig = image.rig();
    let extent = image.rig().open(90).file_map(rig.ino("dir/some")).unwrap().extents[0].clone();
    let device = usize::from(rig.dump(rig.ino("dir/some")).contains(": 2:")) + 1;
    let (disk, sim) = sim_disk_from(image.0[device].clone());
    let bad = extent.device_offset_bytes + 5 * 4096;
    sim.fail_reads(bad..bad + 4096);
    let mut disks = rig.disks.clone();
    disks[device - 1] = disk;
    let rig = Rig { pm: rig.pm, disks };
    let found = rig.check(false);
    let expected = Expected {
        place: "(/dir/some)",
        what: "bytes 20480 to 24575 of the file",
        data_lost: true,
    };
    the_problem(&found, &expected);
    assert_eq!(found.problems.len(), 1);
}

#[test]
fn pm_data_is_verified_if_it_has_checksums() {
    let extent =
        CHECKSUMS.rig().open(90).file_map(CHECKSUMS.rig().ino("dir/sub/deep")).unwrap().extents[0]
            .clone();
    let rig = CHECKSUMS.rig();
    rig.flip(0, extent.device_offset_bytes + 77);
    lasting(&rig, "(/dir/sub/deep)", "bytes 0 to 4095 of the file");
    let extent =
        PLAIN.rig().open(90).file_map(PLAIN.rig().ino("dir/sub/deep")).unwrap().extents[0].clone();
    let rig = PLAIN.rig();
    rig.flip(0, extent.device_offset_bytes + 77);
    assert_eq!(report(&rig, false).problems.len(), 0);
}

#[test]
fn a_long_attribute_value_is_verified() {
    let rig = PLAIN.rig();
    let dump = rig.dump(rig.ino("small"));
    let block = rig::number_after(&dump, "9000 bytes at block 0:").unwrap();
    rig.flip(0, block * BLOCK_BYTES + 8500);
    lasting(&rig, "(/small)", "the value of extended attribute user.long");
}

#[test]
fn blocks_with_two_owners_are_named_with_both() {
    let rig = PLAIN.rig();
    let (small, deep) = (rig.ino("small"), rig.ino("dir/sub/deep"));
    let dump = rig.dump(small);
    let stolen = rig::number_after(&dump, "file blocks 0 to 1: 0:").unwrap();
    rig.change_entry::<WriteEntry>(deep, rig.entry_at(deep, "write"), |e| e.address = stolen);
    let range = format!("it owns blocks {stolen} to {}", stolen + 1);
    let found = lasting(&rig, "(/small)", &format!("{range}, and so does inode {}", deep.0));
    let expected = Expected {
        place: "(/dir/sub/deep)",
        what: &format!("and so does inode {}", small.0),
        data_lost: true,
    };
    the_problem(&found, &expected);
}

#[test]
fn blocks_of_the_volume_itself_belong_to_nobody_else() {
    for (device, block) in [(0u64, 1u64), (1, 0)] {
        let rig = PLAIN.rig();
        let one = rig.ino("dir/one");
        rig.change_entry::<WriteEntry>(one, rig.entry_at(one, "write"), |e| {
            e.address = device << 48 | block
        });
        lasting(&rig, "(/dir/one)", "which the volume itself needs");
    }
}

#[test]
fn blocks_outside_the_device_are_found() {
    for (device, block) in
        [(0u64, (4 << 20) / 4096), (1, (8 << 20) / 4096), (1, (1 << 40) - 2), (9, 300)]
    {
        let rig = PLAIN.rig();
        let one = rig.ino("dir/one");
        rig.change_entry::<WriteEntry>(one, rig.entry_at(one, "write"), |e| {
            e.address = device << 48 | block
        });
        lasting(&rig, "(/dir/one)", "outside the device");
    }
}

#[test]
fn disk_data_without_checksums_is_noticed() {
    let rig = PLAIN.rig();
    let one = rig.ino("dir/one");
    rig.change_entry::<WriteEntry>(one, rig.entry_at(one, "write"), |e| {
        e.crc_form = terrace_layout::CRC_NONE
    });
    lasting(&rig, "(/dir/one)", "has no checksums for data on a disk");
}
