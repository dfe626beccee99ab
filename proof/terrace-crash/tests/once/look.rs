//! What is compared: the answer, everything that programs can see, and what the ledger counts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result, ensure};
use terrace_transport::Message;
use terrace_transport::abi::{Attr, AttrOut, EntryOut, GetxattrIn, ReadIn, StatfsOut, SyncfsIn};
use zerocopy::{FromBytes, IntoBytes};

use crate::kernel::{Carried, Kernel};
use crate::kinds::BALLAST;
use crate::messages::{Answer, Sent, listed};

/// More inodes than a volume of a test has.
const INODES: std::ops::Range<u64> = 2..1024;
/// Longer than any file and listing of a test.
const LONG: u32 = 512 << 10;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The answer, and what programs see then.
    pub text: String,
    /// Free blocks when everything is forgotten.
    pub free: u64,
    /// Lookups that are counted, and that the kernel does not have.
    pub excess: u64,
}

/// Looks at everything, and ends the mount.
///
/// # Errors
/// Something is wrong at any rate: a lookup is not counted, or the check finds a problem.
pub fn look(mut kernel: Kernel<'_>, sent: &Sent, carried: &Carried) -> Result<Seen> {
    let excess = excess(&kernel, carried)?;
    let mut view = View { kernel: &mut kernel, text: String::new(), known: BTreeMap::new() };
    view.directory(1, "")?;
    view.nameless()?;
    let View { text, known, .. } = view;
    let answer = carried.answer.as_ref();
    let answer = answer.map_or(Ok("none".to_owned()), |answer| words(sent, answer, &known))?;
    let free = forget_all(&mut kernel, &excess)?;
    kernel.unmount()?;
    Ok(Seen { text: format!("answer: {answer}\n{text}"), free, excess: excess.values().sum() })
}

/// Lookups that are counted, and that the kernel does not have: of one inode for each death in the
/// middle of counting them, of all in the answer if the death came right before it was written.
fn excess(kernel: &Kernel<'_>, carried: &Carried) -> Result<BTreeMap<u64, u64>> {
    let mut excess = BTreeMap::new();
    for ino in INODES {
        let kept = kernel.lookups().get(&ino).copied().unwrap_or_default();
        let counted = kernel.ledger().lookups(ino);
        ensure!(counted >= kept, "inode {ino}: {counted} lookups are counted, there are {kept}");
        if counted > kept {
            excess.insert(ino, counted - kept);
        }
    }
    let deaths = carried.deaths.len() as u64;
    let answering = carried.deaths.contains(&true);
    let inodes = excess.len() as u64;
    ensure!(answering || inodes <= deaths, "lookups too many: {excess:?}, {deaths} deaths");
    Ok(excess)
}

/// Forgets everything, and has what nobody refers to given back: the free blocks then.
fn forget_all(kernel: &mut Kernel<'_>, excess: &BTreeMap<u64, u64>) -> Result<u64> {
    let inodes: Vec<u64> = kernel.lookups().keys().copied().filter(|&ino| ino != 1).collect();
    let sent = kernel.batch_forget(&inodes, None);
    kernel.tell(sent)?;
    let sent = Sent::new(Message::Syncfs, 1, &[SyncfsIn::default().as_bytes()]);
    ensure!(kernel.call(sent)?.errno == 0, "SYNCFS");
    for ino in INODES {
        let counted = kernel.ledger().lookups(ino);
        let left = excess.get(&ino).copied().unwrap_or_default();
        ensure!(counted == left, "inode {ino}: {counted} lookups stay");
        let linkable = kernel.ledger().is_linkable(ino);
        ensure!(!linkable || left > 0, "inode {ino} stays linkable");
    }
    let answer = kernel.call(Sent::new(Message::Statfs, 1, &[]))?;
    Ok(answer.value::<StatfsOut>()?.bfree)
}

struct View<'a, 'b> {
    kernel: &'a mut Kernel<'b>,
    text: String,
    /// Inodes by the order in which they were found.
    known: BTreeMap<u64, usize>,
}

impl View<'_, '_> {
    fn directory(&mut self, dir: u64, path: &str) -> Result<()> {
        let read = ReadIn { size: LONG, ..ReadIn::default() };
        let answer = self.kernel.call(Sent::new(Message::Readdir, dir, &[read.as_bytes()]))?;
        ensure!(answer.errno == 0, "{path}: errno {}", answer.errno);
        let mut names = listed(&answer.bytes)?;
        names.sort_by(|a, b| a.1.cmp(&b.1));
        for (dirent, name) in names.iter().filter(|(_, name)| is_looked_at(name)) {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            let found = self.kernel.call(Sent::lookup(dir, name))?;
            let entry = *found.value::<EntryOut>().with_context(|| path.clone())?;
            ensure!(entry.nodeid == dirent.ino, "{path}: another inode is listed");
            let is_new = !self.known.contains_key(&entry.nodeid);
            self.inode(&path, &entry.attr)?;
            if is_new && entry.attr.mode & libc::S_IFMT == libc::S_IFDIR {
                self.directory(entry.nodeid, &path)?;
            }
        }
        Ok(())
    }

