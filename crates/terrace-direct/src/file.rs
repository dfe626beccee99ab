//! A file of a mount: borrowed when that pays, and given back when it does not.
//!
//! Invariants:
//! * A call that is refused with [`Refusal::Mount`] has changed nothing of the file. A read may
//!   have stored to the bytes that it was to give.
//! * Threads wait for each other, and for the daemon's answer to a request, but never for a thread
//!   that has left the library in the middle of a call: after a moment the call goes to the mount.
//! * Before a call on the mount, the kernel asks for the file's size, if the file has been borrowed
//!   since it asked last; and it is not borrowed during such a call ([`DirectFile::leave`]). The
//!   kernel would append to its cached pages at the wrong place.
//! * While the file is borrowed, the kernel is to ask: `asked` is not `known`. A loan that arrives
//!   when it has asked already, by a call that did not wait for the loan, is given back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use terrace_layout::BLOCK_BYTES;
use terrace_store::delegation::NotLent;
use terrace_store::delegation::message::{Answer, Request, Wanted};

use crate::back_off::BackOff;
use crate::borrowed::{Borrowed, Give, PIECE_BYTES_MAX, Reason, Refusal};
use crate::mount::Mount;

/// How often a thread looks whether calls on the mount have ended, and how often without letting
/// others run: a call that does not wait for a disk takes no longer.
const LOOKS: usize = 120;
const SPINS: usize = 100;
/// How long a thread waits for another one of this process.
const PATIENCE: Duration = Duration::from_millis(100);
/// Blocks of a first loan; one that is used up is followed by one of twice as many.
const BLOCKS_FIRST: u64 = 256;
const BLOCKS_MAX: u64 = 8192;
/// A longer write may need more blocks than the next loan would have: it says how many.
const LONG_BYTES: usize = 256 << 10;
/// A file of which so many bytes were written without a request for durability is handed back, as
/// the mount's own predictor would send it to the disk.
const UNSYNCED_BYTES_MAX: u64 = 4 << 20;

/// Tells how many open files of the inode are this process's own.
struct Opens(Box<dyn Fn(&DirectFile) -> u64 + Send + Sync>);

impl fmt::Debug for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opens")
    }
}

/// See the module.
#[derive(Debug)]
pub struct DirectFile {
    mount: Arc<Mount>,
    ino: u64,
    opens: Opens,
    loan: RwLock<Option<Borrowed>>,
    back_off: BackOff,
    unsynced: AtomicU64,
    blocks: AtomicU64,
    /// A thread has left in the middle of a call, or is slow: others do not wait for it.
    abandoned: AtomicBool,
    /// How many times the file has been asked for, and how many of them the kernel has asked for
    /// the size after.
    asked: AtomicU64,
    known: AtomicU64,
    /// Held while the kernel asks.
    asking: Mutex<()>,
    /// Calls on the mount that are under way.
    outside: AtomicU32,
}

