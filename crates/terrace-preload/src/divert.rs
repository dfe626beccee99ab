//! The diverted functions, by family. Each carries its call, or first puts the descriptor back on
//! the mount, or forgets what was thought of a number. docs/DIRECT.md has the table.

/// Functions that take the place of the C library's. In tests they have no such names: the tests
/// would run on them.
macro_rules! divert {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block)*)
    => {$(
        $(#[$meta])*
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "it is the C library's")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $result)? {
            // SAFETY: The caller keeps to the contract of the function of this name.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )*};
}

mod asynchronous;
mod attributes;
mod copies;
pub(crate) mod data;
mod descriptors;
mod files;
mod handlers;
mod messages;
pub(crate) mod position;
mod processes;
mod stdio;
mod system_calls;
mod vectors;
