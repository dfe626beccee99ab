//! Files that are lent: a borrower in this process, on the same PM and control pages, beside the
//! volume that lends them.
#![cfg(not(shuttle))]

mod late;
mod power;
mod rig;
mod stops;
mod wild;

use terrace_direct::{Fault, Reason, Refusal};
use terrace_engine::{Counter, Fallocate, Ino, LoanStats, SetAttr, WriteOptions};
use terrace_store::delegation::NotLent;

use self::rig::{ENDED, ME, NOTHING, Rig, contents, create, read};

#[test]
fn whatever_a_borrower_commits_the_owner_sees_and_both_survive() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    volume.write(ino, 0, b"before", WriteOptions::default()).unwrap();
    let mut file = rig.borrow(&volume, ino);
    assert!(volume.is_lent(ino) && file.lasts());
    assert_eq!(read(&file, 2, 100).unwrap(), b"fore");
    assert_eq!(file.write_at(None, b" and after").unwrap(), 6);
    assert_eq!(file.write_at(Some(1), b"E").unwrap(), 1);
    assert_eq!(file.write_at(Some(20_000), &[7; 9000]).unwrap(), 20_000);
    // Looking does not end the loan.
    assert_eq!(volume.getattr(ino).unwrap().size, 29_000);
    assert!(file.lasts());
    file.truncate(25_000).unwrap();
    assert_eq!(file.size().unwrap(), 25_000);
    let mut expected = b"bEfore and after".to_vec();
    expected.resize(20_000, 0);
    expected.resize(25_000, 7);
    assert_eq!(read(&file, 0, 1 << 20).unwrap(), expected);
    // Reading the data does.
    assert!(contents(&volume, ino) == expected);
    assert_eq!((file.write_at(Some(0), b"x"), file.size()), (Err(ENDED), Err(ENDED)));
    assert_eq!((read(&file, 0, 1), volume.loans()), (Err(ENDED), NOTHING));
    let volume = rig.crash(volume);
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn a_borrower_is_counted_while_it_has_the_file() {
    use Counter::{
        DirectReadBytes, DirectReads, DirectWrites, DirectWrittenBytes, Fsyncs, Loans, LoansBroken,
        PmReads, PmWrites, ReadPm, WrittenPm,
    };
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    file.write_at(None, &[1; 100]).unwrap();
    file.write_at(Some(50), &[2; 20]).unwrap();
    file.sync().unwrap();
    read(&file, 0, 60).unwrap();
    let stats = volume.stats();
    assert_eq!(stats.loans, LoanStats { files: 1, processes: 1, quarantined_bytes: 0 });
    assert_eq!(volume.lent(), [(ino, ME)]);
    let counted = [Loans, LoansBroken, DirectWrites, PmWrites, DirectReads, PmReads, Fsyncs];
    assert_eq!(counted.map(|counter| stats.counters.get(counter)), [1, 0, 2, 2, 1, 1, 1]);
    let bytes = [DirectReadBytes, ReadPm].map(|counter| stats.counters.get(counter));
    assert_eq!(bytes, [60; 2]);
    // A first write takes a block, as a message's does.
    assert_eq!(stats.counters.get(DirectWrittenBytes), stats.counters.get(WrittenPm));
    let shares = volume.file_why(ino).unwrap().shares;
    let share = (shares[0].place.as_str(), shares[0].rule.as_str(), shares[0].bytes);
    assert_eq!((shares.len(), share), (1, ("pm", "direct", 4096)));
    assert!(file.lasts(), "who asks why takes nothing back");
    file.write_at(None, &[3; 30]).unwrap();
    volume.take_back(ino).unwrap();
    assert_eq!(volume.stats().counters.get(DirectWrites), 3, "nothing is counted twice");
    assert_eq!(volume.stats().loans, NOTHING);
    volume.close().unwrap();
}

