//! A program that asks for files as direct ones do, and then writes anything: into the control page
//! of its loan, the announcements, the blocks that it was lent, its log, and messages. The daemon
//! goes on and names it, and no other file changes. `TERRACE_KILL_SEED` chooses other bytes.

use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use terrace_layout::{BLOCK_BYTES, SLOT_BYTES, TAIL_OFFSET, Tail};
use terrace_proof::{Rng, Scratch, TestVolume, VolumeSpec, environment, pattern, proof};
use terrace_store::delegation::message::{
    Answer, LAYOUT, MESSAGE_BYTES, Request, SOCKET_XATTR, Wanted,
};

use crate::worker::{Worker, direct_calls};

/// Words of a control page.
const WORDS: u64 = 512;
/// The word of a control page that says where the file's record is.
const RECORD: u64 = 4;
/// The number of runs, and the first of them.
const POOL_RUNS: u64 = 7;
const POOL: u64 = 32;
/// The first word of the announcements.
const ANNOUNCEMENTS: u64 = 64;

/// A connection to the daemon, and the memory that came with it.
struct Connection {
    socket: OwnedFd,
    pm: File,
    control: File,
}

fn receive(socket: &OwnedFd) -> Result<Option<(Answer, Vec<OwnedFd>)>> {
    let mut bytes = [0; MESSAGE_BYTES];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let len = rustix::net::recvmsg(socket, &mut slices, &mut ancillary, flags)?.bytes;
    if len == 0 {
        return Ok(None);
    }
    let descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let descriptors = descriptors.collect();
    Ok(Some((Answer::decode(&bytes[..len]).context("no answer")?, descriptors)))
}

impl Connection {
    fn new(root: &Path) -> Result<Self> {
        let mut name = [0; 256];
        let len = rustix::fs::getxattr(root, SOCKET_XATTR, &mut name[..])?;
        let path = Path::new(std::ffi::OsStr::from_bytes(&name[..len]));
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::send(
            &socket,
            &Request::Hello { layout: LAYOUT }.encode(),
            SendFlags::NOSIGNAL,
        )?;
        let (_, descriptors) = receive(&socket)?.context("the daemon hangs up")?;
        let [pm, control] = <[OwnedFd; 2]>::try_from(descriptors)
            .map_err(|descriptors| anyhow::anyhow!("{} descriptors", descriptors.len()))?;
        Ok(Self { socket, pm: pm.into(), control: control.into() })
    }

    /// Sends anything. `None`: the daemon has hung up.
    fn ask(&self, bytes: &[u8]) -> Result<Option<Answer>> {
        if rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL).is_err() {
            return Ok(None);
        }
        Ok(receive(&self.socket)?.map(|(answer, _)| answer))
    }
}

/// A loan, as its control page told when it began.
struct Loan {
    page: u64,
    record_at: u64,
    runs: Vec<(u64, u64)>,
    /// The block in which its log ended.
    log_block: u64,
}

impl Loan {
    fn of(connection: &Connection, page: u64) -> Result<Self> {
        let word = |number: u64| -> Result<u64> {
            let mut bytes = [0; 8];
            connection.control.read_exact_at(&mut bytes, (page + 1) * BLOCK_BYTES + 8 * number)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let runs = (0..word(POOL_RUNS)?)
            .map(|i| Ok((word(POOL + 2 * i)?, word(POOL + 2 * i + 1)?)))
            .collect::<Result<Vec<_>>>()?;
        let record_at = word(RECORD)?;
        let mut tail = [0; 8];
        connection.pm.read_exact_at(&mut tail, record_at + TAIL_OFFSET)?;
        let (tail, _) = Tail(u64::from_le_bytes(tail)).get().context("a fresh loan's tail")?;
        Ok(Self { page, record_at, runs, log_block: tail / BLOCK_BYTES })
    }

    /// Whether a block is lent for the file's data, or has its log. The memory that comes with a
    /// loan is all of PM: the wild program must keep to its own part, or it harms others.
    fn has(&self, block: u64) -> bool {
        let in_run = |&(start, len): &(u64, u64)| (start..start + len).contains(&block);
        block == self.log_block || self.runs.iter().any(in_run)
    }
}

struct Wild<'a> {
    connection: &'a Connection,
    loan: &'a Loan,
    ino: u64,
    rng: &'a mut Rng,
    /// The control pages and generations of all loans that it has got.
    loans: Vec<(u64, u32)>,
}

