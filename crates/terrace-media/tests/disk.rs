//! Disks: the engines agree with each other and with plain memory, and every refusal says what and
//! where.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use terrace_media::{
    AlignedBuf, Disk, DiskOpenOptions, IoEngine, IoOp, LaterRead, MediaError, create_disk_file,
    device_len, memory_disk, open_disk,
};

const BLOCK: usize = 4096;
const LEN: u64 = 16 << 20;

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn new_file(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("disk");
    create_disk_file(&path, LEN).unwrap();
    path
}

/// Every way to open a disk file; `Uring` only where the system grants it.
fn ways() -> Vec<DiskOpenOptions> {
    let dir = directory();
    let path = new_file(&dir);
    let mut ways = Vec::new();
    for engine in [IoEngine::Auto, IoEngine::Uring, IoEngine::Sync] {
        for direct in [true, false] {
            let options = DiskOpenOptions { engine, direct, ..Default::default() };
            match open_disk(&path, &options) {
                Ok(_) => ways.push(options),
                Err(error) => assert!(matches!(error, MediaError::EngineRefused { .. }), "{error}"),
            }
        }
    }
    ways
}

fn pattern(seed: u8, len: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::new(len);
    for (index, byte) in buf.iter_mut().enumerate() {
        *byte = (index as u8) ^ (index >> 8) as u8 ^ (index >> 16) as u8 ^ seed;
    }
    buf
}

fn read(disk: &dyn Disk, off: u64, len: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::new(len);
    disk.read_at(off, &mut buf).unwrap();
    buf
}

#[derive(Clone, Debug)]
enum Op {
    Write { block: usize, blocks: usize, seed: u8, misaligned: bool },
    WriteVectored { block: usize, buffers: Vec<usize>, seed: u8 },
    Read { block: usize, blocks: usize, misaligned: bool },
    ReadVectored { block: usize, buffers: Vec<usize> },
    Flush,
}

/// Small files keep most operations overlapping; a few are long enough for several pieces.
fn op() -> impl Strategy<Value = Op> {
    let block = 0..1024usize;
    let blocks = || prop_oneof![4 => 1..8usize, 1 => 250..700usize];
    let buffers = || prop::collection::vec(prop_oneof![8 => 0..4usize, 1 => 100..300usize], 0..20);
    prop_oneof![
        (block.clone(), blocks(), any::<u8>(), any::<bool>()).prop_map(
            |(block, blocks, seed, misaligned)| Op::Write { block, blocks, seed, misaligned }
        ),
        (block.clone(), buffers(), any::<u8>())
            .prop_map(|(block, buffers, seed)| { Op::WriteVectored { block, buffers, seed } }),
        (block.clone(), blocks(), any::<bool>()).prop_map(|(block, blocks, misaligned)| Op::Read {
            block,
            blocks,
            misaligned
        }),
        (block, buffers()).prop_map(|(block, buffers)| Op::ReadVectored { block, buffers }),
        Just(Op::Flush),
    ]
}

/// Does one operation, and gives what a read read.
fn run(disk: &dyn Disk, op: &Op) -> Result<Vec<u8>, MediaError> {
    match op {
        &Op::Write { block, blocks, seed, misaligned } => {
            let shift = usize::from(misaligned);
            let data = pattern(seed, blocks * BLOCK + shift);
            disk.write_at((block * BLOCK) as u64, &data[shift..]).map(|()| Vec::new())
        }
        Op::WriteVectored { block, buffers, seed } => {
            let data: Vec<_> =
                buffers.iter().map(|blocks| pattern(*seed, blocks * BLOCK)).collect();
            let slices: Vec<_> = data.iter().map(|buf| IoSlice::new(buf)).collect();
            disk.write_vectored_at((block * BLOCK) as u64, &slices).map(|()| Vec::new())
        }
        &Op::Read { block, blocks, misaligned } => {
            let shift = usize::from(misaligned);
            let mut buf = AlignedBuf::new(blocks * BLOCK + shift);
            disk.read_at((block * BLOCK) as u64, &mut buf[shift..]).map(|()| buf[shift..].to_vec())
        }
        Op::ReadVectored { block, buffers } => {
            let mut bufs: Vec<_> =
                buffers.iter().map(|blocks| AlignedBuf::new(blocks * BLOCK)).collect();
            let mut slices: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
            disk.read_vectored_at((block * BLOCK) as u64, &mut slices)?;
            Ok(bufs.iter().flat_map(|buf| buf.iter().copied()).collect())
        }
        Op::Flush => disk.flush().map(|()| Vec::new()),
    }
}

