//! The kernel's side of a connection: a socket in place of `/dev/fuse`, with the kernel's rules.
//! Requests that were taken and not answered come again when a daemon asks for that; FORGETs never
//! do. Over io_uring ([`Rings`]) that socket has them alone, and what tells that they were taken.
//! The kernel counts its lookups of each inode.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair,
};
use terrace_fuse::Ledger;
use terrace_transport::abi::{
    BatchForgetIn, EntryOut, ForgetIn, ForgetOne, InHeader, InitFlags, InitIn, MAJOR, MINOR,
    NOTIFY_RESEND, OutHeader,
};
use terrace_transport::{Message, Session, Terms};
use zerocopy::{FromBytes, IntoBytes};

use crate::daemon::{Daemon, Devices, Ending};
use crate::messages::{Answer, Sent, listed_plus, message};
use crate::rings::Rings;
use crate::steps::{From, NEVER, Steps};

/// Set in the number of a request that comes again.
const RESENT: u64 = 1 << 63;
/// Longer than any daemon of a test takes.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A request without an answer.
#[derive(Debug)]
struct Open {
    unique: u64,
    /// The number that its answer has.
    number: u64,
    sent: Sent,
    over_io_uring: bool,
    /// A daemon that died had taken it from `/dev/fuse`.
    taken: bool,
    /// Of another program, which waits for it as well.
    aside: bool,
}

/// The way that messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `/dev/fuse`.
    Device,
    /// FORGETs over `/dev/fuse`, and the rest over io_uring.
    Rings,
}

/// When daemons die: each at a step, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Deaths {
    /// The steps, the first daemon's counted from its taking the request, the others' from their
    /// beginning.
    pub at: Vec<u64>,
}

/// What happened to a request.
#[derive(Debug)]
pub struct Carried {
    /// `None`: none was due.
    pub answer: Option<Answer>,
    /// For each daemon that died, whether that was right before it wrote an answer.
    pub deaths: Vec<bool>,
    /// Steps of the last daemon.
    pub steps: u64,
}

/// The kernel's side.
#[derive(Debug)]
pub struct Kernel<'a> {
    devices: &'a Devices,
    ledger: &'static Ledger,
    steps: &'static Steps,
    socket: OwnedFd,
    device: OwnedFd,
    rings: Option<Rings>,
    daemon: Option<Daemon>,
    unique: u64,
    /// In the order in which they were sent.
    open: Vec<Open>,
    /// Lookups of each inode.
    lookups: BTreeMap<u64, u64>,
}

enum Event {
    Answer(u64, Answer),
    /// One of another program has its answer.
    Aside,
    Resend,
    Died,
}

