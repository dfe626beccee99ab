//! The crash models: what is durable, what may be lost, and in which combinations.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use terrace_media::{
    AlignedBuf, DiskFault, DiskSim, IoOp, MediaError, PendingWrite, Pm, PmSim, SECTOR_BYTES,
    WriteFate, sim_disk, sim_disk_from,
};

/// Every image a crash of a region can leave: the product of the prefixes of its lines.
fn all_crash_images(sim: &PmSim) -> BTreeSet<Vec<u8>> {
    let lines = sim.pending_lines();
    let mut kept = vec![0; lines.len()];
    let mut images = BTreeSet::new();
    loop {
        let mut next = kept.iter();
        images.insert(sim.crash_image(&mut |_, _| *next.next().unwrap()));
        let advanced = kept.iter_mut().zip(&lines).try_for_each(|(kept, (_, stores))| {
            *kept = (*kept + 1) % (stores + 1);
            if *kept == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if advanced.is_continue() {
            return images;
        }
    }
}

fn word(image: &[u8], off: usize) -> u64 {
    u64::from_ne_bytes(image[off..off + 8].try_into().unwrap())
}

#[test]
fn a_store_is_durable_after_flush_and_fence_only() {
    let (pm, sim) = Pm::simulated(4096);
    pm.store_u64(64, 1);
    assert_eq!(sim.pending_lines(), [(1, 1)]);
    pm.fence().unwrap();
    assert_eq!(word(&sim.durable_image(), 64), 0, "a fence without a flush");
    pm.flush(64, 8);
    assert_eq!(word(&sim.durable_image(), 64), 0, "a flush without a fence");
    pm.store_u64(64, 2);
    pm.fence().unwrap();
    assert_eq!(word(&sim.durable_image(), 64), 1, "the flush took what was there");
    assert_eq!(sim.pending_lines(), [(1, 1)]);
    pm.flush(100, 1);
    pm.fence().unwrap();
    assert_eq!(word(&sim.durable_image(), 64), 2, "any byte flushes its line");
    assert_eq!((sim.pending_lines(), pm.load_u64(64)), (vec![], 2));
    assert_eq!(sim.calls(), (2, 3));
}

#[test]
fn streamed_stores_need_the_fence_only() {
    let (pm, sim) = Pm::simulated_from(vec![0xff; 4096]);
    pm.write_nt(30, &[1; 200]);
    pm.zero_nt(1024, 64);
    assert_eq!(sim.durable_image(), [0xff; 4096]);
    assert_eq!(sim.pending_lines(), [(0, 5), (1, 8), (2, 8), (3, 5), (16, 8)]);
    pm.fence().unwrap();
    let image = sim.durable_image();
    assert_eq!(image[30..230], [1; 200]);
    assert_eq!(image[1024..1088], [0; 64]);
    assert_eq!((image[29], image[230]), (0xff, 0xff));
}

#[test]
fn crashes_keep_prefixes_line_by_line_and_words_whole() {
    let (pm, sim) = Pm::simulated(256);
    // Line 0: a word, then another; line 1: one store of two words and a bit.
    pm.store_u64(0, u64::MAX);
    pm.store_u64(8, u64::MAX);
    pm.write(64, &[1; 17]);
    let images = all_crash_images(&sim);
    assert_eq!(images.len(), 3 * 4);
    for image in &images {
        assert!(
            word(image, 0) == u64::MAX || word(image, 8) == 0,
            "the second store without the first"
        );
        let ones = image[64..].iter().filter(|&&byte| byte == 1).count();
        assert!([0, 8, 16, 17].contains(&ones), "torn within a word: {ones}");
    }
    // Once the first line is durable, only the second is undecided.
    pm.flush(0, 16);
    pm.fence().unwrap();
    assert_eq!(all_crash_images(&sim).len(), 4);
}

#[test]
fn later_stores_to_the_same_word_persist_in_order() {
    let (pm, sim) = Pm::simulated(64);
    for value in 1..=3 {
        pm.store_u64(0, value);
    }
    let values: BTreeSet<u64> = all_crash_images(&sim).iter().map(|image| word(image, 0)).collect();
    assert_eq!(values, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_fence_orders_only_its_own_threads_flushes() {
    let (pm, sim) = Pm::simulated(128);
    pm.store_u64(0, 1);
    pm.flush(0, 8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pm.store_u64(64, 2);
            pm.flush(64, 8);
            pm.fence().unwrap();
        });
    });
    assert_eq!((word(&sim.durable_image(), 0), word(&sim.durable_image(), 64)), (0, 2));
    pm.fence().unwrap();
    assert_eq!(word(&sim.durable_image(), 0), 1);
}

#[test]
fn flushes_of_one_line_by_two_threads_are_kept_apart() {
    let (pm, sim) = Pm::simulated(64);
    pm.store_u64(0, 1);
    pm.flush(0, 8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pm.store_u64(8, 2);
            pm.flush(0, 64);
        });
    });
    pm.fence().unwrap();
    assert_eq!((word(&sim.durable_image(), 0), word(&sim.durable_image(), 8)), (1, 0));
    assert_eq!(sim.pending_lines(), [(0, 1)]);
}