#[test]
fn a_daemon_that_dies_leaves_a_loan_that_its_successor_ends() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    let mut expected = Vec::new();
    for i in 0..200u32 {
        let record = vec![i as u8; 100 + i as usize];
        file.write_at(None, &record).unwrap();
        expected.extend(record);
    }
    let volume = rig.crash(volume);
    assert_eq!(file.write_at(None, b"late"), Err(ENDED));
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn files_that_cannot_be_lent_say_why() {
    let rig = Rig::new();
    let volume = rig.open();
    let lend = |ino| volume.lend(ino, ME, 8).unwrap().map(drop);
    assert_eq!(lend(Ino::ROOT), Err(NotLent::NotAFile));
    let ino = create(&volume, b"set-id");
    volume.setattr(ino, &SetAttr { mode: Some(0o4755), ..SetAttr::default() }).unwrap();
    assert_eq!(lend(ino), Err(NotLent::Privileged));
    let [a, b, c, d, e] = [b"a", b"b", b"c", b"d", b"e"].map(|name| create(&volume, name));
    assert_eq!([a, b, c, d].map(lend), [Ok(()); 4]);
    assert_eq!(lend(e), Err(NotLent::NoRoom));
    assert_eq!(volume.lend(a, 2, 8).unwrap(), Err(NotLent::Elsewhere));
    volume.take_back_from(ME);
    assert_eq!((lend(e), volume.loans().files), (Ok(()), 1));
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn a_loan_is_renewed_with_its_log_as_it_was_or_tidied_up() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    // The last block is never written again, and holds the log's first page.
    let (mut expected, mut kept, mut renewals) = (vec![0; 65_536 + 4096], 0, 0);
    file.write_at(Some(0), &expected).unwrap();
    for i in 0..20_000usize {
        let (at, byte) = (i * 4096 % 65_536, i as u8);
        let written = file.write_at(Some(at as u64), &[byte; 4096]);
        if written == Err(Refusal::Mount(Reason::Renew)) {
            let renewed = volume.renew_loan(ino, ME, 64).unwrap().unwrap();
            renewals += 1;
            match renewed.log_is_same {
                true => file.renewed(renewed.lent.page, renewed.lent.generation),
                false => file = rig.borrowed(renewed.lent),
            }
            kept += usize::from(renewed.log_is_same);
            file.write_at(Some(at as u64), &[byte; 4096]).unwrap();
        }
        file.sync().unwrap();
        expected[at..at + 4096].fill(byte);
    }
    assert!(renewals > 3 && kept < renewals, "{renewals} renewals, {kept} with the same log");
    assert!(read(&file, 0, 1 << 20).unwrap() == expected);
    let before = volume.stats();
    assert!(contents(&volume, ino) == expected);
    let pm = |stats: &terrace_engine::Stats| stats.tiers[0].free_bytes;
    assert!(pm(&volume.stats()) > pm(&before), "the pool is free again");
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn set_asides_are_written_in_place() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    volume.fallocate(ino, Fallocate::AllocateKeepSize, 0, 64 << 10).unwrap();
    let mut file = rig.borrow(&volume, ino);
    let mut expected = Vec::new();
    for i in 0..40u8 {
        file.write_at(None, &[i; 1500]).unwrap();
        expected.extend([i; 1500]);
    }
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn a_borrower_reads_no_pm_that_is_bad_and_holes_as_zeros() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    file.write_at(Some(0), &[1; 8192]).unwrap();
    file.write_at(Some(40_960), &[2; 4096]).unwrap();
    let map = volume.file_map(ino).unwrap();
    let last = map.extents.iter().find(|e| e.offset_bytes == 40_960).unwrap();
    let mut file = rig.borrow(&volume, ino);
    let expected: Vec<u8> = [vec![1; 8192], vec![0; 32_768], vec![2; 4096]].concat();
    assert!(read(&file, 0, 1 << 20).unwrap() == expected);
    rig.pm.fail_page(last.device_offset_bytes);
    let bad = Refusal::Mount(Reason::Damaged);
    assert_eq!(read(&file, 0, 40_961), Err(bad));
    assert_eq!(read(&file, 45_055, 1), Err(bad));
    assert!(read(&file, 0, 40_960).unwrap() == expected[..40_960]);
    // A write that needs the bad bytes has done nothing.
    assert_eq!(file.write_at(Some(40_000), &[3; 2000]), Err(bad));
    assert!(read(&file, 0, 40_960).unwrap() == expected[..40_960]);
    volume.take_back(ino).unwrap();
    let mut bytes = [0; 4096];
    assert_eq!(volume.read(ino, 40_960, &mut bytes).unwrap_err().errno(), libc::EIO);
    volume.close().unwrap();
}

