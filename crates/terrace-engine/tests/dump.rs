//! What `dump` prints, also of a volume that is damaged.

mod rig;

use rig::{Rig, populated};
use terrace_engine::{Ino, dump_inode, dump_superblock, read_pm_label};
use terrace_layout::{JOURNAL_OFFSET, JournalRecord, JournalWord, TAIL_OFFSET};
use terrace_media::Pm;
use zerocopy::IntoBytes;

fn superblock(rig: &Rig) -> String {
    let mut text = Vec::new();
    dump_superblock(&rig.pm, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn a_superblock_with_devices_shards_and_checkpoint() {
    let rig = populated(false);
    let before = rig.image();
    let text = superblock(&rig);
    let label = read_pm_label(&rig.pm).unwrap().unwrap();
    has(
        &text,
        &[
            &format!("volume           {}\n", label.uuid),
            &format!("format           {}\n", label.format),
            "copy 0           valid, sequence ",
            "copy 1           valid, sequence ",
            "device 0\n  path           <memory>\n  tier           0\n  blocks         1024\n",
            "device 2\n",
            "shard 1 (block 3)\n  journal        empty\n  inode table    255 records, ",
            "state          valid: the volume was unmounted cleanly\n",
            "  inodes         11\n",
            "  device 2       ",
        ],
    );
    assert!(rig.image() == before, "looking changes nothing");
}

#[test]
fn a_superblock_that_is_damaged_here_and_there() {
    let rig = populated(false);
    rig.flip(0, 4096 + 70);
    rig.flip(0, 3 * 4096 + 12);
    let checkpoint = rig::number_after(&superblock(&rig), "checkpoint (block ").unwrap() * 4096;
    rig.flip(0, checkpoint + 40);
    has(
        &superblock(&rig),
        &[
            "copy 1           DAMAGED: superblock checksum does not match\n",
            "inode table    DAMAGED: ",
            "page of shard 1 is damaged",
            "state          DAMAGED: its checksum does not match\n",
        ],
    );
}

#[test]
fn a_pending_journal_is_shown_and_its_outcome() {
    let rig = populated(false);
    let small = rig.ino("small");
    let (before, at) = (rig.dump(small), rig.record_at(small));
    let tail = rig.pm.load_u64(at + TAIL_OFFSET);
    let record = JournalRecord::new(1, &[JournalWord { at: at + TAIL_OFFSET, value: tail }]);
    let checkpoint = rig::number_after(&superblock(&rig), "checkpoint (block ").unwrap() * 4096;
    rig.pm.write(checkpoint, &[0; 8]);
    rig.pm.write(2 * 4096 + JOURNAL_OFFSET, record.as_bytes());
    // As if the crash had come before the word was stored.
    rig.pm.store_u64(at + TAIL_OFFSET, 0);
    has(
        &superblock(&rig),
        &[
            "journal        committed, 1 words\n",
            &format!("byte {}: {tail:#018x}\n", at + TAIL_OFFSET),
        ],
    );
    let after = rig.dump(small);
    has(&after, &["pending          a committed journal record changes its log"]);
    let rest = |text: &str| {
        text.lines().filter(|l| !l.starts_with("pending")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(rest(&after), rest(&before));
}

#[test]
fn inodes_of_all_kinds() {
    let rig = populated(true);
    has(
        &rig.dump(rig.ino("small")),
        &[
            "in use\n",
            "kind             regular\n",
            "owner            1:2\n",
            "links            1\n",
            "size             5000\n",
            "xattr            user.long: 9000 bytes at block 0:",
            "file blocks 0 to ",
            "checksums in the entry\n",
            ": set xattr: user.long, 9000 bytes",
            ": write: file block 0, ",
            "  end\n",
        ],
    );
    has(
        &rig.dump(Ino::ROOT),
        &[
            "kind             directory\n",
            "1 of them directories\n",
            ": dir -> inode ",
            ": add name: small -> inode ",
        ],
    );
    has(
        &rig.dump(rig.ino("link")),
        &[
            "kind             symlink\n",
            "target           dir/sub\n",
            ": target: offset 0, dir/sub",
        ],
    );
    has(&rig.dump(rig.ino("dir/big")), &["checksums in ", " block from ", " skipped"]);
    has(&rig.dump(rig.ino("dir/some")), &["checksums behind the entry"]);
}

#[test]
fn without_the_log_no_entries_are_printed() {
    let rig = populated(false);
    let mut text = Vec::new();
    dump_inode(&rig.pm, &[], Ino::ROOT, false, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("add name") && text.contains("small -> inode"), "{text}");
}

#[test]
fn damage_to_an_inode_is_printed_where_it_is() {
    let rig = populated(false);
    let small = rig.ino("small");
    let at = rig.entry_at(small, "patch");
    rig.flip(0, at + 40);
    let text = rig.dump(small);
    has(
        &text,
        &["DAMAGED          ", ": write: file block 0", "  DAMAGED: ", &format!("(at byte {at})")],
    );
    assert!(!text.contains(": patch"), "{text}");
    rig.flip(0, rig.record_at(small) + 20);
    has(&rig.dump(small), &["DAMAGED: its checksum does not match\n"]);
}

#[test]
fn free_records_and_numbers_beyond_the_tables() {
    let rig = populated(false);
    has(&rig.dump(Ino(101)), &[", free\n"]);
    for ino in [0, 100_000, u64::MAX] {
        let error = dump_inode(&rig.pm, &[], Ino(ino), true, &mut Vec::new()).unwrap_err();
        assert_eq!(error.errno(), libc::ENOENT);
        assert!(error.to_string().contains("no inode table has a record"), "{error}");
    }
    rig.flip(0, 3 * 4096 + 12);
    let error = dump_inode(&rig.pm, &[], Ino(2), true, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("its table cannot be read"), "{error}");
}

#[test]
fn what_holds_no_volume_is_named() {
    let error = dump_superblock(&Pm::anonymous(1 << 20), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("no Terrace volume"), "{error}");
}
