//! The signals of bad memory: the library's handler stands first, and the program sees its own.
//!
//! The kernel gets the program's flags and mask with the library's handler, so the program's
//! handler runs as it would alone. A fault in a copy of the library never reaches it.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use libc::{SA_RESETHAND, SA_SIGINFO, SIG_DFL, SIG_IGN, siginfo_t, ucontext_t};

use crate::{fault, raw, real};

/// What the program has set for one of the two signals.
struct Set {
    handler: AtomicUsize,
    flags: AtomicI32,
    /// Its mask, as the kernel takes it.
    mask: AtomicUsize,
    /// Held by a thread that changes it.
    busy: AtomicBool,
}

static SEGV: Set = Set::new();
static BUS: Set = Set::new();

impl Set {
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(SIG_DFL),
            flags: AtomicI32::new(0),
            mask: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
        }
    }
}

fn set_of(signal: c_int) -> Option<&'static Set> {
    match signal {
        libc::SIGSEGV => Some(&SEGV),
        libc::SIGBUS => Some(&BUS),
        _ => None,
    }
}

/// Whether the library stands first at this signal.
pub(crate) fn is_ours(signal: c_int) -> bool {
    set_of(signal).is_some()
}

/// Sets the library's handlers. What is there now is the program's.
pub(crate) fn start() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: `old` has room.
        let got = unsafe { real::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) };
        if got == 0 {
            // SAFETY: All zero is a value, and the kernel has written over it.
            let old = unsafe { old.assume_init() };
            change(signal, Some(&old));
        }
    }
}

/// What `sigaction` does for one of the two signals: takes the program's new action, if any, and
/// gives the old one.
pub(crate) fn change(signal: c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let set = set_of(signal)?;
    // Handlers may do this, and so may the handler of another signal in the middle of it: after a
    // while it goes on without.
    let mut spins = 0;
    while set.busy.swap(true, Acquire) && spins < 10_000 {
        spins += 1;
        std::hint::spin_loop();
    }
    let old = action(set.handler.load(Relaxed), set.flags.load(Relaxed), set.mask.load(Relaxed));
    if let Some(new) = new {
        set.flags.store(new.sa_flags, Relaxed);
        set.mask.store(mask_of(new), Relaxed);
        set.handler.store(new.sa_sigaction, Release);
        let mut ours = *new;
        ours.sa_sigaction = handler as *const () as usize;
        // One that the kernel resets would not be the library's any more.
        ours.sa_flags = (new.sa_flags | SA_SIGINFO) & !SA_RESETHAND;
        if new.sa_sigaction == SIG_DFL || new.sa_sigaction == SIG_IGN {
            // A thread that has an alternative stack may have no other left.
            ours.sa_flags |= libc::SA_ONSTACK | libc::SA_RESTART;
        }
        // SAFETY: `ours` is whole.
        unsafe { real::sigaction(signal, &ours, std::ptr::null_mut()) };
    }
    set.busy.store(false, Release);
    Some(old)
}

/// An action with this first word of a mask.
pub(crate) fn action(handler: usize, flags: c_int, mask: usize) -> libc::sigaction {
    let mut action = empty();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    set_mask(&mut action, mask);
    action
}

fn empty() -> libc::sigaction {
    // SAFETY: All zero is the default action with no flags.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The first word of a mask: all signals that the kernel knows.
pub(crate) fn mask_of(action: &libc::sigaction) -> usize {
    // SAFETY: A mask is an array of words.
    unsafe { std::ptr::from_ref(&action.sa_mask).cast::<usize>().read() }
}

fn set_mask(action: &mut libc::sigaction, mask: usize) {
    // SAFETY: As above.
    unsafe { std::ptr::from_mut(&mut action.sa_mask).cast::<usize>().write(mask) };
}

/// The library's handler.
unsafe extern "C-unwind" fn handler(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: The kernel calls this.
    if unsafe { fault::recover(info, context.cast::<ucontext_t>()) } {
        return;
    }
    let Some(set) = set_of(signal) else { return };
    let (chosen, flags) = (set.handler.load(Acquire), set.flags.load(Relaxed));
    // SAFETY: The kernel has filled it in.
    let sent = unsafe { (*info).si_code } <= 0;
    if chosen == SIG_IGN && sent {
        return;
    }
    if chosen == SIG_DFL || chosen == SIG_IGN {
        return die(signal, sent);
    }
    if flags & SA_RESETHAND != 0 {
        set.handler.store(SIG_DFL, Relaxed);
    }
    // SAFETY: The program has set a function of this kind. One without SA_SIGINFO takes the first
    // argument, and registers that nobody looks at hold the others.
    unsafe {
        let chosen: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
            std::mem::transmute(chosen);
        chosen(signal, info, context);
    }
}

/// Lets the kernel's own action take its course.
fn die(signal: c_int, sent: bool) {
    // SAFETY: The default action is whole.
    unsafe { real::sigaction(signal, &empty(), std::ptr::null_mut()) };
    if sent {
        // It comes again when the handler has returned: until then it is blocked.
        // SAFETY: No memory is involved.
        unsafe {
            let process = raw::call(libc::SYS_getpid, [0; 6]) as usize;
            let thread = raw::call(libc::SYS_gettid, [0; 6]) as usize;
            raw::call(libc::SYS_tgkill, [process, thread, signal as usize, 0, 0, 0]);
        }
    }
    // A fault happens again, at the same instruction.
}
