//! `libterrace`: [`terrace_direct::File`] for C and what calls C. `include/terrace.h` describes
//! each function.
//!
//! No panic leaves the library: the call fails with `EIO`.

mod fail;

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{mode_t, off_t, size_t, ssize_t};
use terrace_direct::File;

use crate::fail::{Failure, guarded};

/// An open file.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name of the header")]
pub struct terrace_file(File);

/// How many calls of a file went which way.
#[derive(Debug)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name of the header")]
pub struct terrace_usage {
    direct_calls: u64,
    direct_bytes: u64,
    mount_calls: u64,
    mount_bytes: u64,
    why: *const c_char,
}

/// The file behind a handle.
///
/// # Safety
/// The handle is NULL, or is open during the call.
unsafe fn file<'a>(handle: *const terrace_file, call: &'static str) -> Result<&'a File, Failure> {
    let remedy = "the file is NULL: use one that terrace_open has returned";
    // SAFETY: the caller's.
    let handle = unsafe { handle.as_ref() };
    handle.map(|handle| &handle.0).ok_or(Failure::new(call, libc::EINVAL, remedy))
}

fn offset(offset: off_t, call: &'static str) -> Result<u64, Failure> {
    let remedy = "no offset and no size is negative";
    u64::try_from(offset).map_err(|_| Failure::new(call, libc::EINVAL, remedy))
}

/// A length, if it can be that of a buffer here.
fn length(buffer: *const c_void, length: size_t, call: &'static str) -> Result<usize, Failure> {
    if ssize_t::try_from(length).is_err() {
        return Err(Failure::new(call, libc::EINVAL, "no call takes more than SSIZE_MAX bytes"));
    }
    if buffer.is_null() && length > 0 {
        return Err(Failure::new(call, libc::EFAULT, "the buffer is NULL"));
    }
    Ok(length)
}

/// The bytes that a call writes.
///
/// # Safety
/// There are as many, and nobody changes them during the call.
unsafe fn bytes<'a>(
    buffer: *const c_void,
    len: size_t,
    call: &'static str,
) -> Result<&'a [u8], Failure> {
    match length(buffer, len, call)? {
        0 => Ok(&[]),
        // SAFETY: the caller's.
        len => Ok(unsafe { std::slice::from_raw_parts(buffer.cast(), len) }),
    }
}

/// See `terrace.h`.
///
/// # Safety
/// `path` is NULL, or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_open(
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> *mut terrace_file {
    guarded(std::ptr::null_mut(), || {
        if path.is_null() {
            return Err(Failure::new("terrace_open", libc::EINVAL, "the path is NULL"));
        }
        // SAFETY: the caller's.
        let path = unsafe { CStr::from_ptr(path) };
        let file = File::open_with(Path::new(OsStr::from_bytes(path.to_bytes())), flags, mode)?;
        Ok(Box::into_raw(Box::new(terrace_file(file))))
    })
}

/// See `terrace.h`.
///
/// # Safety
/// The handle is NULL or open, and nobody else uses the bytes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_pread(
    handle: *mut terrace_file,
    buffer: *mut c_void,
    len: size_t,
    at: off_t,
) -> ssize_t {
    const CALL: &str = "terrace_pread";
    guarded(-1, || {
        // SAFETY: the caller's.
        let file = unsafe { file(handle, CALL) }?;
        let at = offset(at, CALL)?;
        let into = match length(buffer, len, CALL)? {
            0 => &mut [][..],
            // SAFETY: the caller's. Whatever the program has in them counts as bytes.
            len => unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) },
        };
        Ok(file.read_at(into, at)? as ssize_t)
    })
}

/// See `terrace.h`.
///
/// # Safety
/// As [`terrace_pread`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_pwrite(
    handle: *mut terrace_file,
    buffer: *const c_void,
    len: size_t,
    at: off_t,
) -> ssize_t {
    const CALL: &str = "terrace_pwrite";
    guarded(-1, || {
        // SAFETY: the caller's.
        let (file, data) = unsafe { (file(handle, CALL)?, bytes(buffer, len, CALL)?) };
        file.write_at(data, offset(at, CALL)?)?;
        Ok(len as ssize_t)
    })
}

/// See `terrace.h`.
///
/// # Safety
/// As [`terrace_pread`]; `begin` is NULL or takes a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_append(
    handle: *mut terrace_file,
    buffer: *const c_void,
    len: size_t,
    begin: *mut off_t,
) -> ssize_t {
    const CALL: &str = "terrace_append";
    guarded(-1, || {
        // SAFETY: the caller's.
        let (file, data) = unsafe { (file(handle, CALL)?, bytes(buffer, len, CALL)?) };
        let at = file.append(data)?;
        // SAFETY: the caller's.
        if let Some(begin) = unsafe { begin.as_mut() } {
            *begin = at.cast_signed();
        }
        Ok(len as ssize_t)
    })
}

/// See `terrace.h`.
///
/// # Safety
/// The handle is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_sync(handle: *mut terrace_file) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller's.
        unsafe { file(handle, "terrace_sync") }?.sync()?;
        Ok(0)
    })
}

/// See `terrace.h`.
///
/// # Safety
/// The handle is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_truncate(handle: *mut terrace_file, size: off_t) -> c_int {
    const CALL: &str = "terrace_truncate";
    guarded(-1, || {
        // SAFETY: the caller's.
        unsafe { file(handle, CALL) }?.set_len(offset(size, CALL)?)?;
        Ok(0)
    })
}

/// See `terrace.h`.
///
/// # Safety
/// The handle is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_size(handle: *mut terrace_file) -> off_t {
    guarded(-1, || {
        // SAFETY: the caller's.
        Ok(unsafe { file(handle, "terrace_size") }?.size()?.cast_signed())
    })
}

/// See `terrace.h`.
///
/// # Safety
/// The handle is NULL or open; `usage` is NULL or takes a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_usage(
    handle: *mut terrace_file,
    usage: *mut terrace_usage,
) -> c_int {
    const CALL: &str = "terrace_usage";
    guarded(-1, || {
        // SAFETY: the caller's.
        let now = unsafe { file(handle, CALL) }?.usage();
        if usage.is_null() {
            return Err(Failure::new(CALL, libc::EINVAL, "the place for the numbers is NULL"));
        }
        let usage_now = terrace_usage {
            direct_calls: now.direct_calls,
            direct_bytes: now.direct_bytes,
            mount_calls: now.mount_calls,
            mount_bytes: now.mount_bytes,
            why: now.why.map_or(c"", |why| why.c_name()).as_ptr(),
        };
        // SAFETY: the caller's.
        unsafe { usage.write(usage_now) };
        Ok(0)
    })
}

/// See `terrace.h`.
///
/// # Safety
/// The handle is NULL, or open and used by nobody else; nobody uses it later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_close(handle: *mut terrace_file) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller's.
        unsafe { file(handle, "terrace_close") }?;
        // SAFETY: `terrace_open` made it, and this takes it away.
        unsafe { Box::from_raw(handle) }.0.close()?;
        Ok(0)
    })
}

/// See `terrace.h`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_last_error() -> *const c_char {
    fail::last()
}

/// See `terrace.h`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests;
