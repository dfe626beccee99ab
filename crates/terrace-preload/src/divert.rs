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

/// The same for functions whose first argument is a number that is on the mount anyway, most often.
/// Such a call goes to the C library's function at once: by a jump, without a frame in between.
macro_rules! divert_or_jump {
    ($(fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)*) -> $result:ty $body:block)*)
    => { divert! {$(
        fn $name($fd: c_int $(, $arg: $type)*) -> $result {
            #[inline(never)]
            unsafe extern "C-unwind" fn carried($fd: c_int $(, $arg: $type)*) -> $result {
                // SAFETY: The caller keeps to the contract of the function of this name.
                unsafe { $body }
            }

            match $crate::state::on_mount($fd) {
                true => $crate::real::$name($fd $(, $arg)*),
                false => carried($fd $(, $arg)*),
            }
        }
    )*} };
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
