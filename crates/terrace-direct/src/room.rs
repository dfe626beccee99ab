//! Memory that the bytes of a write are copied to before anything else is done with them: a fault
//! in the program's memory may take long, and others may store to it meanwhile.

use std::mem::MaybeUninit;

/// A write of up to so many bytes is copied to the stack, a longer one to memory of its own.
const ON_STACK_BYTES: usize = 16 << 10;

/// Calls `with` with room for so many bytes. `None`: there is no memory.
#[inline]
pub fn with_room<T>(len: usize, with: impl FnOnce(&mut [MaybeUninit<u8>]) -> T) -> Option<T> {
    if len <= ON_STACK_BYTES {
        let mut room = [const { MaybeUninit::uninit() }; ON_STACK_BYTES];
        return Some(with(&mut room[..len]));
    }
    let mut room = Vec::new();
    room.try_reserve_exact(len).ok()?;
    Some(with(&mut room.spare_capacity_mut()[..len]))
}