/// Each case takes real files; `PROPTEST_CASES` overrides their number.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    ProptestConfig { cases, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn every_engine_does_what_memory_does(ops in prop::collection::vec(op(), 1..20)) {
        let model = memory_disk(LEN);
        let dir = directory();
        let mut disks: Vec<Arc<dyn Disk>> = Vec::new();
        for (index, options) in ways().iter().enumerate() {
            let path = dir.path().join(index.to_string());
            create_disk_file(&path, LEN).unwrap();
            disks.push(open_disk(&path, options).unwrap());
        }
        for op in &ops {
            let expected = run(&*model, op);
            for disk in &disks {
                let actual = run(&**disk, op);
                // Errors differ in their path only.
                prop_assert_eq!(
                    actual.as_ref().map_err(MediaError::errno),
                    expected.as_ref().map_err(MediaError::errno)
                );
            }
        }
        for disk in &disks {
            prop_assert!(read(&**disk, 0, LEN as usize)[..] == read(&*model, 0, LEN as usize)[..]);
            prop_assert_eq!(disk.stats().bytes_written, model.stats().bytes_written);
        }
    }
}

#[test]
fn more_buffers_than_the_kernel_takes_at_once() {
    const BUFFERS: usize = 2500;
    for options in ways() {
        let dir = directory();
        let disk = open_disk(&new_file(&dir), &options).unwrap();
        let data = pattern(3, BUFFERS * BLOCK);
        // Scattered in memory: every second block of a larger buffer, from its end to its start.
        let mut scattered = AlignedBuf::new(2 * BUFFERS * BLOCK);
        for (index, block) in scattered.chunks_mut(2 * BLOCK).rev().enumerate() {
            block[..BLOCK].copy_from_slice(&data[index * BLOCK..][..BLOCK]);
        }
        let slices: Vec<_> =
            scattered.chunks(2 * BLOCK).rev().map(|block| IoSlice::new(&block[..BLOCK])).collect();
        disk.write_vectored_at(BLOCK as u64, &slices).unwrap();
        assert!(read(&*disk, BLOCK as u64, BUFFERS * BLOCK)[..] == data[..], "{options:?}");

        let mut target = AlignedBuf::new(2 * BUFFERS * BLOCK);
        let mut slices: Vec<_> = target
            .chunks_mut(2 * BLOCK)
            .rev()
            .map(|block| IoSliceMut::new(&mut block[..BLOCK]))
            .collect();
        disk.read_vectored_at(BLOCK as u64, &mut slices).unwrap();
        assert!(target[..] == scattered[..], "{options:?}");
        assert_eq!(
            (disk.stats().writes, disk.stats().bytes_written),
            (1, (BUFFERS * BLOCK) as u64)
        );
    }
}

#[test]
fn threads_share_a_disk() {
    const THREADS: u64 = 6;
    let bytes = (LEN / 8) as usize;
    for options in ways() {
        let dir = directory();
        let disk = open_disk(&new_file(&dir), &options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let disk = &disk;
                scope.spawn(move || {
                    let data = pattern(thread as u8, bytes);
                    for _ in 0..3 {
                        disk.write_at(thread * bytes as u64, &data).unwrap();
                        assert!(read(&**disk, thread * bytes as u64, bytes)[..] == data[..]);
                    }
                    disk.flush().unwrap();
                });
            }
        });
        assert_eq!((disk.stats().reads, disk.stats().flushes), (3 * THREADS, THREADS));
    }
}

#[test]
fn a_truncated_disk_is_reported_where_it_ends_and_the_engine_stays_usable() {
    for options in ways() {
        let dir = directory();
        let path = new_file(&dir);
        let disk = open_disk(&path, &options).unwrap();
        let end = (5 << 20) + BLOCK as u64;
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(end).unwrap();
        let error = disk.read_at(0, &mut AlignedBuf::new(LEN as usize)).unwrap_err();
        let MediaError::Ended { path: reported, op: IoOp::Read, offset } = &error else {
            panic!("{error}")
        };
        assert_eq!((reported, error.errno()), (&path, libc::EIO));
        assert!(*offset >= end, "{error}");
        let error = disk.read_at(end - BLOCK as u64, &mut AlignedBuf::new(2 * BLOCK)).unwrap_err();
        assert_eq!(error, MediaError::Ended { path, op: IoOp::Read, offset: end });
        assert!(read(&*disk, 0, 5 << 20).iter().all(|&byte| byte == 0));
    }
}