#[test]
fn exchanges_are_recorded_when_they_succeed() {
    let (pm, sim) = Pm::simulated(64);
    assert_eq!(pm.compare_exchange_u64(0, 9, 1), Err(0));
    assert_eq!(sim.pending_lines(), []);
    assert_eq!(pm.compare_exchange_u64(0, 0, 1), Ok(0));
    pm.flush(0, 8);
    pm.fence().unwrap();
    assert_eq!(word(&sim.durable_image(), 0), 1);
}

#[test]
fn the_fence_hook_sees_what_is_undecided() {
    let (pm, sim) = Pm::simulated(4096);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    sim.set_on_fence(Box::new(move |sim| {
        record.lock().unwrap().push((sim.pending_lines().len(), all_crash_images(sim).len()));
    }));
    pm.write_nt(0, &[1; 8]);
    pm.fence().unwrap();
    pm.store_u64(0, 2);
    pm.store_u64(64, 2);
    pm.fence().unwrap();
    sim.clear_on_fence();
    pm.fence().unwrap();
    assert_eq!(*seen.lock().unwrap(), [(1, 2), (2, 4)]);
}

#[test]
fn planted_bugs_drop_exactly_the_numbered_call() {
    let (pm, sim) = Pm::simulated(4096);
    let commit = |off| {
        pm.store_u64(off, 1);
        pm.flush(off, 8);
        pm.fence().unwrap();
        word(&sim.durable_image(), off as usize)
    };
    sim.drop_flush_number(2);
    assert_eq!([commit(0), commit(64), commit(128)], [1, 0, 1]);
    assert_eq!(sim.pending_lines(), [(1, 1)]);
    sim.drop_fence_number(1);
    assert_eq!(commit(192), 0);
    pm.fence().unwrap();
    assert_eq!(word(&sim.durable_image(), 192), 1, "the next fence makes up for it");
}

#[test]
fn random_images_are_legal_replayable_and_various() {
    let (pm, sim) = Pm::simulated(256);
    for off in (0..256).step_by(16) {
        pm.store_u64(off, off + 1);
    }
    let legal = all_crash_images(&sim);
    assert_eq!(legal.len(), 5usize.pow(4));
    let drawn: BTreeSet<Vec<u8>> = (0..200).map(|seed| sim.crash_image_random(seed)).collect();
    assert!(drawn.is_subset(&legal) && drawn.len() > 50);
    assert_eq!(sim.crash_image_random(7), sim.crash_image_random(7));
}

const BLOCK: usize = 4096;

fn fates(sim: &DiskSim, fates: &[WriteFate]) -> Vec<u8> {
    assert_eq!(sim.pending_writes().len(), fates.len());
    sim.crash_image(&mut |index, _| fates[index])
}

#[test]
fn disk_writes_are_seen_at_once_and_durable_after_a_flush() {
    let (disk, sim) = sim_disk_from(vec![9; 2 * BLOCK]);
    disk.write_at(0, &[1; BLOCK]).unwrap();
    let mut seen = [0; BLOCK];
    disk.read_at(0, &mut seen).unwrap();
    assert_eq!(seen, [1; BLOCK]);
    assert_eq!(sim.durable_image(), [9; 2 * BLOCK]);
    assert_eq!(sim.pending_writes(), [PendingWrite { offset: 0, data: vec![1; BLOCK] }]);
    disk.flush().unwrap();
    assert_eq!(sim.durable_image(), [[1; BLOCK], [9; BLOCK]].concat());
    assert_eq!(sim.pending_writes(), []);
}

