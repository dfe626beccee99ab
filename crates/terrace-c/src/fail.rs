//! How calls fail: a value that says so, `errno`, and a text.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The text of this thread's last error.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: i32,
    text: String,
}

impl Failure {
    /// A call that the library refuses.
    pub(crate) fn new(call: &str, errno: i32, remedy: &str) -> Self {
        let text = format!("{call}: {}; {remedy}", io::Error::from_raw_os_error(errno));
        Self { errno, text }
    }
}

impl From<terrace_direct::Error> for Failure {
    fn from(error: terrace_direct::Error) -> Self {
        Self { errno: error.errno(), text: error.to_string() }
    }
}

/// Makes a call; one that fails returns `failed`.
pub(crate) fn guarded<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => return result,
        Ok(Err(failure)) => failure,
        Err(_) => {
            let remedy = "this is a mistake in the library: what it wrote to standard error says \
                          more, and its authors want to know";
            Failure::new("libterrace", libc::EIO, remedy)
        }
    };
    // No text has a zero in it, and a thread that ends has none.
    let text = CString::new(failure.text).unwrap_or_default();
    let _ = LAST.try_with(|last| last.replace(text));
    // SAFETY: it is this thread's.
    unsafe { *libc::__errno_location() = failure.errno };
    failed
}

/// The text of this thread's last error.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
