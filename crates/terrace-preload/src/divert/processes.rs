//! Calls that make processes, or replace this one.
//!
//! Descriptors that two processes have share one position in the kernel. So the kernel gets the
//! positions before another process begins, and keeps those that both have.

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::{FILE, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use crate::backend::Reason;
use crate::holds::Hold;
use crate::{real, report, state, switch};

/// A thread has this memory and these descriptors, another process has neither. A table that serves
/// two sets of descriptors would be wrong for one of them.
pub(super) fn before_clone(flags: c_int) -> Option<Hold> {
    let is_thread = flags & libc::CLONE_VM != 0 && flags & libc::CLONE_FILES != 0;
    let sharing = (!is_thread).then(|| state::sharing(false));
    if sharing.is_some() && flags & libc::CLONE_VM != 0 {
        switch::stop();
    }
    sharing
}

fn after_fork(process: c_int) -> c_int {
    state::after_fork(process == 0);
    process
}

/// The process goes on as another program, or fails to.
extern "C" fn before_exec() {
    state::leave_all();
    report::print();
}

/// Spawns: the new process has those descriptors that an `exec` does not close. What it is to do
/// first may hand it others.
fn spawning(actions: *const posix_spawn_file_actions_t, spawn: impl FnOnce() -> c_int) -> c_int {
    let _sharing = state::sharing(actions.is_null());
    spawn()
}

extern "C" fn before_print(fd: c_int) {
    state::put_back(fd, Reason::Stdio);
}

/// Finds a real function by name, for the jumps below.
extern "C" fn real_function(name: *const c_char) -> *mut c_void {
    // SAFETY: The names below end with a zero.
    real::address(unsafe { CStr::from_ptr(name) })
}

/// A function with a list of arguments of any length: prepares, and jumps to the real one with all
/// registers as they were.
macro_rules! before_jump {
    ($($name:ident = $prepare:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                // Seven registers with the return address leave the stack as calls want it.
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "sub rsp, 128",
                "movups [rsp], xmm0", "movups [rsp + 16], xmm1",
                "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                "call {prepare}",
                "lea rdi, [rip + 2f]",
                "call {find}",
                "mov r11, rax",
                "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]",
                "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                concat!("2: .asciz \"", stringify!($name), "\""),
                prepare = sym $prepare,
                find = sym real_function,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-208]!",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "stp q0, q1, [sp, #80]", "stp q2, q3, [sp, #112]",
                "stp q4, q5, [sp, #144]", "stp q6, q7, [sp, #176]",
                "bl {prepare}",
                "adr x0, 2f",
                "bl {find}",
                "mov x16, x0",
                "ldp q0, q1, [sp, #80]", "ldp q2, q3, [sp, #112]",
                "ldp q4, q5, [sp, #144]", "ldp q6, q7, [sp, #176]",
                "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #208",
                "br x16",
                concat!("2: .asciz \"", stringify!($name), "\""),
                ".balign 4",
                prepare = sym $prepare,
                find = sym real_function,
            );
        }
    )*};
}

before_jump! {
    execl = before_exec;
    execle = before_exec;
    execlp = before_exec;
    dprintf = before_print;
    __dprintf_chk = before_print;
}

divert! {
    fn fork() -> pid_t {
        state::before_fork();
        after_fork(real::fork())
    }

    fn __fork() -> pid_t {
        fork()
    }

    fn __libc_fork() -> pid_t {
        fork()
    }

    fn _Fork() -> pid_t {
        state::before_fork();
        after_fork(real::_Fork())
    }

    // As fork: the child of a real vfork would change this process' table when it closes and
    // duplicates descriptors, and no function can return twice from one frame.
    fn vfork() -> pid_t {
        fork()
    }

    fn __vfork() -> pid_t {
        fork()
    }

    fn daemon(stay: c_int, keep: c_int) -> c_int {
        state::before_fork();
        let result = real::daemon(stay, keep);
        state::after_fork(!switch::on());
        result
    }

    fn forkpty(
        main: *mut c_int,
        name: *mut c_char,
        terminal: *const c_void,
        window: *const c_void
    ) -> pid_t {
        state::before_fork();
        let process = after_fork(real::forkpty(main, name, terminal, window));
        if process > 0 {
            state::forget(*main, Reason::NotOurs);
        }
        process
    }

    fn clone(
        function: *mut c_void,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        parent: *mut c_void,
        local: *mut c_void,
        child: *mut c_void
    ) -> c_int {
        let _sharing = before_clone(flags);
        real::clone(function, stack, flags, argument, parent, local, child)
    }

    fn __clone(
        function: *mut c_void,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        parent: *mut c_void,
        local: *mut c_void,
        child: *mut c_void
    ) -> c_int {
        clone(function, stack, flags, argument, parent, local, child)
    }

    fn unshare(flags: c_int) -> c_int {
        let _sharing =
            (flags & libc::CLONE_FILES != 0).then(|| before_clone(libc::CLONE_VM));
        real::unshare(flags)
    }

    fn posix_spawn(
        process: *mut pid_t,
        path: *const c_char,
        actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t,
        args: *const *mut c_char,
        variables: *const *mut c_char
    ) -> c_int {
        let spawn = || real::posix_spawn(process, path, actions, attributes, args, variables);
        spawning(actions, spawn)
    }

    fn posix_spawnp(
        process: *mut pid_t,
        path: *const c_char,
        actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t,
        args: *const *mut c_char,
        variables: *const *mut c_char
    ) -> c_int {
        let spawn = || real::posix_spawnp(process, path, actions, attributes, args, variables);
        spawning(actions, spawn)
    }

    fn system(command: *const c_char) -> c_int {
        let _sharing = (!command.is_null()).then(|| state::sharing(true));
        real::system(command)
    }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        let file = {
            let _sharing = state::sharing(true);
            real::popen(command, mode)
        };
        if !file.is_null() {
            state::forget(libc::fileno(file), Reason::Stdio);
        }
        file
    }

    fn execve(
        path: *const c_char,
        args: *const *const c_char,
        variables: *const *const c_char
    ) -> c_int {
        before_exec();
        real::execve(path, args, variables)
    }

    fn execv(path: *const c_char, args: *const *const c_char) -> c_int {
        before_exec();
        real::execv(path, args)
    }

    fn execvp(path: *const c_char, args: *const *const c_char) -> c_int {
        before_exec();
        real::execvp(path, args)
    }

    fn execvpe(
        path: *const c_char,
        args: *const *const c_char,
        variables: *const *const c_char
    ) -> c_int {
        before_exec();
        real::execvpe(path, args, variables)
    }

    fn fexecve(
        fd: c_int,
        args: *const *const c_char,
        variables: *const *const c_char
    ) -> c_int {
        before_exec();
        real::fexecve(fd, args, variables)
    }

    fn execveat(
        at: c_int,
        path: *const c_char,
        args: *const *const c_char,
        variables: *const *const c_char,
        flags: c_int
    ) -> c_int {
        before_exec();
        real::execveat(at, path, args, variables, flags)
    }

    // The report is printed when the process ends, however it does.
    fn _exit(status: c_int) {
        report::print();
        real::_exit(status);
    }

    fn _Exit(status: c_int) {
        _exit(status);
    }
}
