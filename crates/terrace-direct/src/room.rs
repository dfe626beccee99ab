//! Memory that the bytes of a write are copied to before anything else is done with them: a fault
//! in the program's memory may take long, and others may store to it meanwhile.

use std::mem::MaybeUninit;

/// A write of up to so many bytes is copied to the stack, a longer one to memory of its own.
const ON_STACK_BYTES: usize = 16 << 10;

/// Calls `with` with room for so many bytes; where the stack has too little, `take` gives as many.
/// `None`: there is no memory.
#[inline]
pub fn with_room<T, R: AsMut<[MaybeUninit<u8>]>>(
    len: usize,
    take: impl FnOnce(usize) -> Option<R>,
    with: impl FnOnce(&mut [MaybeUninit<u8>]) -> T,
) -> Option<T> {
    if len <= ON_STACK_BYTES {
        let mut room = [const { MaybeUninit::uninit() }; ON_STACK_BYTES];
        return Some(with(&mut room[..len]));
    }
    take(len).map(|mut room| with(&mut room.as_mut()[..len]))
}

/// Room of the process's memory.
pub(crate) fn of_process(len: usize) -> Option<Vec<MaybeUninit<u8>>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).ok()?;
    // SAFETY: so many bytes are reserved, and none of them has to be set.
    unsafe { room.set_len(len) };
    Some(room)
}
