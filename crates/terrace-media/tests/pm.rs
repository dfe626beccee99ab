//! PM regions: kinds, stores of every alignment, locking, and files created whole or not at all.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use terrace_media::{DeviceModel, MediaError, Pm, PmKind, PmOpenOptions};

const LEN: u64 = 256 << 10;

/// A directory on tmpfs, or one on the file system of the build.
fn directory(kind: PmKind) -> TempDir {
    let parent = if kind == PmKind::Emulated { "/dev/shm" } else { env!("CARGO_TARGET_TMPDIR") };
    TempDir::new_in(parent).unwrap()
}

fn new_file(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("pm");
    Pm::create_file(&path, LEN).unwrap();
    path
}

fn bytes_at(pm: &Pm, off: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    pm.read(off, &mut bytes);
    bytes
}

fn panics(access: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(access)).expect_err("the access is out of bounds");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn kinds_are_detected_and_stores_survive_closing() {
    for kind in [PmKind::Emulated, PmKind::Msync] {
        let dir = directory(kind);
        let path = new_file(&dir);
        let pm = Pm::open(&path, &PmOpenOptions::default()).unwrap();
        assert_eq!((pm.kind(), pm.len(), pm.path()), (kind, LEN, path.as_path()));
        assert_eq!(pm.flush_instruction() == "msync", kind == PmKind::Msync);
        pm.write(100, b"cached");
        pm.flush(100, 6);
        pm.write_nt(70_000, &[7; 5000]);
        pm.store_u64(200_000, 42);
        pm.flush(200_000, 8);
        pm.fence().unwrap();
        pm.zero_nt(70_001, 100);
        pm.fence().unwrap();
        pm.fence().unwrap();
        drop(pm);

        let pm = Pm::open(&path, &PmOpenOptions { read_only: true, ..Default::default() }).unwrap();
        assert_eq!(bytes_at(&pm, 100, 6), b"cached");
        assert_eq!(bytes_at(&pm, 70_000, 102), [&[7][..], &[0; 100], &[7]].concat());
        assert_eq!(pm.load_u64(200_000), 42);
        assert_eq!(bytes_at(&pm, 0, 100), [0; 100], "a new file is zero");
    }
    assert_eq!(
        [PmKind::Dax, PmKind::Emulated, PmKind::Msync].map(|kind| kind.to_string()),
        ["dax", "emulated", "msync"]
    );
}

#[test]
fn files_are_fully_allocated() {
    for kind in [PmKind::Emulated, PmKind::Msync] {
        let dir = directory(kind);
        let metadata = fs::metadata(new_file(&dir)).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 >= LEN, "{kind}");
    }
}

#[test]
fn concurrent_fences_on_a_synced_file_all_return() {
    let dir = directory(PmKind::Msync);
    let pm = Pm::open(&new_file(&dir), &PmOpenOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let pm = &pm;
            scope.spawn(move || {
                for round in 0..10 {
                    let off = (thread * 10 + round) * 4096;
                    pm.write_nt(off, &[thread as u8 + 1; 64]);
                    pm.fence().unwrap();
                }
            });
        }
    });
    for page in 0..40 {
        assert_eq!(bytes_at(&pm, page * 4096, 64), [(page / 10) as u8 + 1; 64]);
    }
    assert_eq!(pm.stats().fences, 40);
}

#[test]
fn private_stores_stay_in_memory() {
    for kind in [PmKind::Emulated, PmKind::Msync] {
        let dir = directory(kind);
        let path = new_file(&dir);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        let pm = Pm::open(&path, &PmOpenOptions { private: true, ..Default::default() }).unwrap();
        assert_eq!(pm.kind(), kind);
        pm.write(0, b"gone tomorrow");
        pm.flush(0, 13);
        pm.fence().unwrap();
        assert_eq!(bytes_at(&pm, 0, 13), b"gone tomorrow");
        assert_eq!(fs::read(&path).unwrap()[..13], [0; 13]);
    }
}