impl<'a> Kernel<'a> {
    /// Mounts the volume on these devices: INIT, and a daemon.
    ///
    /// # Errors
    /// The daemon's.
    pub fn mount(
        devices: &'a Devices,
        ledger: &'static Ledger,
        steps: &'static Steps,
        way: Way,
    ) -> Result<Kernel<'a>> {
        steps.reset();
        ledger.clear()?;
        devices.restore()?;
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut kernel = Kernel {
            devices,
            ledger,
            steps,
            socket: pair.0,
            device: pair.1,
            rings: None,
            daemon: None,
            unique: 0,
            open: Vec::new(),
            lookups: BTreeMap::new(),
        };
        kernel.init(way)?;
        if way == Way::Rings {
            kernel.rings = Some(Rings::new()?);
        }
        kernel.start(true)?;
        loop {
            match kernel.turn()? {
                Some(Event::Resend) => return Ok(kernel),
                None if kernel.rings.as_ref().is_some_and(Rings::is_whole) => return Ok(kernel),
                None => {}
                Some(_) => bail!("the first daemon does not serve"),
            }
        }
    }

    fn init(&mut self, way: Way) -> Result<()> {
        let flags = InitFlags::HAS_RESEND | InitFlags::INIT_EXT;
        let flags = match way {
            Way::Device => flags,
            Way::Rings => flags | InitFlags::OVER_IO_URING,
        };
        let init = InitIn {
            major: MAJOR,
            minor: MINOR,
            flags: flags.bits() as u32,
            flags2: (flags.bits() >> 32) as u32,
            ..InitIn::default()
        };
        self.send(Sent::new(Message::Init, 0, &[init.as_bytes()]))?;
        let terms = Terms {
            required: InitFlags::empty(),
            wanted: flags,
            message_bytes_max: 1 << 20,
            background_max: 12,
            congested: 9,
        };
        let device = self.device.try_clone()?;
        let session = Session::begin(device, &terms, Some(self.ledger))?;
        ensure!(session.can_be_taken_up(), "INIT");
        self.open.clear();
        rustix::io::read(&self.socket, &mut vec![0; ANSWER_BYTES_MAX])?;
        Ok(())
    }

    fn start(&mut self, is_first: bool) -> Result<()> {
        let daemon = Daemon::start(self.devices, self.ledger, self.device.as_fd(), is_first)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Sends a message; returns its number.
    fn send(&mut self, sent: Sent) -> Result<u64> {
        let unique = self.next_unique();
        match &mut self.rings {
            Some(rings) if sent.kind.is_answered() => rings.send(unique, &sent)?,
            _ => return self.send_behind(sent),
        }
        Ok(self.is_open(unique, sent, true))
    }

    /// Sends a message over `/dev/fuse` at any rate: it is taken after what went there before.
    fn send_behind(&mut self, sent: Sent) -> Result<u64> {
        let unique = self.next_unique();
        self.write(unique, &sent)?;
        Ok(self.is_open(unique, sent, false))
    }

    fn is_open(&mut self, unique: u64, sent: Sent, over_io_uring: bool) -> u64 {
        let (taken, aside) = (false, false);
        self.open.push(Open { unique, number: unique, sent, over_io_uring, taken, aside });
        unique
    }

    /// Sends a request of another program over io_uring.
    fn send_aside(&mut self) -> Result<()> {
        self.send(Sent::new(Message::Statfs, 1, &[]))?;
        self.open.last_mut().context("a request")?.aside = true;
        Ok(())
    }

    fn next_unique(&mut self) -> u64 {
        self.unique += 2;
        self.unique
    }

    fn write(&self, unique: u64, sent: &Sent) -> Result<()> {
        rustix::io::write(&self.socket, &message(unique, sent))?;
        Ok(())
    }

    /// What comes next.
    fn event(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.turn()? {
                return Ok(event);
            }
        }
    }

    /// Waits for one thing that a daemon does; `None`: it says nothing.
    fn turn(&mut self) -> Result<Option<Event>> {
        if self.rings.as_ref().is_some_and(Rings::is_stuck) {
            // As a process does that asks the mount for something after a takeover.
            self.send_aside()?;
        }
        let end = self.daemon.as_ref().context("a daemon")?.end();
        let mut waiting = vec![PollFd::new(&self.socket, PollFlags::IN)];
        let workers = self.rings.iter().flat_map(Rings::sockets);
        waiting.extend(workers.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        waiting.push(PollFd::from_borrowed_fd(end, PollFlags::IN));
        if poll(&mut waiting, Some(&PATIENCE))? == 0 {
            bail!("no answer: {:?}, {:?}, {}", self.open, self.rings, self.threads());
        }
        let ready = waiting.iter().position(|one| !one.revents().is_empty());
        let (ready, last) = (ready.context("a reason to go on")?, waiting.len() - 1);
        drop(waiting);
        match ready {
            0 => self.read(),
            // What a daemon said before it died counts.
            end if end == last => Ok(Some(Event::Died)),
            worker => {
                let rings = self.rings.as_mut().context("workers")?;
                let Some((unique, answer)) = rings.obey(worker - 1)? else { return Ok(None) };
                if !self.open.iter().any(|open| open.unique == unique && open.aside) {
                    return Ok(Some(Event::Answer(unique, answer)));
                }
                self.settle(unique, &answer)?;
                Ok(Some(Event::Aside))
            }
        }
    }

    /// Where the daemon's threads wait.
    fn threads(&self) -> String {
        let of = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
        let Some(daemon) = &self.daemon else { return String::new() };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id()));
        let tasks = tasks.into_iter().flatten().flatten().map(|task| task.path());
        let lines = tasks.map(|task| {
            let (name, at) = (of(&task.join("comm")), of(&task.join("wchan")));
            let syscall = of(&task.join("syscall"));
            format!("{} in {at}, {}", name.trim(), syscall.trim())
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    /// What was written to `/dev/fuse`.
    fn read(&self) -> Result<Option<Event>> {
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        let len = rustix::io::read(&self.socket, &mut bytes)?;
        let (header, body) = OutHeader::ref_from_prefix(&bytes[..len]).ok().context("short")?;
        Ok(match (header.unique, header.error) {
            (0, NOTIFY_RESEND) => Some(Event::Resend),
            // The kernel caches nothing.
            (0, _) => None,
            (unique, error) => {
                Some(Event::Answer(unique, Answer { errno: -error, bytes: body.to_vec() }))
            }
        })
    }

    /// An answer came: it must be one that is waited for. Which?
    fn settle(&mut self, number: u64, answer: &Answer) -> Result<u64> {
        let at = self.open.iter().position(|open| open.number == number);
        let open = self.open.remove(at.context("an answer that nobody waits for")?);
        self.count_lookups(&open.sent, answer)?;
        Ok(open.unique)
    }

    fn count_lookups(&mut self, sent: &Sent, answer: &Answer) -> Result<()> {
        use Message::{Create, Link, Lookup, Mkdir, Mknod, Symlink, Tmpfile};
        let named = matches!(sent.kind, Create | Link | Lookup | Mkdir | Mknod | Symlink | Tmpfile);
        if answer.errno != 0 {
            return Ok(());
        }
        if named {
            self.look_up(answer.value::<EntryOut>()?.nodeid);
        }
        if sent.kind == Message::Readdirplus {
            for (entry, name) in listed_plus(&answer.bytes)? {
                if name != b"." && name != b".." {
                    self.look_up(entry.nodeid);
                }
            }
        }
        Ok(())
    }

    fn look_up(&mut self, ino: u64) {
        if ino != 0 {
            *self.lookups.entry(ino).or_default() += 1;
        }
    }

    /// Makes a request whose daemon does not die; the answer.
    ///
    /// # Errors
    /// There is none.
    pub fn call(&mut self, sent: Sent) -> Result<Answer> {
        let unique = self.send(sent)?;
        self.answer_to(unique)
    }

    fn answer_to(&mut self, unique: u64) -> Result<Answer> {
        match self.event()? {
            Event::Answer(of, answer) => {
                ensure!(self.settle(of, &answer)? == unique, "an answer to something else");
                Ok(answer)
            }
            Event::Aside => bail!("an answer to another program"),
            Event::Resend => bail!("a daemon begins anew"),
            Event::Died => bail!("the daemon died: {:?}", self.buried()?),
        }
    }

    fn buried(&mut self) -> Result<Ending> {
        self.daemon.take().context("a daemon")?.wait()
    }

    /// Takes all lookups of an inode back: the message for that.
    pub fn forget(&mut self, ino: u64) -> Sent {
        let nlookup = self.lookups.remove(&ino).unwrap_or_default();
        Sent::new(Message::Forget, ino, &[ForgetIn { nlookup }.as_bytes()])
    }

    /// Takes one lookup of an inode back: the message for that.
    pub fn forget_one(&mut self, ino: u64) -> Sent {
        self.lookups.entry(ino).and_modify(|lookups| *lookups -= 1);
        Sent::new(Message::Forget, ino, &[ForgetIn { nlookup: 1 }.as_bytes()])
    }

    /// Takes all lookups of several inodes back, of one of them only one.
    pub fn batch_forget(&mut self, inodes: &[u64], only_one_of: Option<u64>) -> Sent {
        let one = |&nodeid: &u64| {
            let all = self.lookups.remove(&nodeid).unwrap_or_default();
            let nlookup = if only_one_of == Some(nodeid) { 1 } else { all };
            if all > nlookup {
                self.lookups.insert(nodeid, all - nlookup);
            }
            ForgetOne { nodeid, nlookup }
        };
        let all: Vec<ForgetOne> = inodes.iter().map(one).collect();
        let head = BatchForgetIn { count: all.len() as u32, dummy: 0 };
        Sent::new(Message::BatchForget, 0, &[head.as_bytes(), all.as_bytes()])
    }

    /// Sends a message that is not answered.
    ///
    /// # Errors
    /// The system's.
    pub fn tell(&mut self, sent: Sent) -> Result<()> {
        self.send(sent)?;
        self.open.pop();
        // Once this has its answer, that was taken.
        let unique = self.send_behind(Sent::new(Message::Statfs, 1, &[]))?;
        self.answer_to(unique).map(drop)
    }

    /// Makes a request while daemons die. Once it has its answer, another one is made: so all that
    /// belongs to the first has happened. Over io_uring, another program makes one after each
    /// death.
    ///
    /// # Errors
    /// A daemon ends otherwise, or gives no answer.
    pub fn carry(&mut self, sent: Sent, deaths: &Deaths) -> Result<Carried> {
        let mut at = deaths.at.iter().copied().chain(std::iter::repeat(NEVER));
        let mut carried = Carried { answer: None, deaths: Vec::new(), steps: 0 };
        let is_answered = sent.kind.is_answered();
        self.steps.arm(at.next().unwrap_or(NEVER), From::NextMessage, 2);
        let unique = self.send(sent)?;
        let probe = Sent::new(Message::Statfs, 1, &[]);
        let mut probing = None;
        if !is_answered {
            probing = Some(self.send_behind(probe.clone())?);
        }
        // A daemon may die after the last answer. Over /dev/fuse its successor says that it begins.
        let (mut is_over, mut begins) = (false, false);
        while !is_over || begins || self.open.iter().any(|open| open.aside) || !self.steps.disarm()
        {
            match self.event()? {
                Event::Answer(number, answer) => {
                    let of = self.settle(number, &answer)?;
                    if of == unique {
                        carried.answer = Some(answer);
                        probing = Some(self.send(probe.clone())?);
                        continue;
                    }
                    ensure!(Some(of) == probing, "an answer to something else");
                    is_over = true;
                }
                Event::Aside => {}
                Event::Resend => {
                    begins = false;
                    self.resend()?;
                }
                Event::Died => {
                    begins = self.rings.is_none();
                    carried.deaths.push(self.bury()?);
                    let waits = is_answered && carried.answer.is_none();
                    let last = if waits { 2 } else { 1 };
                    self.steps.arm(at.next().unwrap_or(NEVER), From::Here, last);
                    self.start(false)?;
                }
            }
        }
        carried.steps = self.steps.count();
        self.open.clear();
        Ok(carried)
    }

    /// The daemon has died, at a step. Says whether that was right before an answer.
    fn bury(&mut self) -> Result<bool> {
        let ending = self.buried()?;
        let killed = self.steps.killed(self.rings.is_some());
        match (ending, killed) {
            (Ending::Killed(libc::SIGKILL), Some(answering)) => {
                let waiting = self.take_waiting()?;
                let taken = |open: &Open| !open.over_io_uring && !waiting.contains(&open.number);
                self.open.iter_mut().for_each(|open| open.taken |= taken(open));
                self.open.retain(|open| !open.taken || open.sent.kind.is_answered());
                if let Some(rings) = &mut self.rings {
                    rings.bury()?;
                    self.resend()?;
                    self.send_aside()?;
                }
                Ok(answering)
            }
            _ => bail!("a daemon ended by itself: {ending:?}"),
        }
    }

    /// The numbers of messages that no daemon has taken, which are withdrawn.
    fn take_waiting(&self) -> Result<Vec<u64>> {
        let mut waiting = Vec::new();
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        loop {
            match rustix::net::recv(&self.device, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => {
                    let message = InHeader::read_from_prefix(&bytes[..len]);
                    waiting.push(message.ok().context("a short message")?.0.unique);
                }
                Err(Errno::AGAIN) => return Ok(waiting),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Hands out what a dead daemon had taken from `/dev/fuse`, and then what none has.
    fn resend(&mut self) -> Result<()> {
        self.open.sort_by_key(|open| !open.taken);
        for open in &mut self.open {
            if open.taken {
                open.number |= RESENT;
            }
        }
        let mut open = self.open.iter().filter(|open| !open.over_io_uring);
        open.try_for_each(|open| self.write(open.number, &open.sent))
    }

    /// The volume's devices.
    pub fn devices(&self) -> &'a Devices {
        self.devices
    }

    /// Lookups of each inode.
    pub fn lookups(&self) -> &BTreeMap<u64, u64> {
        &self.lookups
    }

    /// The ledger.
    pub fn ledger(&self) -> &'static Ledger {
        self.ledger
    }

    /// Ends the connection: the daemon closes the volume.
    ///
    /// # Errors
    /// It cannot.
    pub fn unmount(mut self) -> Result<()> {
        shutdown(&self.socket, Shutdown::Write)?;
        self.rings.iter().try_for_each(Rings::end)?;
        let ending = self.buried()?;
        ensure!(ending == Ending::Exited(0), "the daemon cannot close the volume: {ending:?}");
        Ok(())
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            let _ = daemon.kill();
        }
    }
}
