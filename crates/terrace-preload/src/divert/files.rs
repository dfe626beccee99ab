//! Calls that open files.

use std::ffi::{c_char, c_int, c_void};

use libc::mode_t;

use crate::{real, state};

divert! {
    // The mode is there only with some flags. Where it is not, nobody looks at the register.
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::open(path, flags, mode))
    }

    fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::open(path, flags, mode))
    }

    fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        state::open(|| real::__open64_2(path, flags))
    }

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::open64(path, flags, mode))
    }

    fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::open64(path, flags, mode))
    }

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        state::open(|| real::__open64_2(path, flags))
    }

    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::openat(at, path, flags, mode))
    }

    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int {
        state::open(|| real::__openat64_2(at, path, flags))
    }

    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::openat64(at, path, flags, mode))
    }

    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int {
        state::open(|| real::__openat64_2(at, path, flags))
    }

    fn creat(path: *const c_char, mode: mode_t) -> c_int {
        state::open(|| real::creat64(path, mode))
    }

    fn creat64(path: *const c_char, mode: mode_t) -> c_int {
        state::open(|| real::creat64(path, mode))
    }

    fn open_by_handle_at(at: c_int, handle: *mut c_void, flags: c_int) -> c_int {
        state::open(|| real::open_by_handle_at(at, handle, flags))
    }

    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        state::open(|| real::shm_open(name, flags, mode))
    }

    fn mkstemp(template: *mut c_char) -> c_int {
        state::open(|| real::mkstemp64(template))
    }

    fn mkstemp64(template: *mut c_char) -> c_int {
        state::open(|| real::mkstemp64(template))
    }

    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
        state::open(|| real::mkostemp64(template, flags))
    }

    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int {
        state::open(|| real::mkostemp64(template, flags))
    }

    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
        state::open(|| real::mkstemps64(template, suffix))
    }

    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int {
        state::open(|| real::mkstemps64(template, suffix))
    }

    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        state::open(|| real::mkostemps64(template, suffix, flags))
    }

    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        state::open(|| real::mkostemps64(template, suffix, flags))
    }
}