#[test]
fn misaligned_and_far_operations_are_refused_alike() {
    let dir = directory();
    let real = open_disk(&new_file(&dir), &DiskOpenOptions::default()).unwrap();
    let (simulated, _sim) = terrace_media::sim_disk(LEN);
    for disk in [real, memory_disk(LEN), simulated] {
        let mut buf = AlignedBuf::new(2 * BLOCK);
        for (off, len) in [(1, BLOCK), (512, BLOCK), (0, 512), (0, BLOCK + 1)] {
            let error = disk.write_at(off, &buf[..len]).unwrap_err();
            assert!(
                matches!(
                    error,
                    MediaError::Misaligned { op: IoOp::Write, offset, .. } if offset == off
                ),
                "{error}"
            );
            disk.read_at(off, &mut buf[..len]).unwrap_err();
        }
        disk.discard(0, 100).unwrap_err();
        for off in [LEN - BLOCK as u64, LEN, u64::MAX - BLOCK as u64 + 1] {
            let error = disk.read_at(off, &mut buf).unwrap_err();
            assert!(
                matches!(
                    error,
                    MediaError::OutOfRange { op: IoOp::Read, offset, .. } if offset == off
                ),
                "{error}"
            );
            disk.write_at(off, &buf).unwrap_err();
            disk.discard(off, 2 * BLOCK as u64).unwrap_err();
        }
        let uneven = [IoSlice::new(&buf[..512]), IoSlice::new(&buf[..BLOCK - 512])];
        let error = disk.write_vectored_at(0, &uneven).unwrap_err();
        assert!(matches!(error, MediaError::Misaligned { len_bytes: 512, .. }), "{error}");
        disk.read_at(LEN, &mut []).unwrap();
        disk.write_vectored_at(0, &[]).unwrap();
        disk.discard(0, 0).unwrap();
    }
}

#[test]
fn a_disk_in_use_is_refused() {
    let dir = directory();
    let path = new_file(&dir);
    let first = open_disk(&path, &DiskOpenOptions::default()).unwrap();
    let error = open_disk(&path, &DiskOpenOptions::default()).unwrap_err();
    assert_eq!(error, MediaError::InUse { path: path.clone() });
    assert!(error.to_string().contains("already in use: is the volume mounted"));
    open_disk(&path, &DiskOpenOptions { lock: false, ..Default::default() }).unwrap();
    drop(first);
    open_disk(&path, &DiskOpenOptions::default()).unwrap();
}

#[test]
fn a_read_only_disk_reads_and_refuses_writes() {
    let dir = directory();
    let path = new_file(&dir);
    let disk =
        open_disk(&path, &DiskOpenOptions { read_only: true, ..Default::default() }).unwrap();
    assert!(read(&*disk, 0, BLOCK).iter().all(|&byte| byte == 0));
    let error = disk.write_at(8192, &AlignedBuf::new(BLOCK)).unwrap_err();
    assert_eq!(error.errno(), libc::EBADF);
    let message = error.to_string();
    assert!(
        message.contains("write of 4096 bytes at offset 8192")
            && message.contains(path.to_str().unwrap())
    );
    assert_eq!(disk.discard(0, 4096).unwrap_err().errno(), libc::EBADF);
    assert_eq!(disk.stats().writes, 0);
}

#[test]
fn discarding_gives_space_back() {
    let dir = directory();
    let path = new_file(&dir);
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < LEN / 2, "a disk file is sparse");
    let disk = open_disk(&path, &DiskOpenOptions::default()).unwrap();
    disk.write_at(0, &pattern(1, 4 << 20)).unwrap();
    disk.flush().unwrap();
    let before = fs::metadata(&path).unwrap().blocks();
    disk.discard(1 << 20, 2 << 20).unwrap();
    assert!(fs::metadata(&path).unwrap().blocks() + (2 << 20) / 512 <= before);
    let contents = read(&*disk, 0, 4 << 20);
    assert!(contents[..1 << 20] == pattern(1, 4 << 20)[..1 << 20]);
    assert!(contents[1 << 20..3 << 20].iter().all(|&byte| byte == 0));
    assert_eq!((disk.stats().discards, disk.len()), (1, LEN));
}

#[test]
fn a_file_system_without_direct_io_serves_too() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let path = new_file(&dir);
    for engine in [IoEngine::Auto, IoEngine::Sync] {
        let disk = open_disk(&path, &DiskOpenOptions { engine, ..Default::default() }).unwrap();
        let data = pattern(9, 3 << 20);
        disk.write_at(BLOCK as u64, &data).unwrap();
        disk.flush().unwrap();
        assert!(read(&*disk, BLOCK as u64, data.len())[..] == data[..]);
    }
}

#[test]
fn a_modelled_disk_works_the_same() {
    let dir = directory();
    let model = Some("optane-ssd".parse().unwrap());
    let disk =
        open_disk(&new_file(&dir), &DiskOpenOptions { model, ..Default::default() }).unwrap();
    disk.write_at(0, &pattern(2, BLOCK)).unwrap();
    disk.flush().unwrap();
    assert!(read(&*disk, 0, BLOCK)[..] == pattern(2, BLOCK)[..]);
}

