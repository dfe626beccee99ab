//! Variables that set the library up.

use std::ffi::CStr;

/// A variable of the environment. Whoever needs it later copies it before the program begins: the
/// program may change it.
pub(crate) fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: The name ends with a zero. Nobody changes the environment before the program begins.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: A value ends with a zero.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}
