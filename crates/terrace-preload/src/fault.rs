//! Copies that survive a bad address.
//!
//! The copy is a routine in assembly with known bounds. When an instruction in it faults, the
//! signal handler lets the routine return the address of the fault; no other fault is touched.

use std::ffi::c_int;

/// A copy met an address that is not in the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address, 0 if the processor does not tell.
    pub address: usize,
}

#[repr(C)]
struct Outcome {
    failed: usize,
    address: usize,
}

// Small copies take pairs of moves that overlap, middle ones a loop of 16 bytes, large ones the
// processor's own loop, which costs some 30 cycles to begin with.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.terrace_preload_copy,\"ax\",@progbits",
    ".hidden terrace_preload_copy",
    ".globl terrace_preload_copy",
    ".hidden terrace_preload_copy_fault",
    ".globl terrace_preload_copy_fault",
    ".type terrace_preload_copy,@function",
    ".balign 64",
    "terrace_preload_copy:",
    ".cfi_startproc",
    "cmp rdx, 16",
    "jb 3f",
    "cmp rdx, 512",
    "ja 2f",
    "movups xmm1, xmmword ptr [rsi + rdx - 16]",
    "lea r8, [rdi + rdx - 16]",
    "1:",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmmword ptr [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "cmp rdi, r8",
    "jb 1b",
    "movups xmmword ptr [r8], xmm1",
    "xor eax, eax",
    "ret",
    "2:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    "3:",
    "cmp edx, 8",
    "jb 4f",
    "mov rax, qword ptr [rsi]",
    "mov rcx, qword ptr [rsi + rdx - 8]",
    "mov qword ptr [rdi], rax",
    "mov qword ptr [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "4:",
    "cmp edx, 4",
    "jb 5f",
    "mov eax, dword ptr [rsi]",
    "mov ecx, dword ptr [rsi + rdx - 4]",
    "mov dword ptr [rdi], eax",
    "mov dword ptr [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "5:",
    "test edx, edx",
    "je 6f",
    "movzx eax, byte ptr [rsi + rdx - 1]",
    "mov byte ptr [rdi + rdx - 1], al",
    "dec edx",
    "jmp 5b",
    "6:",
    "xor eax, eax",
    "ret",
    // The handler comes here, with the address in rdx.
    "terrace_preload_copy_fault:",
    "mov eax, 1",
    "ret",
    ".cfi_endproc",
    ".size terrace_preload_copy, . - terrace_preload_copy",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.terrace_preload_copy,\"ax\",@progbits",
    ".hidden terrace_preload_copy",
    ".globl terrace_preload_copy",
    ".hidden terrace_preload_copy_fault",
    ".globl terrace_preload_copy_fault",
    ".type terrace_preload_copy,@function",
    ".balign 64",
    "terrace_preload_copy:",
    ".cfi_startproc",
    "1:",
    "cmp x2, #32",
    "b.lo 2f",
    "ldp x3, x4, [x1], #16",
    "ldp x5, x6, [x1], #16",
    "stp x3, x4, [x0], #16",
    "stp x5, x6, [x0], #16",
    "sub x2, x2, #32",
    "b 1b",
    "2:",
    "cbz x2, 3f",
    "ldrb w3, [x1], #1",
    "strb w3, [x0], #1",
    "sub x2, x2, #1",
    "b 2b",
    "3:",
    "mov x0, #0",
    "ret",
    // The handler comes here, with the address in x1.
    "terrace_preload_copy_fault:",
    "mov x0, #1",
    "ret",
    ".cfi_endproc",
    ".size terrace_preload_copy, . - terrace_preload_copy",
    ".popsection",
);

unsafe extern "C" {
    fn terrace_preload_copy(to: *mut u8, from: *const u8, len: usize) -> Outcome;
    fn terrace_preload_copy_fault();
}

/// Copies bytes, either end of which may fault.
///
/// # Safety
///
/// Memory that does not fault may be read, or written, by the caller.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: The routine touches these two ranges only, and the handler ends it on a fault.
    let outcome = unsafe { terrace_preload_copy(to, from, len) };
    if outcome.failed == 0 { Ok(()) } else { Err(Fault { address: outcome.address }) }
}

/// Copies one value out of the program's memory.
///
/// # Safety
///
/// Any bytes are a value of `T`, and memory at `from` that does not fault may be read.
pub(crate) unsafe fn fetch<T: Copy>(from: *const T) -> Option<T> {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: `value` has room for a `T`.
    unsafe { copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) }.ok()?;
    // SAFETY: All of its bytes were copied.
    Some(unsafe { value.assume_init() })
}

/// Lets the copy return, if the fault is its own.
///
/// # Safety
///
/// `info` and `context` are those of a signal handler.
pub(crate) unsafe fn recover(info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) -> bool {
    let first = terrace_preload_copy as *const () as usize;
    let landing = terrace_preload_copy_fault as *const () as usize;
    // SAFETY: The kernel has filled both in. A signal that was sent (code <= 0) has no address.
    let (code, address, machine) = unsafe {
        ((*info).si_code as c_int, (*info).si_addr() as usize, &mut (*context).uc_mcontext)
    };
    if code <= 0 {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let at = machine.gregs[libc::REG_RIP as usize] as usize;
        if !(first..landing).contains(&at) {
            return false;
        }
        machine.gregs[libc::REG_RIP as usize] = landing as i64;
        machine.gregs[libc::REG_RDX as usize] = address as i64;
    }
    #[cfg(target_arch = "aarch64")]
    {
        if !(first..landing).contains(&(machine.pc as usize)) {
            return false;
        }
        machine.pc = landing as u64;
        machine.regs[1] = address as u64;
    }
    true
}