impl Wild<'_> {
    fn any(&mut self) -> u64 {
        let any = self.rng.next_u64();
        *self.rng.pick(&[0, 1, 2, 3, any, u64::MAX, any % 4096, any % WORDS])
    }

    /// False: the daemon has hung up.
    fn does_something(&mut self) -> Result<bool> {
        match self.rng.below(5) {
            0 => self.control_words()?,
            1 => self.announcements()?,
            2 => self.blocks()?,
            3 => self.log()?,
            _ => return self.message(),
        }
        Ok(true)
    }

    fn put(&self, page: u64, word: u64, value: u64) -> Result<()> {
        let at = page * BLOCK_BYTES + 8 * word;
        Ok(self.connection.control.write_all_at(&value.to_le_bytes(), at)?)
    }

    fn control_words(&mut self) -> Result<()> {
        for _ in 0..1 + self.rng.below(20) {
            let limit = *self.rng.pick(&[9, WORDS]);
            let (word, value) = (self.rng.below(limit), self.any());
            self.put(self.loan.page + 1, word, value)?;
        }
        Ok(())
    }

    fn announcements(&mut self) -> Result<()> {
        for _ in 0..100 {
            let word = ANNOUNCEMENTS + self.rng.below(WORDS - ANNOUNCEMENTS);
            let (thread, process) = (self.rng.below(1 << 16), self.rng.below(1 << 16));
            self.put(0, word, thread | process << 32)?;
        }
        Ok(())
    }

    fn blocks(&mut self) -> Result<()> {
        let (start, len) = *self.rng.pick(&self.loan.runs);
        let block = start + self.rng.below(len);
        let bytes = self.rng.bytes(BLOCK_BYTES as usize);
        Ok(self.connection.pm.write_all_at(&bytes, block * BLOCK_BYTES)?)
    }

    /// Anything behind the tail of its log, and anything for the tail.
    fn log(&mut self) -> Result<()> {
        let (pm, at) = (&self.connection.pm, self.loan.record_at + TAIL_OFFSET);
        let mut word = [0; 8];
        pm.read_exact_at(&mut word, at)?;
        let Ok((tail, turn)) = Tail(u64::from_le_bytes(word)).get() else { return Ok(()) };
        let slots = (BLOCK_BYTES - tail % BLOCK_BYTES) / SLOT_BYTES;
        let moved = tail + SLOT_BYTES * (1 + self.rng.below(slots.max(1)));
        let bytes = self.rng.bytes(SLOT_BYTES as usize);
        // One random tail in 256 passes its check, and points anywhere.
        if !tail.is_multiple_of(BLOCK_BYTES) && self.loan.has(tail / BLOCK_BYTES) {
            pm.write_all_at(&bytes, tail)?;
        }
        let tail = *self.rng.pick(&[Tail::new(moved, turn).0, self.rng.clone().next_u64()]);
        Ok(pm.write_all_at(&tail.to_le_bytes(), at)?)
    }

    fn message(&mut self) -> Result<bool> {
        let len = *self.rng.pick(&[MESSAGE_BYTES, MESSAGE_BYTES, 1, 39, 41, 1000]);
        let mut bytes = self.rng.bytes(len);
        if len == MESSAGE_BYTES {
            let small = self.rng.below(8) as u32;
            let words = [self.any(), self.any(), self.any()];
            bytes[..4].copy_from_slice(&small.to_le_bytes());
            let ino = *self.rng.pick(&[self.ino, words[0]]);
            for (at, word) in [(8, ino), (16, words[1]), (24, words[2])] {
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
        let answer = self.connection.ask(&bytes)?;
        if let Some(Answer::Lent { page, generation, .. }) = answer {
            self.loans.push((page, generation));
        }
        Ok(answer.is_some())
    }
}

/// Others use the wild file. They may get errors, but must get answers.
fn use_it(other: &mut Worker, name: &str, rng: &mut Rng) -> Result<()> {
    let _ = other.ask(&format!("attributes {name}"))?;
    let Ok(handle) = other.ask(&format!("open {name} rw"))? else { return Ok(()) };
    let line = *rng.pick(&["pread 0 20000", "pwrite 5000 3000 1", "truncate 100", "sync"]);
    let _ = other.ask(&format!("{} {line}", handle[0]))?;
    ensure!(other.ask(&format!("{} close", handle[0]))? == Ok(Vec::new()));
    Ok(())
}

fn round(volume: &TestVolume, other: &mut Worker, rng: &mut Rng, name: &str) -> Result<bool> {
    let path = volume.join(name);
    std::fs::write(&path, pattern(1, 10_000))?;
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let ino = file.metadata()?.ino();
    let connection = Connection::new(volume.root())?;
    let wanted = Wanted { ino, blocks: 64, opens: 1 };
    let loans = match connection.ask(&Request::Borrow(wanted).encode())? {
        Some(Answer::Lent { page, generation, .. }) => {
            let loan = Loan::of(&connection, page)?;
            let loans = vec![(page, generation)];
            let mut wild = Wild { connection: &connection, loan: &loan, ino, rng, loans };
            for _ in 0..1 + wild.rng.below(6) {
                if !wild.does_something()? {
                    break;
                }
            }
            wild.loans
        }
        Some(Answer::NotLent(_)) => Vec::new(),
        answer => bail!("a loan is asked for, and {answer:?} comes"),
    };
    use_it(other, name, rng)?;
    std::fs::remove_file(&path)?;
    // It may have hung up before.
    let connection = Connection::new(volume.root())?;
    for &(page, generation) in &loans {
        let request = Request::LetGo { page, generation };
        ensure!(connection.ask(&request.encode())? == Some(Answer::Done), "it lets go");
    }
    Ok(!loans.is_empty())
}

#[test]
fn a_wild_program_harms_nobody_else() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-wild").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-wild-reports")?;
        let report = scratch.join("report");
        let mut rng = Rng::new(environment("TERRACE_KILL_SEED", 1)?);
        let innocents = [0, 100, 5000, 300_000];
        for len in innocents {
            std::fs::write(volume.join(&format!("innocent-{len}")), pattern(len as u64, len))?;
        }
        let mut honest = Worker::start(volume.root(), Some(&report))?;
        let mut other = Worker::start(volume.root(), None)?;
        ensure!(honest.ask("open log ac")? == Ok(vec![0]));
        let mut lent = 0;
        for number in 0..150 {
            let context = || format!("wild program {number}");
            let name = format!("wild-{number}");
            lent += u64::from(round(&volume, &mut other, &mut rng, &name).with_context(context)?);
            for record in 0..20 {
                let seed = number * 20 + record;
                let answer = honest.ask(&format!("0 write 101 {seed}"))?;
                ensure!(answer == Ok(vec![101]), "{}: {answer:?}", context());
            }
            // A read by the mount takes it back.
            if number % 25 == 24 {
                let log = std::fs::read(volume.join("log"))?;
                let records = (0..(number + 1) * 20).flat_map(|seed| pattern(seed, 101));
                ensure!(log == records.collect::<Vec<u8>>(), "{}: another's log", context());
            }
            for len in innocents {
                let bytes = std::fs::read(volume.join(&format!("innocent-{len}")))?;
                ensure!(bytes == pattern(len as u64, len), "{}: {len} bytes", context());
            }
        }
        honest.finish()?;
        other.finish()?;
        ensure!(lent > 100, "only {lent} files were lent to wild programs");
        ensure!(direct_calls(&report)? > 1000, "the honest program goes direct");
        let named = format!("process {} has left its log in disorder", std::process::id());
        ensure!(volume.daemon_log().contains(&named), "{}", volume.daemon_log());
        volume.check()
    });
}