#[test]
fn a_crash_applies_loses_reorders_and_tears_writes() {
    let (disk, sim) = sim_disk(2 * BLOCK as u64);
    disk.write_at(0, &[1; BLOCK]).unwrap();
    disk.write_at(0, &[2; 2 * BLOCK]).unwrap();
    use WriteFate::{Applied, Lost, TornMask, TornPrefix};
    assert_eq!(fates(&sim, &[Lost, Lost]), [0; 2 * BLOCK]);
    assert_eq!(fates(&sim, &[Applied, Applied]), [2; 2 * BLOCK]);
    assert_eq!(fates(&sim, &[Applied, Lost]), [[1; BLOCK], [0; BLOCK]].concat());
    assert_eq!(fates(&sim, &[Lost, Applied]), [2; 2 * BLOCK]);
    let torn = fates(&sim, &[Applied, TornPrefix { sectors: 3 }]);
    assert_eq!(torn[..3 * SECTOR_BYTES], [2; 3 * SECTOR_BYTES]);
    assert_eq!(torn[3 * SECTOR_BYTES..BLOCK], [1; BLOCK - 3 * SECTOR_BYTES]);
    assert_eq!(torn[BLOCK..], [0; BLOCK]);
    // The second write's sectors 8 to 15 only: the earlier write came last where both went.
    let reordered = fates(&sim, &[Applied, TornMask { mask: 0xff00 }]);
    assert_eq!(reordered, [[1; BLOCK], [2; BLOCK]].concat());
}

#[test]
fn a_gathered_write_is_one_write() {
    let (disk, sim) = sim_disk(4 * BLOCK as u64);
    disk.write_vectored_at(BLOCK as u64, &[IoSlice::new(&[1; BLOCK]), IoSlice::new(&[2; BLOCK])])
        .unwrap();
    let data = [[1; BLOCK], [2; BLOCK]].concat();
    assert_eq!(sim.pending_writes(), [PendingWrite { offset: BLOCK as u64, data }]);
    assert_eq!((disk.stats().writes, sim.pending_writes()[0].sectors()), (1, 16));
}

#[test]
fn a_discarded_range_is_not_to_be_relied_on() {
    let (disk, sim) = sim_disk(2 * BLOCK as u64);
    disk.discard(0, BLOCK as u64).unwrap();
    let mut seen = [0; BLOCK];
    disk.read_at(0, &mut seen).unwrap();
    assert!(seen.iter().all(|&byte| byte != 0));
    assert_eq!(sim.durable_image(), [0; 2 * BLOCK], "nor is the discard durable before a flush");
}

#[test]
fn random_disk_images_are_legal_replayable_and_various() {
    let (disk, sim) = sim_disk(BLOCK as u64);
    disk.write_at(0, &[1; BLOCK]).unwrap();
    disk.write_at(0, &[2; BLOCK]).unwrap();
    let drawn: BTreeSet<Vec<u8>> = (0..200).map(|seed| sim.crash_image_random(seed)).collect();
    assert!(drawn.len() > 20);
    for image in &drawn {
        for sector in image.chunks(SECTOR_BYTES) {
            assert!(
                sector[0] <= 2 && sector.iter().all(|&byte| byte == sector[0]),
                "torn within a sector"
            );
        }
    }
    assert_eq!(sim.crash_image_random(5), sim.crash_image_random(5));
}

#[test]
fn the_flush_hook_sees_the_pending_writes_and_planted_drops_lose_a_flush() {
    let (disk, sim) = sim_disk(BLOCK as u64);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    sim.set_on_flush(Box::new(move |sim| record.lock().unwrap().push(sim.pending_writes().len())));
    sim.drop_flush_number(2);
    disk.write_at(0, &[1; BLOCK]).unwrap();
    disk.flush().unwrap();
    disk.write_at(0, &[2; BLOCK]).unwrap();
    disk.flush().unwrap();
    assert_eq!(sim.durable_image(), [1; BLOCK], "the second flush was dropped");
    sim.clear_on_flush();
    disk.flush().unwrap();
    assert_eq!(sim.durable_image(), [2; BLOCK]);
    assert_eq!((seen.lock().unwrap().clone(), sim.flush_calls()), (vec![1, 1], 3));
}

