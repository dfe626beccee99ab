//! This program in another role: one that knows nothing of Terrace, makes plain calls of the C
//! library, and times itself, so that starting it is not in its figures.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::{Parser, ValueEnum};

use crate::loads::{Running, VARMAIL};
use crate::workload::{BLOCK_BYTES, RECORD_BYTES};

/// The first argument of a process in that role.
pub const ROLE: &str = "make-calls";
/// It prints this when calls without end begin.
pub const BEGUN: &str = "begun";
/// The file that one thread reads and overwrites.
pub const BLOCKS: &str = "blocks";
/// That of a second thread.
const MORE_BLOCKS: &str = "more-blocks";
/// The blocks of both are full of this byte.
pub const BYTE: u8 = 7;

/// The call that the role makes again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Call {
    /// pwrite of a block at a random place, fdatasync.
    Overwrite,
    /// The same, two threads, a file each.
    OverwriteTwoFiles,
    /// The same, two threads on one file.
    OverwriteShared,
    /// The same so often, and then as often again, timed apart.
    OverwriteTwice,
    /// The same until standard input ends.
    OverwriteWithoutEnd,
    /// pread of a block at a random place.
    Read,
    /// write of a record to the end, fdatasync.
    Append,
    /// open of a new file, write of a block, close.
    Create,
    /// The load of a mail server.
    Varmail,
}

impl Call {
    /// Operations that belong together.
    pub fn ops_at_a_time(self) -> u64 {
        match self {
            Call::Varmail => VARMAIL.ops_of_a_loop(),
            Call::OverwriteTwoFiles | Call::OverwriteShared => 2,
            _ => 1,
        }
    }
}

/// The role.
#[derive(Debug, Parser)]
pub struct Calls {
    call: Call,
    ops: u64,
    /// Blocks of a file that is read and overwritten; files of a mail server.
    many: u64,
    directory: PathBuf,
}

/// The calls that this process was started for, if it was.
pub fn asked_for() -> Option<Calls> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    (arguments.first()? == ROLE).then(|| Calls::parse_from(arguments))
}

impl Calls {
    /// Makes them, and prints the seconds that they took.
    ///
    /// # Errors
    /// That of a call.
    pub fn make(&self) -> Result<()> {
        let spent = match self.call {
            Call::Overwrite | Call::Read => self.on_blocks(&[BLOCKS])?,
            Call::OverwriteTwoFiles => self.on_blocks(&[BLOCKS, MORE_BLOCKS])?,
            Call::OverwriteShared => self.on_blocks(&[BLOCKS, BLOCKS])?,
            Call::OverwriteTwice => {
                let mut blocks = self.blocks(BLOCKS)?;
                println!("{}", blocks.repeat(self.call, self.ops)?.as_secs_f64());
                blocks.repeat(self.call, self.ops)?
            }
            Call::OverwriteWithoutEnd => {
                let mut blocks = self.blocks(BLOCKS)?;
                println!("{BEGUN}");
                std::io::stdout().flush()?;
                // It ends with the process that has started it.
                std::thread::spawn(|| {
                    let _ = std::io::stdin().read_to_end(&mut Vec::new());
                    std::process::exit(0)
                });
                loop {
                    blocks.repeat(self.call, self.ops)?;
                }
            }
            Call::Append => self.append()?,
            Call::Create => self.create()?,
            Call::Varmail => {
                let mut running = Running::new(VARMAIL, &self.directory, self.many)?;
                let start = Instant::now();
                running.loops(self.ops / VARMAIL.ops_of_a_loop())?;
                start.elapsed()
            }
        };
        println!("{}", spent.as_secs_f64());
        Ok(())
    }

    /// A thread for each of these files.
    fn on_blocks(&self, names: &[&str]) -> Result<Duration> {
        let mut all = names.iter().map(|name| self.blocks(name)).collect::<Result<Vec<_>>>()?;
        let ops = self.ops / names.len() as u64;
        if let [alone] = all.as_mut_slice() {
            return alone.repeat(self.call, ops);
        }
        let together = Barrier::new(all.len());
        let work = |blocks: &mut Blocks| -> Result<Duration> {
            together.wait();
            blocks.repeat(self.call, ops)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                all.iter_mut().map(|blocks| scope.spawn(|| work(blocks))).collect();
            let mut joined = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
            // They begin together, so the last one ends all.
            joined.try_fold(Duration::ZERO, |longest, spent| Ok(longest.max(spent?)))
        })
    }

    fn blocks(&self, name: &str) -> Result<Blocks> {
        Blocks::open(&self.directory.join(name), self.many)
    }

    fn append(&self) -> Result<Duration> {
        let mut file = File::create(self.directory.join("records"))?;
        let start = Instant::now();
        for _ in 0..self.ops {
            file.write_all(&[BYTE; RECORD_BYTES])?;
            file.sync_data()?;
        }
        Ok(start.elapsed())
    }

    fn create(&self) -> Result<Duration> {
        let directory = self.directory.join("new");
        fs::create_dir(&directory)?;
        // The library knows a mount from the first file on.
        let mut known = File::create(directory.join("known"))?;
        (0..8).try_for_each(|_| known.write_all(&[BYTE; RECORD_BYTES]))?;
        let names: Vec<PathBuf> =
            (0..self.ops).map(|number| directory.join(number.to_string())).collect();
        let start = Instant::now();
        for name in &names {
            File::create(name)?.write_all(&[BYTE; BLOCK_BYTES])?;
        }
        let spent = start.elapsed();
        drop(known);
        fs::remove_dir_all(&directory)?;
        Ok(spent)
    }
}

/// A file of blocks, and where the next call goes.
struct Blocks {
    file: File,
    blocks: u64,
    random: fastrand::Rng,
}

impl Blocks {
    fn open(path: &Path, blocks: u64) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        for number in file.metadata()?.len() / BLOCK_BYTES as u64..blocks {
            file.write_all_at(&[BYTE; BLOCK_BYTES], number * BLOCK_BYTES as u64)?;
            // So that they are in PM.
            file.sync_data()?;
        }
        Ok(Self { file, blocks, random: fastrand::Rng::with_seed(7) })
    }

    fn repeat(&mut self, call: Call, ops: u64) -> Result<Duration> {
        let mut block = [BYTE; BLOCK_BYTES];
        let start = Instant::now();
        for _ in 0..ops {
            let at = self.random.u64(..self.blocks) * BLOCK_BYTES as u64;
            if call == Call::Read {
                self.file.read_exact_at(&mut block, at)?;
            } else {
                self.file.write_all_at(&block, at)?;
                self.file.sync_data()?;
            }
        }
        Ok(start.elapsed())
    }
}