#[test]
fn creating_and_opening_refuse_what_they_must() {
    let dir = directory();
    let path = new_file(&dir);
    assert_eq!(device_len(&path).unwrap(), LEN);
    let error = create_disk_file(&path, LEN).unwrap_err();
    assert_eq!(error, MediaError::AlreadyExists { path: path.clone() });

    let other = dir.path().join("other");
    for len_bytes in [0, 100, u64::MAX - 4095] {
        create_disk_file(&other, len_bytes).unwrap_err();
        assert!(!other.exists(), "{len_bytes}");
    }
    fs::write(&other, [0; 4095]).unwrap();
    let open = |path: &std::path::Path| open_disk(path, &DiskOpenOptions::default()).unwrap_err();
    assert!(matches!(open(&other), MediaError::BadLength { len_bytes: 4095, .. }));
    assert!(open(dir.path()).to_string().contains("is a directory"));
    assert!(open("/dev/null".as_ref()).to_string().contains("is a character device"));
    assert_eq!(open(&dir.path().join("missing")).errno(), libc::ENOENT);
    assert_eq!(device_len("/dev/null".as_ref()).unwrap_err().errno(), libc::EINVAL);

    fs::write(&other, [7; 10_000]).unwrap();
    let disk = open_disk(&other, &DiskOpenOptions::default()).unwrap();
    assert_eq!(disk.len(), 8192, "rounded down to whole blocks");
    assert!(read(&*disk, 4096, 4096).iter().all(|&byte| byte == 7));
}

/// Begins a read of `len_bytes`; the receiver gets the buffer, and whether all of it came.
fn begin(
    disk: &dyn Disk,
    off: u64,
    len_bytes: usize,
) -> Result<std::sync::mpsc::Receiver<(AlignedBuf, bool)>, LaterRead> {
    let (tell, told) = std::sync::mpsc::channel();
    let done = Box::new(move |buffer, is_whole| tell.send((buffer, is_whole)).unwrap());
    disk.begin_read(off, LaterRead { buffer: AlignedBuf::new(1 << 20), len_bytes, done })?;
    Ok(told)
}

#[test]
fn reads_that_nobody_waits_for_come_side_by_side() {
    for way in ways() {
        let dir = directory();
        let disk = open_disk(&new_file(&dir), &way).unwrap();
        let contents = pattern(7, LEN as usize);
        disk.write_at(0, &contents).unwrap();
        let begun = (0..500u64).map(|i| (i * 7919 % 240) * (64 << 10)).map(|off| {
            let len = BLOCK * (1 + off as usize / BLOCK % 16);
            (off as usize, len, begin(disk.as_ref(), off, len))
        });
        let begun: Vec<_> = begun.collect();
        let mut came = 0;
        for (off, len, read) in begun {
            match read {
                Ok(told) => {
                    let (buffer, is_whole) = told.recv().unwrap();
                    assert!(
                        is_whole && buffer[..len] == contents[off..off + len],
                        "{way:?}: {off}"
                    );
                    came += 1;
                }
                // Enough were under way.
                Err(read) => assert_eq!(read.len_bytes, len),
            }
        }
        match way.engine {
            IoEngine::Uring if way.direct => assert_ne!(came, 0, "{way:?}"),
            IoEngine::Auto if way.direct => {}
            _ => assert_eq!(came, 0),
        }
        assert_eq!(disk.stats().reads, came, "{way:?}");
    }
}

#[test]
fn a_disk_gives_back_reads_that_it_cannot_begin_and_goes_with_reads_under_way() {
    let dir = directory();
    let disk = open_disk(&new_file(&dir), &DiskOpenOptions::default()).unwrap();
    for (off, len) in [(0, 0), (0, 100), (1, BLOCK), (LEN, BLOCK), (0, 2 << 20)] {
        assert!(begin(disk.as_ref(), off, len).is_err(), "{len} bytes at {off}");
    }
    assert!(begin(memory_disk(LEN).as_ref(), 0, BLOCK).is_err(), "one in memory has no queue");
    let begun: Vec<_> =
        (0..32).filter_map(|i| begin(disk.as_ref(), i << 16, 1 << 16).ok()).collect();
    drop(disk);
    assert!(begun.iter().all(|told| told.recv().unwrap().1));
}

#[test]
fn the_last_read_may_be_the_last_owner_of_its_disk() {
    let dir = directory();
    let disk = open_disk(&new_file(&dir), &DiskOpenOptions::default()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let owner = Arc::clone(&disk);
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let done = Box::new(move |_, is_whole| {
        gone.recv().unwrap();
        drop(owner);
        tell.send(is_whole).unwrap();
    });
    let read = LaterRead { buffer: AlignedBuf::new(BLOCK), len_bytes: BLOCK, done };
    if disk.begin_read(0, read).is_ok() {
        drop(disk);
        go.send(()).unwrap();
        assert!(told.recv().unwrap());
    }
}
