//! Files of a file system that is no Terrace mount. `tests/forks.rs` has processes that fork: a
//! fork while a file is opened takes the direct path away from it, which tests here would see.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// A directory in memory.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn errno<T>(result: Result<T, Error>) -> i32 {
    result.err().expect("an error").errno()
}

#[test]
fn a_plain_file_takes_system_calls() {
    let directory = directory();
    let file = File::create(directory.path().join("file")).unwrap();
    assert_eq!(file.append(b"abc").unwrap(), 0);
    assert_eq!(file.append(b"").unwrap(), 3);
    assert_eq!(file.append(b"defg").unwrap(), 3);
    file.write_at(b"XY", 1).unwrap();
    file.write_at(b"end", 9).unwrap();
    let mut all = [7; 20];
    assert_eq!(file.read_at(&mut all, 0).unwrap(), 12);
    assert_eq!(&all[..12], b"aXYdefg\0\0end");
    assert_eq!(file.read_at(&mut all, 100).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    file.write_at(&[], 100).unwrap();
    file.set_len(5).unwrap();
    assert_eq!(file.size().unwrap(), 5);
    file.sync().unwrap();
    let usage = file.usage();
    assert_eq!((usage.direct_calls, usage.mount_calls, usage.mount_bytes), (0, 12, 24));
    assert_eq!(usage.why, Some(Why::NotOurs));
    file.close().unwrap();
    assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"aXYde");
}

/// The first files of a process: none is opened too early to go direct.
#[test]
fn threads_that_open_at_once_open_their_own() {
    let directory = directory();
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (path, barrier) = (directory.path().join(format!("file-{number}")), &barrier);
            scope.spawn(move || {
                barrier.wait();
                let file = File::create(path).unwrap();
                file.append(b"abc").unwrap();
                assert_eq!(file.usage().why, Some(Why::NotOurs));
            });
        }
    });
}

#[test]
fn long_calls_are_whole() {
    let directory = directory();
    let file = File::create(directory.path().join("file")).unwrap();
    let data: Vec<u8> = (0..PIECE_BYTES_MAX + 1).map(|i| (i % 251) as u8).collect();
    file.write_at(&data, 0).unwrap();
    assert_eq!(file.append(&data).unwrap(), data.len() as u64);
    let mut read = vec![0; data.len() + 1];
    assert_eq!(file.read_at(&mut read, data.len() as u64).unwrap(), data.len());
    assert!(read[..data.len()] == data);
}

#[test]
fn calls_fail_as_system_calls_do() {
    let directory = directory();
    let path = directory.path().join("file");
    assert_eq!(errno(File::open(&path)), libc::ENOENT);
    assert_eq!(errno(File::open(directory.path().join("a\0b"))), libc::EINVAL);
    assert_eq!(errno(File::open(directory.path().join("n".repeat(256)))), libc::ENAMETOOLONG);
    let writer = File::open_with(&path, libc::O_WRONLY | libc::O_CREAT, 0o600).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(errno(writer.read_at(&mut [0], 0)), libc::EBADF);
    let reader = File::open(&path).unwrap();
    assert_eq!(errno(reader.write_at(b"a", 0)), libc::EBADF);
    assert_eq!(errno(reader.write_at(b"", 0)), libc::EBADF);
    assert_eq!(errno(reader.append(b"a")), libc::EBADF);
    assert_eq!(errno(reader.append(b"")), libc::EBADF);
    assert_eq!(errno(reader.set_len(0)), libc::EINVAL);
    assert_eq!(errno(reader.read_at(&mut [0], 1 << 63)), libc::EINVAL);
    assert_eq!(errno(writer.write_at(b"a", u64::MAX)), libc::EINVAL);
    assert_eq!(errno(writer.set_len(u64::MAX)), libc::EINVAL);
    let again = File::open_with(&path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600);
    assert_eq!(errno(again), libc::EEXIST);
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn what_is_no_regular_file_can_be_opened() {
    let folder = directory();
    let folder = File::open(folder.path()).unwrap();
    assert_eq!(errno(folder.read_at(&mut [0], 0)), libc::EISDIR);
    let null = File::open_with("/dev/null", libc::O_RDWR, 0).unwrap();
    null.write_at(b"abc", 0).unwrap();
    assert_eq!(null.read_at(&mut [0; 10], 0).unwrap(), 0);
    assert_eq!(errno(null.append(b"abc")), libc::ESPIPE);
}

#[test]
fn flags_without_a_meaning_are_refused() {
    let directory = directory();
    let path = directory.path().join("file");
    for (flags, word) in [
        (libc::O_RDWR | libc::O_APPEND, "append"),
        (libc::O_RDWR | libc::O_DIRECT, "O_DIRECT"),
        (libc::O_RDWR | libc::O_TMPFILE, "flag"),
        (libc::O_PATH, "flag"),
        (libc::O_DIRECTORY, "flag"),
        (libc::O_ACCMODE, "O_RDWR"),
    ] {
        let error = File::open_with(&path, flags | libc::O_CREAT, 0o600).unwrap_err();
        assert_eq!(error.errno(), libc::EINVAL);
        let text = error.to_string();
        assert!(text.starts_with(path.to_str().unwrap()) && text.contains(word), "{text}");
    }
    assert!(!path.exists());
}

#[test]
fn threads_that_append_overwrite_nothing() {
    let directory = directory();
    let files = [(); 2].map(|()| File::create(directory.path().join("file")).unwrap());
    let places: BTreeSet<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|number| {
                let file = &files[number as usize % 2];
                scope.spawn(move || {
                    let append = |i: u64| {
                        let at = file.append(&(number * 1000 + i).to_le_bytes()).unwrap();
                        let mut read = [0; 8];
                        file.read_at(&mut read, at).unwrap();
                        assert_eq!(u64::from_le_bytes(read), number * 1000 + i);
                        at
                    };
                    (0..500).map(append).collect::<Vec<u64>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(places.len(), 2000);
    assert!(places.into_iter().eq((0..2000).map(|i| i * 8)));
}