#[test]
fn accesses_out_of_bounds_and_stores_to_read_only_regions_panic() {
    let pm = Pm::anonymous(4096);
    for (off, len) in [(4096, 1), (4090, 7), (u64::MAX, 1), (u64::MAX - 3, 4), (1 << 63, 1)] {
        assert!(panics(|| pm.write_nt(off, &vec![0; len])).contains("4096 bytes"));
        assert!(panics(|| pm.write(off, &vec![0; len])).contains("<memory>"));
        assert!(panics(|| pm.zero_nt(off, len as u64)).contains("offset"));
        assert!(panics(|| pm.flush(off, len as u64)).contains("offset"));
        assert!(panics(|| pm.read(off, &mut vec![0; len])).contains("offset"));
    }
    panics(|| pm.store_u64(4, 0));
    panics(|| pm.store_u64(4096, 0));
    panics(|| assert_eq!(pm.load_u64(4092), 0));
    panics(|| pm.zero_nt(0, u64::MAX));
    pm.write_nt(4096, &[]);
    pm.read(4096, &mut []);

    let dir = directory(PmKind::Emulated);
    let pm = Pm::open(&new_file(&dir), &PmOpenOptions { read_only: true, ..Default::default() })
        .unwrap();
    assert!(panics(|| pm.write(0, b"x")).contains("read-only"));
    panics(|| pm.store_u64(0, 1));
    assert_eq!(pm.load_u64(0), 0);
}

#[test]
fn words_are_loaded_stored_and_exchanged() {
    let pm = Pm::anonymous(4096);
    pm.store_u64(8, u64::from_le_bytes(*b"tail-ptr"));
    assert_eq!(bytes_at(&pm, 8, 8), b"tail-ptr");
    assert_eq!(pm.compare_exchange_u64(16, 0, 5), Ok(0));
    assert_eq!(pm.compare_exchange_u64(16, 0, 6), Err(5));
    assert_eq!(pm.load_u64(16), 5);
}

#[test]
fn statistics_count_bytes_flushes_and_fences() {
    let pm = Pm::anonymous(1 << 20);
    assert_eq!(pm.stats(), Default::default());
    pm.write(0, &[1; 10]);
    pm.write_nt(1, &[1; 100]);
    pm.zero_nt(0, 1000);
    pm.store_u64(0, 1);
    assert_eq!(pm.compare_exchange_u64(0, 7, 8), Err(1), "a failed exchange stores nothing");
    pm.flush(0, 1000);
    pm.fence().unwrap();
    pm.fence().unwrap();
    let stats = pm.stats();
    assert_eq!((stats.bytes_stored, stats.flushes, stats.fences), (1118, 1, 2));
}

#[test]
fn a_region_with_a_model_works_the_same() {
    let dir = directory(PmKind::Emulated);
    let model: DeviceModel = "pm".parse().unwrap();
    let pm = Pm::open(&new_file(&dir), &PmOpenOptions { model: Some(model), ..Default::default() })
        .unwrap();
    pm.write_nt(3, &[9; 300]);
    pm.flush(3, 300);
    pm.fence().unwrap();
    assert_eq!(bytes_at(&pm, 2, 302), [&[0][..], &[9; 300], &[0]].concat());
}

#[test]
fn a_region_in_use_is_refused() {
    let dir = directory(PmKind::Emulated);
    let path = new_file(&dir);
    let first = Pm::open(&path, &PmOpenOptions::default()).unwrap();
    let error = Pm::open(&path, &PmOpenOptions::default()).unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY);
    let message = error.to_string();
    assert!(
        message.contains("already in use: is the volume mounted")
            && message.contains(path.to_str().unwrap())
    );
    Pm::open(&path, &PmOpenOptions { lock: false, ..Default::default() }).unwrap();
    drop(first);
    Pm::open(&path, &PmOpenOptions::default()).unwrap();
}

#[test]
fn what_cannot_be_pm_is_refused_by_name() {
    let dir = directory(PmKind::Emulated);
    let refused = |path: &Path| Pm::open(path, &PmOpenOptions::default()).unwrap_err();
    assert!(refused(dir.path()).to_string().contains("is a directory"));
    assert!(refused(Path::new("/dev/null")).to_string().contains("character device"));
    assert_eq!(refused(&dir.path().join("missing")).errno(), libc::ENOENT);
    for len in [0, 4095, 4097] {
        let odd = dir.path().join(len.to_string());
        fs::write(&odd, vec![0; len]).unwrap();
        let expected = MediaError::BadLength {
            path: odd.clone(),
            len_bytes: len as u64,
            multiple_bytes: 4096,
        };
        assert_eq!(refused(&odd), expected);
    }
    let devices = fs::read_dir("/dev").unwrap().flatten();
    let is_block_device =
        |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_block_device());
    if let Some(device) = devices.into_iter().find(is_block_device) {
        assert!(refused(&device.path()).to_string().contains("is a block device"));
    }
}

