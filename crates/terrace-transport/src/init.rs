//! INIT: what kernel and daemon agree on before the first message.

use std::io;
use std::os::fd::OwnedFd;

use zerocopy::IntoBytes;

use crate::abi::{InitFlags, InitIn, InitOut, MAJOR, MINOR, MINOR_MIN, OutHeader};
use crate::kind::Message;
use crate::request::split;

/// The daemon's wishes.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Without these there is no session.
    pub required: InitFlags,
    /// These are taken where the kernel has them.
    pub wanted: InitFlags,
    /// Longest WRITE and READ (bytes), a multiple of the page size.
    pub message_bytes_max: u32,
    /// Requests in the background that the kernel may keep under way over `/dev/fuse`. Over
    /// io_uring it is not limited: the kernel (6.14 to 6.18) takes a request that had to wait for
    /// others out of a CPU's queue only when the next one in the background comes to that queue or
    /// is answered there, and then hands one of them all to a worker, however many are idle. So it
    /// may wait for good, if what is under way there waits for it.
    pub background_max: u16,
    /// Requests in the background that end read-ahead beyond what a reader asked for.
    pub congested: u16,
}

/// The kernel's INIT.
#[derive(Clone, Copy, Debug)]
struct Offer {
    unique: u64,
    minor: u32,
    flags: InitFlags,
    read_ahead_bytes_max: u32,
}

/// Waits for INIT and answers it; returns the flags that hold.
///
/// # Errors
/// The kernel speaks another version, lacks a required flag, or has ended the connection.
pub(crate) fn negotiate(device: &OwnedFd, terms: &Terms) -> io::Result<InitFlags> {
    let offer = receive(device)?;
    let missing = terms.required - offer.flags;
    if offer.minor < MINOR_MIN || !missing.is_empty() {
        // Answered with an error, the mount fails for the programs that wait for it.
        send(device, -libc::EPROTO, offer.unique, &[])?;
        let what = if missing.is_empty() { "a newer protocol".into() } else { names(missing) };
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("this kernel's FUSE lacks {what}; Linux 5.11 or later has it"),
        ));
    }
    let flags = (terms.required | terms.wanted | InitFlags::INIT_EXT) & offer.flags;
    let answer = InitOut {
        major: MAJOR,
        minor: MINOR.min(offer.minor),
        max_readahead: offer.read_ahead_bytes_max,
        flags: flags.bits() as u32,
        flags2: (flags.bits() >> 32) as u32,
        max_background: match flags.contains(InitFlags::OVER_IO_URING) {
            true => u16::MAX,
            false => terms.background_max,
        },
        congestion_threshold: terms.congested,
        max_write: terms.message_bytes_max,
        time_gran: 1,
        max_pages: u16::try_from(terms.message_bytes_max / 4096).unwrap_or(u16::MAX),
        ..InitOut::default()
    };
    send(device, 0, offer.unique, answer.as_bytes())?;
    Ok(flags)
}

/// Reads until the kernel sends an INIT of the major version of this crate.
fn receive(device: &OwnedFd) -> io::Result<Offer> {
    // Longer than any INIT; the kernel asks for at least so much.
    let mut buffer = vec![0_u64; 1024];
    loop {
        let len = match rustix::io::read(device, buffer.as_mut_slice().as_mut_bytes()) {
            Ok(len) => len,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a malformed INIT");
        let (header, body) = split(&buffer.as_bytes()[..len]).map_err(|_| malformed())?;
        if header.opcode != Message::Init.opcode() {
            return Err(malformed());
        }
        // Older kernels send less, and so do newer ones that fall back to an older major version.
        let mut init = InitIn::default();
        let len = body.len().min(size_of::<InitIn>());
        init.as_mut_bytes()[..len].copy_from_slice(&body[..len]);
        if init.major > MAJOR {
            // The kernel asks again, in this version.
            let answer = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
            send(device, 0, header.unique, answer.as_bytes())?;
            continue;
        }
        let high =
            if init.flags & InitFlags::INIT_EXT.bits() as u32 == 0 { 0 } else { init.flags2 };
        return Ok(Offer {
            unique: header.unique,
            // An older major version is older than any minor one.
            minor: if init.major < MAJOR { 0 } else { init.minor },
            flags: InitFlags::from_bits_retain(u64::from(high) << 32 | u64::from(init.flags)),
            read_ahead_bytes_max: init.max_readahead,
        });
    }
}

fn send(device: &OwnedFd, error: i32, unique: u64, body: &[u8]) -> io::Result<()> {
    let len = (size_of::<OutHeader>() + body.len()) as u32;
    let message = [OutHeader { len, error, unique }.as_bytes(), body].concat();
    rustix::io::write(device, &message)?;
    Ok(())
}

/// The flags as the kernel's header names them.
fn names(flags: InitFlags) -> String {
    let names: Vec<_> = flags.iter_names().map(|(name, _)| format!("FUSE_{name}")).collect();
    names.join(" | ")
}
