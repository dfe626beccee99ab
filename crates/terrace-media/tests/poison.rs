//! PM that cannot be read: bus errors become errors of the reads that they befall, and of nothing
//! else.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;

use terrace_media::{MediaError, Pm, PmOpenOptions};

const PAGE: u64 = 4096;
const LEN: u64 = 64 * PAGE;

/// A region on a file below `dir`, its byte `i` being `i / 4096`.
fn region(dir: &Path, options: &PmOpenOptions) -> Arc<Pm> {
    let path = dir.join("pm");
    Pm::create_file(&path, LEN).unwrap();
    let pm = Pm::open(&path, &PmOpenOptions::default()).unwrap();
    (0..LEN / PAGE).for_each(|page| pm.write(page * PAGE, &[page as u8; PAGE as usize]));
    drop(pm);
    Pm::open(&path, options).unwrap()
}

fn truncate(pm: &Pm, len: u64) {
    OpenOptions::new().write(true).open(pm.path()).unwrap().set_len(len).unwrap();
}

fn tmpfs() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn a_load_behind_the_end_of_the_file_is_an_error_of_that_range_only() {
    for private in [false, true] {
        for dir in [tmpfs(), tempfile::tempdir().unwrap()] {
            let pm = region(dir.path(), &PmOpenOptions { private, ..Default::default() });
            assert_eq!(pm.check(0, LEN), Ok(()));
            truncate(&pm, 40 * PAGE);
            let mut bytes = [0xee; 100];
            let error = pm.try_read(41 * PAGE + 50, &mut bytes).unwrap_err();
            assert_eq!(bytes, [0; 100], "what cannot be read is zeros");
            let place = MediaError::Unreadable {
                path: pm.path().to_owned(),
                offset: 41 * PAGE,
                len_bytes: PAGE,
            };
            assert_eq!((&error, error.errno()), (&place, libc::EIO));
            assert!(error.to_string().contains("offset 167936 cannot be read"), "{error}");
            // Across the border, and atomically.
            assert!(pm.try_read(40 * PAGE - 10, &mut bytes).is_err());
            assert!(bytes[..10] == [39; 10] && bytes[10..] == [0; 90]);
            assert_eq!(pm.load_u64(50 * PAGE), 0);
            assert_eq!(pm.bad_ranges(), [40 * PAGE..42 * PAGE, 50 * PAGE..51 * PAGE]);
            // Good pages stay good, and fences succeed as long as no store is lost.
            pm.try_read(39 * PAGE, &mut bytes).unwrap();
            assert_eq!(bytes, [39; 100]);
            pm.write(0, b"new");
            pm.flush(0, 3);
            pm.fence().unwrap();
            pm.write(50 * PAGE, b"new");
            assert_eq!(pm.fence().is_err(), !private, "what stays in memory is not lost");
        }
    }
}

#[test]
fn a_store_to_bad_memory_is_never_durable() {
    type Store = fn(&Pm);
    let stores: [Store; 6] = [
        |pm| pm.write(45 * PAGE - 1, &[1, 2]),
        |pm| pm.write_nt(45 * PAGE, &[1; 8192]),
        |pm| pm.zero_nt(45 * PAGE + 100, 64),
        |pm| pm.store_u64(45 * PAGE, 0),
        |pm| assert_eq!(pm.compare_exchange_u64(45 * PAGE, 0, 7), Ok(0)),
        |pm| pm.flush(45 * PAGE, 64),
    ];
    for store in stores {
        let dir = tmpfs();
        let pm = region(dir.path(), &PmOpenOptions::default());
        truncate(&pm, 45 * PAGE);
        store(&pm);
        let error = pm.fence().unwrap_err();
        assert!(matches!(error, MediaError::StoreLost { .. }), "{error}");
        assert_eq!(error.errno(), libc::EIO);
        pm.write(0, b"x");
        pm.flush(0, 1);
        assert_eq!(pm.fence().unwrap_err(), error, "from then on every fence fails");
    }
}