impl DirectFile {
    /// The file with this inode number. It is borrowed with the first call. `opens` tells how many
    /// open files of it this process has to itself; the daemon lends nothing while there are
    /// others.
    pub fn new(
        mount: Arc<Mount>,
        ino: u64,
        opens: impl Fn(&DirectFile) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            mount,
            ino,
            opens: Opens(Box::new(opens)),
            loan: RwLock::new(None),
            back_off: BackOff::new(),
            unsynced: AtomicU64::new(0),
            blocks: AtomicU64::new(BLOCKS_FIRST),
            abandoned: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            known: AtomicU64::new(0),
            asking: Mutex::new(()),
            outside: AtomicU32::new(0),
        }
    }

    /// The mount that it is on.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// A system call on the mount is about to be made: gives the file back, if it is borrowed, and
    /// keeps it from being borrowed until [`Self::come_back`]. `ask`: has the kernel ask the daemon
    /// for the attributes, by an `fstat`.
    #[inline]
    pub fn leave(&self, ask: impl FnOnce()) {
        self.outside.fetch_add(1, Ordering::SeqCst);
        if self.asked.load(Ordering::SeqCst) != self.known.load(Ordering::SeqCst) {
            self.catch_up(ask);
        }
    }

    /// The system call has ended.
    #[inline]
    pub fn come_back(&self) {
        self.outside.fetch_sub(1, Ordering::SeqCst);
    }

    #[cold]
    fn catch_up(&self, ask: impl FnOnce()) {
        // A thread that holds it longer has left in the middle of a call.
        let _asking = self.asking.try_lock_for(PATIENCE);
        let asked = self.asked.load(Ordering::SeqCst);
        if asked != self.known.load(Ordering::SeqCst) {
            self.give_back();
            ask();
            self.known.store(asked, Ordering::SeqCst);
        }
    }

    fn abandon(&self) -> Reason {
        self.abandoned.store(true, Ordering::Relaxed);
        Reason::Busy
    }

    /// A lock that was got is abandoned no longer.
    #[inline]
    fn got<T>(&self, loan: T) -> T {
        if self.abandoned.load(Ordering::Relaxed) {
            self.abandoned.store(false, Ordering::Relaxed);
        }
        loan
    }

    #[inline]
    fn shared(&self) -> Result<RwLockReadGuard<'_, Option<Borrowed>>, Reason> {
        match self.loan.try_read() {
            Some(loan) => Ok(self.got(loan)),
            None if self.abandoned.load(Ordering::Relaxed) => Err(Reason::Busy),
            None => self.loan.try_read_for(PATIENCE).ok_or_else(|| self.abandon()),
        }
    }

    #[inline]
    fn exclusive(&self) -> Result<RwLockWriteGuard<'_, Option<Borrowed>>, Reason> {
        match self.loan.try_write() {
            Some(loan) => Ok(self.got(loan)),
            None if self.abandoned.load(Ordering::Relaxed) => Err(Reason::Busy),
            None => self.loan.try_write_for(PATIENCE).ok_or_else(|| self.abandon()),
        }
    }

    /// The loan has ended. The daemon may have lent the file again; else the mount has the next
    /// calls.
    #[cold]
    fn ended(&self, loan: &mut Option<Borrowed>) -> Result<(), Reason> {
        if let Some(borrowed) = loan.take()
            && borrowed.is_broken()
        {
            let (page, generation) = borrowed.loan();
            // This thread has the lock, so no other stores anything.
            self.mount.let_go(page as u64, generation);
        }
        let result = self.find(loan);
        result.inspect_err(|_| self.back_off.wait(Reason::Ended))
    }

    /// Takes up a loan that the daemon has begun by itself, if there is one.
    fn find(&self, loan: &mut Option<Borrowed>) -> Result<(), Reason> {
        let Some((page, generation)) = self.mount.find(self.ino) else {
            return Err(Reason::Ended);
        };
        self.ask_for()?;
        self.install(loan, page, generation)
    }

    /// Borrows the file.
    #[cold]
    fn borrow(&self, loan: &mut Option<Borrowed>) -> Result<(), Reason> {
        self.ask_for()?;
        self.begin(loan, Request::Borrow(self.wanted()))
    }

    /// From here on the kernel's size may be old. The caller has the lock, so other threads' calls
    /// on the mount come to an end, and no new ones begin.
    fn ask_for(&self) -> Result<(), Reason> {
        // In this order, a call on the mount is seen here, or sees that.
        self.asked.fetch_add(1, Ordering::SeqCst);
        for look in 0..LOOKS {
            match self.outside.load(Ordering::SeqCst) {
                0 => return Ok(()),
                _ if look < SPINS => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
        Err(self.back_off.why())
    }

    /// A call on the mount is under way, or was, since the daemon was asked for the file: from a
    /// handler in the middle of the question, or from a thread that did not wait for it. It could
    /// not give the file back, and the kernel has the size of that moment. A loan would change it
    /// unnoticed.
    fn is_outside(&self) -> bool {
        let asked = self.asked.load(Ordering::SeqCst);
        self.outside.load(Ordering::SeqCst) > 0 || asked == self.known.load(Ordering::SeqCst)
    }

    /// Whether this process has the file: borrowed, or lent by the daemon of its own accord.
    pub fn is_here(&self) -> bool {
        self.loan.try_read().is_none_or(|loan| loan.is_some())
            || self.mount.find(self.ino).is_some()
    }

    /// Takes up a loan that the daemon has begun by itself, because the file was just made. It may
    /// be another file than before, with the same inode number.
    pub fn take_up(&self) {
        if self.mount.find(self.ino).is_none() {
            return;
        }
        match self.exclusive() {
            Ok(mut loan) => {
                self.back_off.forget();
                self.unsynced.store(0, Ordering::Relaxed);
                self.blocks.store(BLOCKS_FIRST, Ordering::Relaxed);
                // One that cannot be read is given back, and the mount says why.
                let _ = self.find(&mut loan);
            }
            // The kernel's size may be old all the same.
            Err(_) => drop(self.asked.fetch_add(1, Ordering::SeqCst)),
        }
    }

    fn wanted(&self) -> Wanted {
        let blocks = self.blocks.load(Ordering::Relaxed);
        Wanted { ino: self.ino, blocks, opens: (self.opens.0)(self) }
    }

    /// Asks for the file and takes what the daemon gives.
    fn begin(&self, loan: &mut Option<Borrowed>, request: Request) -> Result<(), Reason> {
        let (page, generation, log_is_same) = match self.mount.ask(request) {
            Some(Answer::Lent { page, generation, log_is_same }) => {
                (page as usize, generation, log_is_same)
            }
            Some(Answer::NotLent(why)) => {
                *loan = None;
                self.back_off.wait(Reason::NotLent(why));
                return Err(Reason::NotLent(why));
            }
            _ => {
                *loan = None;
                self.back_off.no_answer();
                return Err(Reason::Ended);
            }
        };
        if self.is_outside() {
            *loan = None;
            self.mount.give_back(self.ino);
            return Err(self.back_off.why());
        }
        if let Some(borrowed) = loan.as_mut().filter(|_| log_is_same) {
            borrowed.renewed(page, generation);
            return Ok(());
        }
        self.install(loan, page, generation)
    }

    /// The file is borrowed by this loan.
    fn install(
        &self,
        loan: &mut Option<Borrowed>,
        page: usize,
        generation: u32,
    ) -> Result<(), Reason> {
        *loan = None;
        let (pm, segment) = (Arc::clone(self.mount.pm()), Arc::clone(self.mount.segment()));
        if page >= segment.pages() {
            return Err(Reason::Damaged);
        }
        match Borrowed::new(pm, segment, page, generation, self.mount.process()) {
            Ok(borrowed) => {
                self.back_off.begin();
                *loan = Some(borrowed);
                Ok(())
            }
            Err(error) => {
                // A log may be in disorder while the daemon takes it back.
                let lasts = self.mount.segment().control(page).word(generation).lasts();
                let has_ended = !lasts || error.errno() == libc::EBUSY;
                let why = if has_ended { Reason::Ended } else { Reason::Damaged };
                self.mount.give_back(self.ino);
                self.back_off.wait(why);
                Err(why)
            }
        }
    }

    /// Carries out a call that changes the file.
    #[inline]
    fn change<T>(
        &self,
        mut call: impl FnMut(&mut Borrowed) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.back_off.call()?;
        let mut loan = self.exclusive()?;
        if loan.is_none() {
            self.borrow(&mut loan)?;
        }
        let borrowed = loan.as_mut().expect("it was borrowed just now");
        match call(borrowed) {
            Err(Refusal::Mount(Reason::Renew)) => self.renew(&mut loan)?,
            Err(Refusal::Mount(Reason::Ended)) => self.ended(&mut loan)?,
            result => return result.inspect_err(|refusal| self.note(refusal, &mut loan)),
        }
        call(loan.as_mut().expect("it was borrowed anew"))
            .inspect_err(|refusal| self.note(refusal, &mut loan))
    }

    #[cold]
    fn renew(&self, loan: &mut Option<Borrowed>) -> Result<(), Reason> {
        let blocks = (2 * self.blocks.load(Ordering::Relaxed)).min(BLOCKS_MAX);
        self.blocks.store(blocks, Ordering::Relaxed);
        self.begin(loan, Request::Renew(self.wanted()))
    }

    #[cold]
    fn note(&self, refusal: &Refusal, loan: &mut Option<Borrowed>) {
        match refusal {
            Refusal::Errno(_) | Refusal::Mount(Reason::Busy) => {}
            Refusal::Mount(Reason::Ended) => drop(self.ended(loan)),
            &Refusal::Mount(why) => {
                *loan = None;
                self.mount.give_back(self.ino);
                self.back_off.wait(why);
            }
        }
    }

    /// Carries out a call that only looks.
    #[inline]
    fn look<T>(&self, mut call: impl FnMut(&Borrowed) -> Result<T, Refusal>) -> Result<T, Refusal> {
        self.back_off.call()?;
        let loan = self.shared()?;
        let refusal = match loan.as_ref().map(&mut call) {
            Some(Err(Refusal::Mount(why))) => Some(why),
            Some(result) => return result,
            None => None,
        };
        drop(loan);
        let mut loan = self.exclusive()?;
        match (refusal, loan.as_ref()) {
            (_, None) => self.borrow(&mut loan)?,
            // Another thread has borrowed it meanwhile, perhaps again.
            (None, Some(_)) => {}
            (Some(Reason::Ended), Some(borrowed)) if borrowed.lasts() => {}
            (Some(Reason::Ended), Some(_)) => self.ended(&mut loan)?,
            (Some(why), Some(_)) => {
                self.note(&why.into(), &mut loan);
                return Err(why.into());
            }
        }
        call(loan.as_ref().expect("it was borrowed just now"))
    }

    /// Reads: see [`Borrowed::read_at`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read_at(&self, offset: u64, len: usize, give: Give<'_>) -> Result<usize, Refusal> {
        self.look(|borrowed| borrowed.read_at(offset, len, give))
    }

    /// Writes: see [`Borrowed::write_at`]. Up to [`PIECE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn write_at(&self, offset: Option<u64>, data: &[u8]) -> Result<u64, Refusal> {
        debug_assert!(data.len() <= PIECE_BYTES_MAX);
        let unsynced = self.unsynced.load(Ordering::Relaxed) + data.len() as u64;
        if unsynced > UNSYNCED_BYTES_MAX {
            return self.hand_back();
        }
        if data.len() > LONG_BYTES {
            let blocks = data.len().div_ceil(BLOCK_BYTES as usize) as u64;
            self.blocks.fetch_max(blocks, Ordering::Relaxed);
        }
        let at = self.change(|borrowed| borrowed.write_at(offset, data))?;
        self.unsynced.store(unsynced, Ordering::Relaxed);
        Ok(at)
    }

    /// It is written as files are that belong on a disk.
    #[cold]
    fn hand_back(&self) -> Result<u64, Refusal> {
        self.unsynced.store(0, Ordering::Relaxed);
        self.give_back();
        let why = Reason::NotLent(NotLent::Asynchronous);
        self.back_off.wait_longest(why);
        Err(why.into())
    }

    /// Sets the size (bytes).
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn truncate(&self, size: u64) -> Result<(), Refusal> {
        self.change(|borrowed| borrowed.truncate(size))
    }

    /// The size (bytes).
    ///
    /// # Errors
    /// [`Refusal::Mount`].
    pub fn size(&self) -> Result<u64, Refusal> {
        self.look(Borrowed::size)
    }

    /// Size (bytes), pieces of 512 bytes, and time of the last change (nanoseconds since 1970), if
    /// the file is borrowed.
    pub fn attributes(&self) -> Option<(u64, u64, i64)> {
        self.shared().ok()?.as_ref()?.attributes().ok()
    }

    /// Makes everything durable, which it is.
    ///
    /// # Errors
    /// [`Refusal::Mount`].
    pub fn sync(&self) -> Result<(), Refusal> {
        self.unsynced.store(0, Ordering::Relaxed);
        self.look(Borrowed::sync)
    }

    /// Gives the file back to the mount, if it is borrowed.
    fn give_back(&self) {
        let Ok(mut loan) = self.exclusive() else {
            // A thread that was only slow would change the file behind the kernel's back: the
            // daemon ends its loan.
            self.mount.give_back(self.ino);
            return;
        };
        if loan.take().is_some() {
            self.mount.give_back(self.ino);
            self.back_off.wait(Reason::Ended);
        }
    }
}
