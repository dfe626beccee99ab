//! A queue of io_uring, with a buffer and a file that the kernel knows by number.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use terrace_proof::pattern;

/// Bytes of the registered buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// The file of a request.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// It goes by its descriptor, with a buffer of the program.
    Descriptor(&'a File),
    /// It is the registered one, with the registered buffer.
    Registered,
}

/// See the module.
pub struct Ring {
    ring: IoUring,
    buffer: Box<[u8]>,
}

impl Ring {
    /// A queue of so many requests.
    pub fn new(depth: u32) -> io::Result<Self> {
        let (ring, mut buffer) = (IoUring::new(depth)?, vec![0; BUFFER_BYTES].into_boxed_slice());
        let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER_BYTES };
        // SAFETY: the buffer lives as long as the ring, and stays where it is.
        unsafe { ring.submitter().register_buffers(&[piece])? };
        Ok(Self { ring, buffer })
    }

    /// Registers a file in place of the one before.
    pub fn register(&self, file: &File) -> io::Result<()> {
        // There may have been none.
        let _ = self.ring.submitter().unregister_files();
        self.ring.submitter().register_files(&[file.as_raw_fd()])
    }

    /// Carries out one request, and gives its result.
    ///
    /// # Safety
    /// The buffer of the request lives during the call.
    unsafe fn carry_out(&mut self, entry: &Entry) -> io::Result<usize> {
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)?;
        self.ring.submit_and_wait(1)?;
        self.finished()
    }

    /// The result of the next request that has ended.
    fn finished(&mut self) -> io::Result<usize> {
        loop {
            if let Some(entry) = self.ring.completion().next() {
                let result = entry.result();
                return usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            }
            self.ring.submit_and_wait(1)?;
        }
    }

    /// Writes at an offset.
    pub fn write(&mut self, target: Target<'_>, at: u64, data: &[u8]) -> io::Result<usize> {
        let len = data.len() as u32;
        let entry = match target {
            Target::Descriptor(file) => {
                opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), len)
                    .offset(at)
                    .build()
            }
            Target::Registered => {
                self.buffer[..data.len()].copy_from_slice(data);
                opcode::WriteFixed::new(types::Fixed(0), self.buffer.as_ptr(), len, 0)
                    .offset(at)
                    .build()
            }
        };
        // SAFETY: the data and the buffer live.
        unsafe { self.carry_out(&entry) }
    }

    /// Reads at an offset.
    pub fn read(&mut self, target: Target<'_>, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let entry = match target {
            Target::Descriptor(file) => {
                opcode::Read::new(types::Fd(file.as_raw_fd()), bytes.as_mut_ptr(), len as u32)
                    .offset(at)
                    .build()
            }
            Target::Registered => {
                let into = self.buffer[..len].as_mut_ptr();
                opcode::ReadFixed::new(types::Fixed(0), into, len as u32, 0).offset(at).build()
            }
        };
        // SAFETY: the bytes and the buffer live.
        let read = unsafe { self.carry_out(&entry) }?;
        match target {
            Target::Descriptor(_) => bytes.truncate(read),
            Target::Registered => bytes = self.buffer[..read].to_vec(),
        }
        Ok(bytes)
    }

    /// Makes durable what was written.
    pub fn sync(&mut self, target: Target<'_>) -> io::Result<()> {
        let entry = match target {
            Target::Descriptor(file) => opcode::Fsync::new(types::Fd(file.as_raw_fd())).build(),
            Target::Registered => opcode::Fsync::new(types::Fixed(0)).build(),
        };
        // SAFETY: it has no buffer.
        unsafe { self.carry_out(&entry) }.map(drop)
    }

    /// Writes records through the queue, all of them at once, and between them other records by
    /// pwrite to a file: from the offset on, those of even seeds are the queue's.
    pub fn beside(
        &mut self,
        target: Target<'_>,
        file: &File,
        [at, len, count]: [u64; 3],
    ) -> io::Result<()> {
        let record = |seed| (at + seed * len, pattern(seed, len as usize));
        // They stay where they are until all requests have ended.
        let records: Vec<_> = (0..count).map(|number| record(2 * number)).collect();
        for (at, data) in &records {
            let (data, len) = (data.as_ptr(), len as u32);
            let entry = match target {
                Target::Descriptor(file) => {
                    opcode::Write::new(types::Fd(file.as_raw_fd()), data, len).offset(*at).build()
                }
                Target::Registered => {
                    opcode::Write::new(types::Fixed(0), data, len).offset(*at).build()
                }
            };
            // SAFETY: the records live.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        self.ring.submit()?;
        let written = (0..count).try_for_each(|number| {
            let (at, data) = record(2 * number + 1);
            file.write_all_at(&data, at)
        });
        for _ in 0..count {
            if self.finished()? as u64 != len {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        written
    }
}