#[test]
fn creating_overwrites_nothing_and_leaves_nothing_behind() {
    for kind in [PmKind::Emulated, PmKind::Msync] {
        let dir = directory(kind);
        let path = dir.path().join("pm");
        let error = Pm::create_file(&path, 1 << 50).unwrap_err();
        match kind {
            PmKind::Emulated => {
                assert!(matches!(error, MediaError::NotEnoughMemory { .. }), "{error}")
            }
            _ => assert!(matches!(error, MediaError::Create { .. }), "{error}"),
        }
        assert!(error.to_string().contains("1125899906842624"), "{error}");
        assert_eq!(Pm::create_file(&path, 0).unwrap_err().errno(), libc::EINVAL);
        assert_eq!(Pm::create_file(&path, 5000).unwrap_err().errno(), libc::EINVAL);
        assert!(!path.exists(), "{kind}");
        assert_eq!(Pm::create_file(&path.join("below"), LEN).unwrap_err().errno(), libc::ENOENT);

        fs::write(&path, "mine").unwrap();
        let error = Pm::create_file(&path, LEN).unwrap_err();
        assert_eq!(error, MediaError::AlreadyExists { path: path.clone() });
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}

#[derive(Clone, Debug)]
enum Store {
    Cached(Vec<u8>),
    Streamed(Vec<u8>),
    Zeroed(usize),
}

const REGION: usize = 1024;

fn stores() -> impl Strategy<Value = Vec<(usize, Store)>> {
    let data = || prop::collection::vec(any::<u8>(), 0..400);
    let store = prop_oneof![
        data().prop_map(Store::Cached),
        data().prop_map(Store::Streamed),
        (0..400usize).prop_map(Store::Zeroed),
    ];
    prop::collection::vec((0..=REGION, store), 1..40)
}

proptest! {
    /// Every alignment of both ends, on real memory and under the recorder, against a plain vector.
    #[test]
    fn stores_of_any_alignment_store_exactly_their_bytes(stores in stores()) {
        let plain = Pm::anonymous(REGION as u64);
        let (simulated, sim) = Pm::simulated(REGION as u64);
        let mut model = vec![0; REGION];
        for (off, store) in stores {
            let room = REGION - off;
            for pm in [&plain, &simulated] {
                let at = off as u64;
                match &store {
                    Store::Cached(data) => {
                        let data = &data[..data.len().min(room)];
                        pm.write(at, data);
                        pm.flush(at, data.len() as u64);
                        model[off..off + data.len()].copy_from_slice(data);
                    }
                    Store::Streamed(data) => {
                        let data = &data[..data.len().min(room)];
                        pm.write_nt(at, data);
                        model[off..off + data.len()].copy_from_slice(data);
                    }
                    Store::Zeroed(len) => {
                        let len = (*len).min(room);
                        pm.zero_nt(at, len as u64);
                        model[off..off + len].fill(0);
                    }
                }
                pm.fence().unwrap();
            }
        }
        prop_assert_eq!(&bytes_at(&plain, 0, REGION), &model);
        prop_assert_eq!(&bytes_at(&simulated, 0, REGION), &model);
        prop_assert_eq!(&sim.durable_image(), &model);
        prop_assert_eq!(sim.pending_lines(), vec![]);
    }
}

/// Exhaustive where the edges are: every start and every length over three cache lines, the bytes
/// around untouched.
#[test]
fn streamed_stores_have_exact_edges() {
    let pm = Pm::anonymous(4096);
    let source: Vec<u8> = (1..=200).collect();
    for off in 0..64usize {
        for len in 0..=192usize {
            pm.write(0, &[0xee; 320]);
            pm.write_nt(off as u64, &source[..len]);
            pm.fence().unwrap();
            let expected =
                [&vec![0xee; off][..], &source[..len], &vec![0xee; 320 - off - len]].concat();
            assert_eq!(bytes_at(&pm, 0, 320), expected, "write_nt of {len} at {off}");
            pm.write(0, &[0xee; 320]);
            pm.zero_nt(off as u64, len as u64);
            pm.fence().unwrap();
            let expected =
                [&vec![0xee; off][..], &vec![0; len], &vec![0xee; 320 - off - len]].concat();
            assert_eq!(bytes_at(&pm, 0, 320), expected, "zero_nt of {len} at {off}");
        }
    }
}

#[test]
fn streamed_copies_are_whole_wherever_they_begin() {
    let streamed = terrace_media::StreamedCopy::detect();
    let from: Vec<u8> = (0..8192_u32).map(|n| (n % 251) as u8).collect();
    for (start, len) in [(0, 0), (0, 4096), (1, 4095), (63, 130), (64, 64), (100, 8000)] {
        let mut to = vec![0; 8192];
        streamed.copy(&mut to[start..start + len], &from[..len]);
        streamed.fence();
        assert_eq!(to[start..start + len], from[..len], "{len} bytes at {start}");
        let outside = to[..start].iter().chain(&to[start + len..]);
        assert!(outside.into_iter().all(|&byte| byte == 0), "{len} bytes at {start}");
    }
}
