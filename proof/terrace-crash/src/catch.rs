//! Panics as findings: an assertion of the engine that fails on a crash state is one.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// The message of the last panic that was caught here; `None`: panics are not caught on this
    /// thread.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a panic becomes an error with its message and place, and is not printed.
///
/// # Errors
/// What `work` says, or the panic.
pub fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    install();
    let outer = CAUGHT.replace(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(work));
    let message = CAUGHT.replace(outer);
    result.unwrap_or_else(|_| Err(format!("panic: {}", message.unwrap_or_default())))
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let taken = CAUGHT.with_borrow_mut(|caught| {
                caught.as_mut().map(|message| *message = info.to_string()).is_some()
            });
            if !taken {
                before(info);
            }
        }));
    });
}
