//! Limits that a program sets itself, as far from what it uses as a test wants.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Memory that the program itself may need later (bytes).
const HEAP_BYTES: usize = 16 << 20;

fn set(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives during the calls.
    let failed = unsafe {
        libc::getrlimit(resource, &raw mut limit) != 0 || {
            limit.rlim_cur = most;
            libc::setrlimit(resource, &raw const limit) != 0
        }
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The process gets no more memory than so many bytes, besides what it has, and what the program
/// itself may need: so it is others in the process that lack it.
pub fn memory(more: u64) -> io::Result<()> {
    // SAFETY: nobody else looks at the block, and it is freed once.
    unsafe {
        let most = HEAP_BYTES as c_int;
        libc::mallopt(libc::M_MMAP_THRESHOLD, most);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 * most);
        let block = libc::malloc(HEAP_BYTES / 2);
        // Not a compiler's business: the C library keeps what it has got from the kernel.
        libc::free(std::hint::black_box(block));
    }
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    set(libc::RLIMIT_AS, pages * 4096 + more)
}

/// The process may open so many files more.
pub fn files(more: u64) -> io::Result<()> {
    let next = File::open("/dev/null")?.as_raw_fd();
    set(libc::RLIMIT_NOFILE, u64::from(next.unsigned_abs()) + more)
}
