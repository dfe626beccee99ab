//! Buffered files. They read and write past the library, so their descriptors stay on the mount.

use std::ffi::{c_char, c_int, c_void};

use libc::{DIR, FILE};

use crate::backend::Reason;
use crate::{real, state};

/// Opens a buffered file, whose number belongs to it.
fn buffered(open: impl FnOnce() -> *mut FILE) -> *mut FILE {
    state::withdraw();
    let file = open();
    if !file.is_null() {
        // SAFETY: The C library has just made it.
        state::forget(unsafe { libc::fileno(file) }, Reason::Stdio);
    }
    file
}

/// The number of a buffered file goes away with it.
fn closing(file: *mut FILE) {
    if !file.is_null() {
        // SAFETY: The program gives it to a function that uses it.
        let fd = unsafe { libc::fileno(file) };
        if fd >= 0 {
            state::forget(fd, Reason::Foreign);
        }
    }
}

divert! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
        buffered(|| real::fopen64(path, mode))
    }

    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
        buffered(|| real::fopen64(path, mode))
    }

    fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
        freopen64(path, mode, file)
    }

    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
        closing(file);
        buffered(|| real::freopen64(path, mode, file))
    }

    fn tmpfile() -> *mut FILE {
        buffered(|| real::tmpfile64())
    }

    fn tmpfile64() -> *mut FILE {
        buffered(|| real::tmpfile64())
    }

    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        state::put_back(fd, Reason::Stdio);
        real::fdopen(fd, mode)
    }

    fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        fdopen(fd, mode)
    }

    fn fclose(file: *mut FILE) -> c_int {
        closing(file);
        real::fclose(file)
    }

    fn _IO_fclose(file: *mut FILE) -> c_int {
        fclose(file)
    }

    // Which files there are is the C library's to know. They stay on the mount as they are.
    fn fcloseall() -> c_int {
        real::fcloseall()
    }

    fn pclose(file: *mut FILE) -> c_int {
        closing(file);
        real::pclose(file)
    }

    fn opendir(path: *const c_char) -> *mut DIR {
        let directory = real::opendir(path);
        if !directory.is_null() {
            state::forget(libc::dirfd(directory), Reason::NotOurs);
        }
        directory
    }

    fn fdopendir(fd: c_int) -> *mut DIR {
        let directory = real::fdopendir(fd);
        if !directory.is_null() {
            state::forget(fd, Reason::NotOurs);
        }
        directory
    }

    fn closedir(directory: *mut DIR) -> c_int {
        if !directory.is_null() {
            state::forget(libc::dirfd(directory), Reason::Foreign);
        }
        real::closedir(directory)
    }

    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        state::put_back(fd, Reason::Stdio);
        real::vdprintf(fd, format, list)
    }

    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        state::put_back(fd, Reason::Stdio);
        real::__vdprintf_chk(fd, flag, format, list)
    }
}
