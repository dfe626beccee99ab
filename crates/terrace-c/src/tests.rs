//! Arguments, errors and texts.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use super::*;

fn open(path: &Path, flags: c_int) -> *mut terrace_file {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a zero.
    unsafe { terrace_open(path.as_ptr(), flags, 0o600) }
}

/// `errno`, and the text.
fn error() -> (c_int, String) {
    // SAFETY: no other call of this thread has come since.
    let text = unsafe { CStr::from_ptr(terrace_last_error()) };
    (std::io::Error::last_os_error().raw_os_error().unwrap(), text.to_string_lossy().into_owned())
}

#[track_caller]
fn failed_with(errno: c_int, words: &str) {
    let (got, text) = error();
    assert_eq!(got, errno, "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_file_is_written_and_read() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = open(&directory.path().join("file"), libc::O_RDWR | libc::O_CREAT);
    let mut begin = 7;
    let mut read = [0_u8; 10];
    let mut usage = terrace_usage {
        direct_calls: 9,
        direct_bytes: 9,
        mount_calls: 9,
        mount_bytes: 9,
        why: null(),
    };
    // SAFETY: the file is open, and there are as many bytes.
    unsafe {
        assert_eq!(terrace_append(file, b"abc".as_ptr().cast(), 3, &raw mut begin), 3);
        assert_eq!(begin, 0);
        assert_eq!(terrace_append(file, b"def".as_ptr().cast(), 3, null_mut()), 3);
        assert_eq!(terrace_pwrite(file, b"X".as_ptr().cast(), 1, 2), 1);
        assert_eq!(terrace_pwrite(file, null(), 0, 2), 0);
        assert_eq!(terrace_truncate(file, 5), 0);
        assert_eq!(terrace_size(file), 5);
        assert_eq!(terrace_sync(file), 0);
        assert_eq!(terrace_pread(file, read.as_mut_ptr().cast(), 10, 1), 4);
        assert_eq!(&read[..4], b"bXde");
        assert_eq!(terrace_usage(file, &raw mut usage), 0);
        assert_eq!(CStr::from_ptr(usage.why), c"not on a mount that lends files");
        assert_eq!(terrace_close(file), 0);
    }
    assert_eq!((usage.direct_calls, usage.direct_bytes), (0, 0));
    assert_eq!((usage.mount_calls, usage.mount_bytes), (8, 11));
}

#[test]
fn wrong_arguments_are_named() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let file = open(&path, libc::O_RDWR | libc::O_CREAT);
    let mut byte = 0_u8;
    let at = (&raw mut byte).cast::<c_void>();
    // SAFETY: what is no NULL is open and has a byte; calls that take more are refused.
    unsafe {
        assert!(terrace_open(null(), 0, 0).is_null());
        failed_with(libc::EINVAL, "the path is NULL");
        assert_eq!(terrace_pread(null_mut(), at, 1, 0), -1);
        failed_with(libc::EINVAL, "terrace_pread: ");
        assert_eq!(terrace_pwrite(null_mut(), at, 1, 0), -1);
        failed_with(libc::EINVAL, "terrace_pwrite: ");
        assert_eq!(terrace_append(null_mut(), at, 1, null_mut()), -1);
        failed_with(libc::EINVAL, "terrace_append: ");
        assert_eq!(terrace_sync(null_mut()), -1);
        failed_with(libc::EINVAL, "terrace_sync: ");
        assert_eq!(terrace_truncate(null_mut(), 0), -1);
        failed_with(libc::EINVAL, "terrace_truncate: ");
        assert_eq!(terrace_size(null_mut()), -1);
        failed_with(libc::EINVAL, "terrace_size: ");
        assert_eq!(terrace_usage(null_mut(), null_mut()), -1);
        failed_with(libc::EINVAL, "terrace_usage: ");
        assert_eq!(terrace_usage(file, null_mut()), -1);
        failed_with(libc::EINVAL, "the place for the numbers is NULL");
        assert_eq!(terrace_close(null_mut()), -1);
        failed_with(libc::EINVAL, "terrace_close: ");
        assert_eq!(terrace_pread(file, at, 1, -1), -1);
        failed_with(libc::EINVAL, "negative");
        assert_eq!(terrace_pwrite(file, at, 1, -1), -1);
        failed_with(libc::EINVAL, "negative");
        assert_eq!(terrace_truncate(file, -1), -1);
        failed_with(libc::EINVAL, "negative");
        assert_eq!(terrace_pread(file, null_mut(), 1, 0), -1);
        failed_with(libc::EFAULT, "the buffer is NULL");
        assert_eq!(terrace_append(file, at, usize::MAX, null_mut()), -1);
        failed_with(libc::EINVAL, "SSIZE_MAX");
        assert_eq!(terrace_size(file), 0);
        assert_eq!(terrace_close(file), 0);
    }
}

#[test]
fn errors_of_the_system_name_the_file_and_stay() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let missing = directory.path().join("missing");
    assert!(open(&missing, libc::O_RDWR).is_null());
    failed_with(libc::ENOENT, missing.to_str().unwrap());
    let path = directory.path().join("file");
    let file = open(&path, libc::O_RDONLY | libc::O_CREAT);
    failed_with(libc::ENOENT, missing.to_str().unwrap());
    // SAFETY: the file is open, and there is a byte.
    unsafe {
        assert_eq!(terrace_pwrite(file, b"a".as_ptr().cast(), 1, 0), -1);
        failed_with(libc::EBADF, "file: write: ");
        let others = std::thread::spawn(|| CStr::from_ptr(terrace_last_error()).to_owned());
        assert_eq!(others.join().unwrap(), c"".to_owned());
        assert_eq!(terrace_close(file), 0);
    }
    assert!(open(&path, libc::O_RDWR | libc::O_APPEND).is_null());
    failed_with(libc::EINVAL, "append to it instead");
}

#[test]
fn a_panic_is_an_error() {
    assert_eq!(guarded(-1, || panic!("a planted one")), -1);
    failed_with(libc::EIO, "libterrace: ");
}

#[test]
fn the_version_is_that_of_the_package() {
    // SAFETY: it ends with a zero.
    let version = unsafe { CStr::from_ptr(terrace_version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}