    /// Inodes that the kernel knows, and that have no name.
    fn nameless(&mut self) -> Result<()> {
        let known: Vec<u64> = self.kernel.lookups().keys().copied().collect();
        for ino in known {
            if ino != 1 && !self.known.contains_key(&ino) {
                let answer = self.kernel.call(Sent::new(Message::Getattr, ino, &[&[0; 16]]))?;
                let attr = answer.value::<AttrOut>().with_context(|| format!("inode {ino}"))?.attr;
                self.inode("nameless", &attr)?;
            }
        }
        Ok(())
    }

    fn inode(&mut self, path: &str, attr: &Attr) -> Result<()> {
        let next = self.known.len();
        let number = *self.known.entry(attr.ino).or_insert(next);
        let linkable = self.kernel.ledger().is_linkable(attr.ino);
        writeln!(
            self.text,
            "{path} #{number} {:o} links {} size {} owner {}:{} rdev {} linkable {linkable}",
            attr.mode, attr.nlink, attr.size, attr.uid, attr.gid, attr.rdev
        )?;
        let contents = match attr.mode & libc::S_IFMT {
            libc::S_IFREG => {
                let read = ReadIn { size: LONG, ..ReadIn::default() };
                Some(Sent::new(Message::Read, attr.ino, &[read.as_bytes()]))
            }
            libc::S_IFLNK => Some(Sent::new(Message::Readlink, attr.ino, &[])),
            _ => None,
        };
        if let Some(contents) = contents {
            let answer = self.kernel.call(contents)?;
            ensure!(answer.bytes.len() as u64 == attr.size, "{path}: a short READ");
            writeln!(self.text, "  contents {}", digest(&answer))?;
        }
        self.attributes(attr.ino)
    }

    fn attributes(&mut self, ino: u64) -> Result<()> {
        let size = GetxattrIn { size: LONG, ..GetxattrIn::default() };
        let names = self.kernel.call(Sent::new(Message::Listxattr, ino, &[size.as_bytes()]))?;
        ensure!(names.errno == 0, "LISTXATTR: errno {}", names.errno);
        let mut names: Vec<_> = names.bytes.split_inclusive(|&byte| byte == 0).collect();
        names.sort_unstable();
        for name in names {
            let parts = [size.as_bytes(), name];
            let value = self.kernel.call(Sent::new(Message::Getxattr, ino, &parts))?;
            writeln!(self.text, "  {} {}", String::from_utf8_lossy(name), digest(&value))?;
        }
        Ok(())
    }
}

fn is_looked_at(name: &[u8]) -> bool {
    !matches!(name, b"." | b"..") && name != BALLAST.as_bytes()
}

fn digest(answer: &Answer) -> String {
    let mut hasher = DefaultHasher::new();
    answer.bytes.hash(&mut hasher);
    format!("errno {} bytes {} hash {:x}", answer.errno, answer.bytes.len(), hasher.finish())
}

/// An answer without times and blocks (a recovery writes dirty pages back), and with inodes by the
/// order in which they were found.
fn words(sent: &Sent, answer: &Answer, known: &BTreeMap<u64, usize>) -> Result<String> {
    use Message::{Create, Link, Lookup, Mkdir, Mknod, Setattr, Symlink, Tmpfile};
    let timeless = |attr: Attr| Attr {
        ino: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        atimensec: 0,
        mtimensec: 0,
        blocks: 0,
        ctimensec: 0,
        ..attr
    };
    if answer.errno != 0 {
        return Ok(format!("errno {}", answer.errno));
    }
    match sent.kind {
        Create | Link | Lookup | Mkdir | Mknod | Symlink | Tmpfile => {
            let (entry, rest) =
                EntryOut::read_from_prefix(&answer.bytes).ok().context("a short answer")?;
            let number = match entry.nodeid {
                0 => None,
                ino => Some(known.get(&ino).context("an inode that is nowhere")?),
            };
            let attr = timeless(entry.attr);
            Ok(format!("{number:?} {attr:?} valid {} {rest:?}", entry.entry_valid))
        }
        Setattr => Ok(format!("{:?}", timeless(answer.value::<AttrOut>()?.attr))),
        _ => Ok(digest(answer)),
    }
}