#[test]
fn many_threads_run_into_the_same_bad_pages() {
    let dir = tmpfs();
    let pm = region(dir.path(), &PmOpenOptions::default());
    truncate(&pm, 8 * PAGE);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for page in 0..LEN / PAGE {
                    let mut bytes = [0xee; 64];
                    assert_eq!(
                        pm.try_read(page * PAGE, &mut bytes).is_err(),
                        page >= 8,
                        "page {page}"
                    );
                    assert_eq!(bytes, [if page < 8 { page as u8 } else { 0 }; 64]);
                }
            });
        }
    });
    let bad = pm.bad_ranges();
    assert!(bad.len() == 1 && bad[0] == (8 * PAGE..LEN), "each page is counted once: {bad:?}");
}

#[test]
fn a_failed_page_of_memory_is_as_bad() {
    let (pm, sim) = Pm::simulated(LEN);
    pm.write(PAGE, &[5; 8192]);
    pm.flush(PAGE, 8192);
    pm.fence().unwrap();
    pm.fail_page(PAGE + 17);
    let mut bytes = [0xee; 8192];
    assert!(pm.try_read(PAGE, &mut bytes).is_err());
    assert!(bytes[..4096] == [0; 4096] && bytes[4096..] == [5; 4096]);
    pm.check(2 * PAGE, PAGE).unwrap();
    assert_eq!(sim.durable_image()[PAGE as usize], 5, "the device is another matter");
    pm.fence().unwrap();
    pm.store_u64(PAGE, 1);
    pm.fence().unwrap_err();
}

/// Mapped again after it was closed, a region starts anew; and the handler looks after many.
#[test]
fn regions_come_and_go() {
    let dir = tmpfs();
    drop(region(dir.path(), &PmOpenOptions::default()));
    let path = dir.path().join("pm");
    for round in 0..50 {
        let open =
            || Pm::open(&path, &PmOpenOptions { lock: false, ..Default::default() }).unwrap();
        let (a, b) = (open(), open());
        truncate(&a, 2 * PAGE);
        assert_ne!(a.try_read(3 * PAGE, &mut [0; 8]), Ok(()), "round {round}");
        truncate(&a, LEN);
        assert_eq!(b.try_read(3 * PAGE, &mut [0; 8]), Ok(()));
        assert_ne!(
            a.try_read(3 * PAGE, &mut [0; 8]),
            Ok(()),
            "bad pages stay bad until the region is opened again"
        );
    }
}

/// A bus error elsewhere ends the process as ever: run in a process of its own.
#[test]
fn bus_errors_elsewhere_are_none_of_ours() {
    const CHILD: &str = "TERRACE_TEST_BUS_ERROR";
    let Some(dir) = std::env::var_os(CHILD) else {
        let dir = tmpfs();
        let this = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(this);
        let child = command
            .args(["--exact", "bus_errors_elsewhere_are_none_of_ours"])
            .env(CHILD, dir.path())
            .output();
        let status = child.unwrap().status;
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
        return;
    };
    let dir = Path::new(&dir);
    let pm = region(dir, &PmOpenOptions::default());
    truncate(&pm, PAGE);
    assert!(pm.try_read(PAGE, &mut [0; 8]).is_err(), "the handler is there");
    let file = std::fs::File::create_new(dir.join("other")).unwrap();
    // SAFETY: a new mapping, of an empty file: any access is a bus error, which is what the test is
    // about.
    unsafe {
        let flags = rustix::mm::MapFlags::SHARED;
        let base = rustix::mm::mmap(
            std::ptr::null_mut(),
            4096,
            rustix::mm::ProtFlags::READ,
            flags,
            &file,
            0,
        )
        .unwrap();
        std::ptr::read_volatile(base.cast::<u8>());
    }
    unreachable!("the load cannot succeed");
}