#[test]
fn injected_faults_fail_where_they_were_put() {
    let (disk, sim) = sim_disk(8 * BLOCK as u64);
    let block = |index: usize| (index * BLOCK) as u64;
    let mut buf = vec![0; 2 * BLOCK];
    sim.fail_reads(block(2)..block(2) + 1);
    sim.fail_writes(block(4)..block(5));
    disk.read_at(block(0), &mut buf).unwrap();
    let error = disk.read_at(block(1), &mut buf).unwrap_err();
    assert_eq!(error.errno(), libc::EIO);
    assert!(error.to_string().contains("read of 8192 bytes at offset 4096"), "{error}");
    disk.write_at(block(2), &buf).unwrap();
    assert_eq!(disk.write_at(block(3), &[1; 2 * BLOCK]).unwrap_err().errno(), libc::EIO);
    assert_eq!(disk.discard(block(4), block(1)).unwrap_err().errno(), libc::EIO);
    disk.read_at(block(3), &mut buf).unwrap();
    assert_eq!(buf, [0; 2 * BLOCK], "a failed write changes nothing");

    sim.clear_faults();
    sim.fail_writes_after(2);
    disk.write_at(block(4), &[1; BLOCK]).unwrap();
    disk.write_at(block(4), &[2; BLOCK]).unwrap();
    disk.write_at(block(4), &[3; BLOCK]).unwrap_err();
    sim.fail_flush(true);
    let error = disk.flush().unwrap_err();
    assert_eq!((error.errno(), sim.durable_image()), (libc::EIO, vec![0; 8 * BLOCK]));
    sim.clear_faults();
    disk.flush().unwrap();
    assert_eq!(sim.durable_image()[4 * BLOCK..5 * BLOCK], [2; BLOCK]);
}

#[test]
fn single_operations_go_wrong_as_planted() {
    let (disk, sim) = sim_disk(64 << 10);
    let block = |byte: u8| {
        let mut buf = AlignedBuf::new(4096);
        buf.fill(byte);
        buf
    };
    disk.write_at(0, &block(1)).unwrap();
    assert_eq!(sim.io_calls(), 1);
    sim.plant_fault(2, DiskFault::Errno(libc::ENOSPC));
    sim.plant_fault(3, DiskFault::Torn { mask: 0b101 });
    sim.plant_fault(4, DiskFault::Ended);
    sim.plant_fault(5, DiskFault::Errno(libc::EIO));
    let mut read = AlignedBuf::new(4096);
    disk.read_at(0, &mut read).unwrap();
    assert_eq!(disk.write_at(0, &block(2)).unwrap_err().errno(), libc::ENOSPC);
    disk.write_at(0, &block(3)).unwrap_err();
    assert!(matches!(disk.read_at(0, &mut read), Err(MediaError::Ended { offset: 0, .. })));
    assert_eq!(disk.flush().unwrap_err().errno(), libc::EIO);
    disk.read_at(0, &mut read).unwrap();
    let sectors: Vec<u8> = read.chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(sectors, [3, 1, 3, 1, 1, 1, 1, 1], "the write was torn, the others left nothing");
    assert_eq!(sim.durable_image()[0], 0, "the flush did nothing");
    disk.flush().unwrap();
    assert_eq!(sim.durable_image()[..1024], [[3; 512], [1; 512]].concat());

    sim.vanish_after(2, libc::ENXIO);
    disk.flush().unwrap();
    for _ in 0..2 {
        assert_eq!(disk.flush().unwrap_err().errno(), libc::ENXIO);
        assert_eq!(disk.read_at(0, &mut read).unwrap_err().errno(), libc::ENXIO);
    }
    sim.clear_faults();
    disk.read_at(0, &mut read).unwrap();

    let held = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = held.clone();
    sim.set_on_io(Box::new(move |op| {
        counter.fetch_add(u64::from(op == IoOp::Write), std::sync::atomic::Ordering::Relaxed);
    }));
    disk.write_at(0, &block(4)).unwrap();
    disk.flush().unwrap();
    sim.clear_on_io();
    disk.write_at(0, &block(5)).unwrap();
    assert_eq!(held.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn after_a_power_cut_nothing_reaches_media() {
    let (pm, pm_sim) = Pm::simulated(4096);
    let (disk, disk_sim) = sim_disk(8192);
    let mut block = AlignedBuf::new(4096);
    block.fill(7);
    pm.write(0, b"before");
    disk.write_at(0, &block).unwrap();
    let pending = (pm_sim.pending_lines(), disk_sim.pending_writes());
    disk_sim.cut_power();
    pm_sim.cut_power();
    pm.write(64, b"after");
    pm.flush(0, 4096);
    assert_eq!(pm.fence().unwrap_err().errno(), libc::EIO);
    assert!(
        disk.write_at(4096, &block).is_err()
            && disk.flush().is_err()
            && disk.discard(0, 4096).is_err()
    );
    disk_sim.clear_faults();
    assert!(disk.flush().is_err(), "for good");
    assert_eq!((pm_sim.pending_lines(), disk_sim.pending_writes()), pending);
    let mut bytes = [0; 5];
    pm.read(64, &mut bytes);
    assert_eq!(&bytes, b"after", "the processor still runs");
    disk.read_at(0, &mut block).unwrap();
}