#[test]
fn a_read_that_its_program_cannot_take_ends_where_it_is() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    // Three pieces: data, a hole of one block, data.
    file.write_at(Some(0), &[1; 4096]).unwrap();
    file.write_at(Some(8192), &[2; 4096]).unwrap();
    let read = |pieces: usize| {
        let mut given = 0;
        file.read_at(0, 1 << 20, &mut |_, _| {
            given += 1;
            if given > pieces { Err(Fault) } else { Ok(()) }
        })
    };
    let ends = [Err(Refusal::Errno(libc::EFAULT)), Ok(4096), Ok(8192), Ok(12_288)];
    assert_eq!([0, 1, 2, 3].map(read), ends);
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn direct_reads_lean_nowhere_and_read_migration_leaves_files_that_are_lent() {
    let rig = Rig::new();
    let volume = rig.open();
    let (lent, other) = (create(&volume, b"lent"), create(&volume, b"other"));
    let data = vec![1; 64 << 10];
    for ino in [lent, other] {
        volume.write(ino, 0, &data, WriteOptions::default()).unwrap();
    }
    let moved = || {
        // A shard says so if it wants to move something, and there is nothing.
        let _ = volume.migrate(1);
        (0..volume.shards()).for_each(|shard| drop(volume.migrate_shard(shard)));
        volume.stats().counters.get(Counter::MigratedRead)
    };
    for _ in 0..20 {
        let file = rig.borrow(&volume, lent);
        (0..5).for_each(|_| assert!(read(&file, 0, 1 << 20).unwrap() == data));
        volume.take_back(lent).unwrap();
        // The little that messages read leans to PM, and is not much for this file.
        assert_eq!(volume.read(lent, 0, &mut [0]).unwrap(), 1);
        assert_eq!(moved(), 0, "a file that is read directly");
    }
    let file = rig.borrow(&volume, lent);
    for _ in 0..20 {
        // Reads by messages lean to PM, and of a file that is written, none moves.
        (0..5).for_each(|_| assert!(contents(&volume, other) == data));
        volume.write(other, 0, &data, WriteOptions::default()).unwrap();
        assert_eq!(moved(), 0, "a file that is lent");
    }
    assert!(file.lasts());
    volume.take_back(lent).unwrap();
    (0..5).for_each(|_| assert!(contents(&volume, other) == data));
    assert!(moved() >= 64 << 10, "nothing keeps it");
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn nothing_is_lent_while_somebody_records() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    file.write_at(None, &[1; 100]).unwrap();
    let recording = volume.start_recording().unwrap();
    assert_eq!((file.write_at(None, &[2; 100]), volume.loans()), (Err(ENDED), NOTHING));
    assert_eq!(volume.lend(ino, ME, 64).unwrap(), Err(NotLent::Off));
    volume.write(ino, 100, &[3; 100], WriteOptions::default()).unwrap();
    while !volume.take_recorded(recording.token, true, 1 << 20).unwrap().block.is_empty() {}
    let mut file = rig.borrow(&volume, ino);
    file.write_at(None, &[4; 100]).unwrap();
    assert_eq!(contents(&volume, ino), [[1; 100], [3; 100], [4; 100]].concat());
    volume.close().unwrap();
    rig.assert_sound();
}
