//! Asynchronous I/O as programs do it: the same small interface to libaio's system calls and to
//! io_uring.

use anyhow::{Context, Result, bail, ensure};
use io_uring::{IoUring, opcode, types};
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;
use terrace_proof::skip;

/// No queue waits nearly this long for a mount that answers; past it the test fails with a reason
/// instead of hanging.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Which interface.
#[derive(Clone, Copy, Debug)]
pub enum Interface {
    Libaio,
    IoUring,
}

/// Writes under way on one descriptor.
pub struct Queue {
    kernel: Kernel,
    fd: RawFd,
    /// Their data, which must stay where it is until they are done.
    under_way: HashMap<u64, Box<[u8]>>,
    next: u64,
}

enum Kernel {
    Libaio(libc::c_ulong),
    IoUring(Box<IoUring>),
}

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

const IOCB_CMD_PWRITE: u16 = 1;

impl Queue {
    /// A queue of `depth` writes to `fd`, which stays open as long as the queue exists.
    ///
    /// # Errors
    /// A skip where the machine has no such interface.
    pub fn new(interface: Interface, depth: u32, fd: RawFd) -> Result<Queue> {
        let refused = |error: io::Error| skip(format!("{interface:?}: {error}"));
        let kernel = match interface {
            Interface::IoUring => Kernel::IoUring(Box::new(IoUring::new(depth).map_err(refused)?)),
            Interface::Libaio => {
                let mut context: libc::c_ulong = 0;
                // SAFETY: io_setup writes one context number to a variable that outlives the call.
                let made = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
                if made != 0 {
                    return Err(refused(io::Error::last_os_error()));
                }
                Kernel::Libaio(context)
            }
        };
        Ok(Queue { kernel, fd, under_way: HashMap::new(), next: 0 })
    }

    /// Writes under way.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Starts a write; [`Queue::finished`] gives the returned number when it is done.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<u64> {
        let number = self.next;
        self.next += 1;
        let data: Box<[u8]> = data.into();
        match &mut self.kernel {
            Kernel::IoUring(ring) => {
                let write =
                    opcode::Write::new(types::Fd(self.fd), data.as_ptr(), data.len().try_into()?);
                let entry = write.offset(offset).build().user_data(number);
                // SAFETY: `under_way` keeps the data until the write is done, and `drop` waits for
                // that.
                unsafe { ring.submission().push(&entry) }.context("the ring is full")?;
                ring.submit()?;
            }
            Kernel::Libaio(context) => {
                // SAFETY: zeros are a valid iocb, which is plain numbers.
                let mut iocb: libc::iocb = unsafe { std::mem::zeroed() };
                iocb.aio_data = number;
                iocb.aio_lio_opcode = IOCB_CMD_PWRITE;
                iocb.aio_fildes = self.fd.try_into()?;
                iocb.aio_buf = data.as_ptr() as u64;
                iocb.aio_nbytes = data.len() as u64;
                iocb.aio_offset = offset.try_into()?;
                let mut iocbs = [&raw mut iocb];
                // SAFETY: the kernel copies the iocb; the data stay in `under_way` until the write
                // is done.
                let submitted =
                    unsafe { libc::syscall(libc::SYS_io_submit, *context, 1, iocbs.as_mut_ptr()) };
                ensure!(submitted == 1, "io_submit: {}", io::Error::last_os_error());
            }
        }
        self.under_way.insert(number, data);
        Ok(number)
    }

    /// Waits until a write is done; its number.
    ///
    /// # Errors
    /// If it failed or was cut short, or if the mount does not answer.
    pub fn finished(&mut self) -> Result<u64> {
        let (number, result) = match &mut self.kernel {
            Kernel::IoUring(ring) => loop {
                if let Some(entry) = ring.completion().next() {
                    break (entry.user_data(), i64::from(entry.result()));
                }
                let limit = types::Timespec::from(ANSWER_LIMIT);
                let limit = types::SubmitArgs::new().timespec(&limit);
                ring.submitter().submit_with_args(1, &limit).context("no write is done")?;
            },
            Kernel::Libaio(context) => {
                let mut event = IoEvent::default();
                let mut limit =
                    libc::timespec { tv_sec: ANSWER_LIMIT.as_secs().try_into()?, tv_nsec: 0 };
                // SAFETY: room for one event, which is plain numbers, and a limit; both outlive the
                // call.
                let events = unsafe {
                    libc::syscall(
                        libc::SYS_io_getevents,
                        *context,
                        1,
                        1,
                        &raw mut event,
                        &raw mut limit,
                    )
                };
                ensure!(events == 1, "no write is done ({events}): {}", io::Error::last_os_error());
                (event.data, event.result)
            }
        };
        let data = self.under_way.remove(&number).context("a write that nobody started")?;
        if result != data.len() as i64 {
            bail!("write {number} of {} bytes: {result}", data.len());
        }
        Ok(number)
    }
}

impl Drop for Queue {
    /// The kernel must be done with the data before they are freed.
    fn drop(&mut self) {
        while self.len() > 0 && self.finished().is_ok() {}
        if let Kernel::Libaio(context) = self.kernel {
            // SAFETY: the context is ours; the call waits for what is still under way.
            unsafe { libc::syscall(libc::SYS_io_destroy, context) };
        }
        // A ring that does not end goes on using the data.
        std::mem::forget(std::mem::take(&mut self.under_way));
    }
}
