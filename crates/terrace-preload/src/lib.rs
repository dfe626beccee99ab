//! A library to preload into programs that know nothing of Terrace. It diverts the C library's
//! functions for files, and carries reads and writes of files on a Terrace mount without a system
//! call. What it does not cover takes the mount: that is slower, and never wrong.
//!
//! A descriptor is always the kernel's. `table` has what is thought of each number, `state` how
//! that changes, `carry` the way of one call, `divert` the functions. `backend` says what a file
//! that goes direct can do.
//!
//! Nothing here allocates or takes a lock before it knows that the thread is not inside the library
//! already: a signal handler may have interrupted it at any instruction.

#![cfg_attr(test, allow(dead_code, reason = "in tests nothing is diverted"))]

pub mod backend;
mod carry;
mod description;
mod divert;
mod environment;
mod fault;
mod holds;
mod inode;
#[cfg(not(feature = "mapped"))]
mod lent;
#[cfg(feature = "mapped")]
mod mapped;
mod memory;
#[cfg(not(feature = "mapped"))]
mod opens;
mod patterns;
mod provider;
mod raw;
mod real;
mod report;
mod room;
mod signals;
mod state;
mod switch;
mod table;
mod thread;
mod word;

#[cfg(not(test))]
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

/// The loader calls these before and after the program.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    let errno = thread::errno();
    real::start();
    signals::start();
    patterns::start();
    report::start();
    switch::start();
    thread::set_errno(errno);
}

extern "C" fn end() {
    report::print();
}
