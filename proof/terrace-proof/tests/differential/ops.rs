//! The operations and their generator. Few names, so that operations meet each other.

use crate::features::Features;
use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};
use terrace_proof::Rng;

/// One system call (or open, call, close). Paths are relative to the tree's root.
#[derive(Debug, Clone)]
pub enum Op {
    Create { path: String, mode: u32 },
    Mkdir { path: String, mode: u32 },
    Mkfifo { path: String, mode: u32 },
    Symlink { target: String, path: String },
    Link { from: String, to: String },
    Unlink { path: String },
    Rmdir { path: String },
    Rename { from: String, to: String, flags: RenameFlags },
    Write { path: String, offset: u64, len: usize, seed: u64 },
    Append { path: String, len: usize, seed: u64 },
    WriteDirect { path: String, block: u64, blocks: usize, seed: u64 },
    WriteMapped { path: String, offset: u64, len: usize, seed: u64 },
    Read { path: String, offset: u64, len: usize },
    ReadDirect { path: String, block: u64, blocks: usize },
    Truncate { path: String, size: u64 },
    Fallocate { path: String, mode: FallocateFlags, offset: u64, len: u64 },
    CopyRange { from: String, from_offset: u64, to: String, to_offset: u64, len: usize },
    Fsync { path: String },
    SetXattr { path: String, name: &'static str, len: usize, seed: u64, flags: XattrFlags },
    RemoveXattr { path: String, name: &'static str },
    SetAcl { path: String, default: bool, permissions: u16 },
    Chmod { path: String, mode: u32 },
    Chown { path: String, owner: Option<u32>, group: Option<u32> },
    Utimens { path: String, access: Option<(i64, i64)>, modification: Option<(i64, i64)> },
    Readlink { path: String },
    Open { slot: usize, path: String, truncate: bool },
    WriteOpen { slot: usize, offset: u64, len: usize, seed: u64 },
    ReadOpen { slot: usize, offset: u64, len: usize },
    TruncateOpen { slot: usize, size: u64 },
    Close { slot: usize },
    Remount,
    CompareTrees,
}

/// How many files a list keeps open at once.
pub const SLOTS: usize = 4;

/// Names of attributes, the last one without a namespace that file systems know.
const XATTRS: [&str; 6] = [
    "user.a",
    "user.b",
    "user.long_name_for_an_attribute",
    "trusted.t",
    "security.proof",
    "nonsense.x",
];

/// Draws operations.
pub struct Generator {
    rng: Rng,
    features: Features,
    names: Vec<String>,
    /// Paths that were asked for recently: most operations should meet something.
    files: Vec<String>,
    directories: Vec<String>,
}

/// How many recent paths of a kind the generator remembers.
const RECENT: usize = 8;

impl Generator {
    pub fn new(rng: Rng, features: Features) -> Self {
        let mut names: Vec<String> =
            ["a", "b", "c", "d", "e", "f", "zwölf", ".hidden"].map(String::from).into();
        names.push("n".repeat(255));
        Generator { rng, features, names, files: Vec::new(), directories: Vec::new() }
    }

    /// `count` operations, with comparisons of the whole trees and remounts in between.
    pub fn list(mut self, count: usize) -> Vec<Op> {
        let mut ops = Vec::with_capacity(count);
        for number in 1..=count {
            ops.push(match number {
                n if n % 700 == 0 => Op::Remount,
                n if n % 150 == 0 => Op::CompareTrees,
                _ => self.op(),
            });
        }
        ops
    }

    fn op(&mut self) -> Op {
        match self.rng.below(100) {
            0..28 => self.name_op(),
            28..64 => self.data_op(),
            64..83 => self.attribute_op(),
            _ => self.open_op(),
        }
    }

    fn name_op(&mut self) -> Op {
        let path = self.path();
        match self.rng.below(16) {
            0..5 => {
                let path = self.new_path();
                remember(&mut self.files, &path);
                Op::Create { path, mode: self.mode() }
            }
            5 => {
                let path = self.new_path();
                remember(&mut self.directories, &path);
                Op::Mkdir { path, mode: self.mode() }
            }
            6 => Op::Mkfifo { path, mode: self.mode() },
            7 => {
                let path = self.new_path();
                remember(&mut self.files, &path);
                Op::Symlink { target: self.path(), path }
            }
            8 | 9 => Op::Link { from: path, to: self.new_path() },
            10 | 11 => Op::Unlink { path },
            12 => Op::Rmdir { path: self.directory() },
            13 => Op::Readlink { path },
            _ => {
                let kinds = [
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                ];
                let to = if self.rng.one_in(2) { self.path() } else { self.new_path() };
                remember(&mut self.files, &to);
                Op::Rename { from: path, to, flags: *self.rng.pick(&kinds) }
            }
        }
    }

    fn data_op(&mut self) -> Op {
        let path = self.path();
        let (offset, len, seed) = (self.offset(), self.len(), self.rng.next_u64());
        match self.rng.below(16) {
            0..4 => Op::Write { path, offset, len, seed },
            4 | 5 => Op::Append { path, len, seed },
            6 if self.features.direct => Op::WriteDirect {
                path,
                block: offset >> 12,
                blocks: 1 + self.rng.below(24) as usize,
                seed,
            },
            7 => Op::WriteMapped { path, offset, len, seed },
            8 | 9 => Op::Read { path, offset, len },
            10 if self.features.direct => Op::ReadDirect {
                path,
                block: offset >> 12,
                blocks: 1 + self.rng.below(24) as usize,
            },
            11 => Op::Truncate { path, size: if self.rng.one_in(3) { 0 } else { offset } },
            12 | 13 => {
                let mode = *self.rng.pick(&self.features.fallocate_modes());
                Op::Fallocate { path, mode, offset, len: len as u64 }
            }
            14 if false => Op::CopyRange {
                from: path,
                from_offset: offset,
                to: self.path(),
                to_offset: self.offset(),
                len,
            },
            _ => Op::Fsync { path },
        }
    }

    fn attribute_op(&mut self) -> Op {
        let path = self.path();
        match self.rng.below(10) {
            0..3 if self.features.xattrs => {
                let flags = [
                    XattrFlags::empty(),
                    XattrFlags::empty(),
                    XattrFlags::CREATE,
                    XattrFlags::REPLACE,
                ];
                let (name, len) = (*self.rng.pick(&XATTRS), self.rng.below(200) as usize);
                Op::SetXattr {
                    path,
                    name,
                    len,
                    seed: self.rng.next_u64(),
                    flags: *self.rng.pick(&flags),
                }
            }
            3 if self.features.xattrs => {
                Op::RemoveXattr { path, name: self.rng.pick::<&str>(&XATTRS) }
            }
            4 if self.features.acls => Op::SetAcl {
                path,
                default: self.rng.one_in(2),
                permissions: self.rng.below(512) as u16,
            },
            5 | 6 => Op::Chown { path, owner: self.id(), group: self.id() },
            7 | 8 => Op::Utimens { path, access: self.time(), modification: self.time() },
            _ => Op::Chmod { path, mode: self.mode() },
        }
    }

    fn open_op(&mut self) -> Op {
        let slot = self.rng.below(SLOTS as u64) as usize;
        let (offset, len) = (self.offset(), self.len());
        match self.rng.below(10) {
            0..3 => Op::Open { slot, path: self.path(), truncate: self.rng.one_in(4) },
            3..6 => Op::WriteOpen { slot, offset, len, seed: self.rng.next_u64() },
            6 | 7 => Op::ReadOpen { slot, offset, len },
            8 => Op::TruncateOpen { slot, size: offset },
            _ => Op::Close { slot },
        }
    }

    /// Probably something that exists.
    fn path(&mut self) -> String {
        match self.rng.below(20) {
            0 => self.directory(),
            1..19 if !self.files.is_empty() => self.rng.pick(&self.files).clone(),
            _ => self.new_path(),
        }
    }

    fn directory(&mut self) -> String {
        if self.directories.is_empty() {
            self.new_path()
        } else {
            self.rng.pick(&self.directories).clone()
        }
    }

    /// A name in the root or in a directory; rarely below something else, or too long.
    fn new_path(&mut self) -> String {
        let mut name = self.rng.pick(&self.names).clone();
        if self.rng.one_in(200) {
            name += &"x".repeat(256);
        }
        match self.rng.below(20) {
            0 => format!("{}/{name}", self.rng.pick(&self.names)),
            1..9 if !self.directories.is_empty() => {
                format!("{}/{name}", self.rng.pick(&self.directories))
            }
            _ => name,
        }
    }

    /// Always readable and writable by the owner, so that files fill; pjdfstest covers permissions.
    fn mode(&mut self) -> u32 {
        0o600 | self.rng.below(0o10000) as u32
    }

    fn offset(&mut self) -> u64 {
        let offset = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(20_000),
            2 => self.rng.below(300_000),
            _ => self.rng.below(5 << 20),
        };
        if self.rng.one_in(2) { offset & !4095 } else { offset }
    }

    fn len(&mut self) -> usize {
        let len = match self.rng.below(5) {
            0 => 1 + self.rng.below(64),
            1 | 2 => 1 + self.rng.below(10_000),
            3 => 1 + self.rng.below(200_000),
            _ => 1 + self.rng.below(2 << 20),
        };
        (if self.rng.one_in(3) { (len | 4095) + 1 } else { len }) as usize
    }

    fn id(&mut self) -> Option<u32> {
        *self.rng.pick(&[None, Some(0), Some(1), Some(1000), Some(4_000_000_000)])
    }

    /// A time that no clock shows while a test runs: before 2020 or after 2100. All within what
    /// both sides can store: Terrace to 2262, ext4 to 2446.
    fn time(&mut self) -> Option<(i64, i64)> {
        let seconds =
            *self.rng.pick(&[-2_000_000_000, -1, 0, 1, 999_999_999, 4_200_000_000, 9_000_000_000]);
        (!self.rng.one_in(3)).then(|| (seconds, self.rng.below(1_000_000_000) as i64))
    }
}

fn remember(recent: &mut Vec<String>, path: &str) {
    // Deeper paths would reach PATH_MAX, and dead ones would crowd out the living.
    if path.matches('/').count() < 4 {
        recent.push(path.to_owned());
    }
    if recent.len() > RECENT {
        recent.remove(0);
    }
}
