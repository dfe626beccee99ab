//! Loads like those of servers, with the parameters of Filebench's workloads of the same names:
//! what each thread does over and over to a set of files. `docs/PERFORMANCE.md` lists the
//! parameters.
//!
//! Each thread has its share of the files to itself, in directories that it shares with the other:
//! none finds a file gone that it was about to open.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, statat, syncfs, unlinkat};

use crate::files::{create, open_at, open_directory};
use crate::interrupt;
use crate::workload::{FILLING, PIECE_BYTES, Random, Sizes, Workload};

const THREADS: usize = 2;
const FILES_MAX: u64 = 1000;
const FILES_MIN: u64 = 40;
/// One file for so many bytes of the file that other benchmarks overwrite: 1,000 by default.
const BYTES_PER_FILE: u64 = 256 << 10;
/// An append has 1 byte to this many.
const APPEND_BYTES_MAX: u64 = 16 << 10;
/// A log is begun anew beyond this.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Loops of each thread between two looks at the clock.
const LOOPS: u64 = 32;

/// What a thread does, in a row; the comments name Filebench's operations, each of which counts as
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// deletefile.
    Delete,
    /// createfile, appendfilerand or (`whole`) writewholefile, fsync if asked for, closefile.
    Create { whole: bool, fsync: bool },
    /// openfile, readwholefile if asked for, appendfilerand, fsync if asked for, closefile.
    Append { read: bool, fsync: bool },
    /// openfile, readwholefile, closefile.
    Read,
    /// statfile.
    Stat,
    /// appendfilerand to the thread's log, which stays open.
    Log,
}

impl Step {
    fn ops(self) -> u64 {
        match self {
            Step::Delete | Step::Stat | Step::Log => 1,
            Step::Create { fsync, .. } => 3 + u64::from(fsync),
            Step::Append { read, fsync } => 3 + u64::from(read) + u64::from(fsync),
            Step::Read => 3,
        }
    }
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Files beside each other in a directory.
    dir_width: u64,
    mean_file_bytes: u64,
    /// Of five files, those that exist at the beginning.
    preallocated: u64,
    steps: &'static [Step],
}

const READ: Step = Step::Read;

/// A mail server, each mail a file.
pub const VARMAIL: Load = Load {
    dir_width: 1_000_000,
    mean_file_bytes: 16 << 10,
    preallocated: 4,
    steps: &[
        Step::Delete,
        Step::Create { whole: false, fsync: true },
        Step::Append { read: true, fsync: true },
        READ,
    ],
};

const FILESERVER: Load = Load {
    dir_width: 20,
    mean_file_bytes: 128 << 10,
    preallocated: 4,
    steps: &[
        Step::Create { whole: true, fsync: false },
        Step::Append { read: false, fsync: false },
        READ,
        Step::Delete,
        Step::Stat,
    ],
};

const WEBSERVER: Load = Load {
    dir_width: 20,
    mean_file_bytes: 16 << 10,
    preallocated: 5,
    steps: &[READ, READ, READ, READ, READ, READ, READ, READ, READ, READ, Step::Log],
};

const WEBPROXY: Load = Load {
    dir_width: 1_000_000,
    mean_file_bytes: 16 << 10,
    preallocated: 4,
    steps: &[
        Step::Delete,
        Step::Create { whole: false, fsync: false },
        READ,
        READ,
        READ,
        READ,
        READ,
    ],
};

/// The load of a mail server.
pub fn varmail(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(VARMAIL, directory, sizes)
}

/// The load of a file server.
pub fn fileserver(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(FILESERVER, directory, sizes)
}

/// The load of a web server: nearly only reads.
pub fn webserver(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(WEBSERVER, directory, sizes)
}

/// The load of a cache of web pages.
pub fn webproxy(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(WEBPROXY, directory, sizes)
}

fn start(load: Load, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Running::new(load, directory, files(sizes))?))
}

/// How many files a load has.
pub fn files(sizes: Sizes) -> u64 {
    (sizes.file_bytes / BYTES_PER_FILE).clamp(FILES_MIN, FILES_MAX)
}

/// A load over its files.
pub struct Running {
    load: Load,
    threads: Vec<Client>,
}

impl Load {
    /// The same with files of another mean size.
    pub fn of_files_of(self, mean_file_bytes: u64) -> Self {
        Self { mean_file_bytes, ..self }
    }

    /// Operations of a loop by all threads.
    pub fn ops_of_a_loop(&self) -> u64 {
        self.ops() * THREADS as u64
    }

    fn ops(&self) -> u64 {
        self.steps.iter().map(|step| step.ops()).sum()
    }

    /// Where a file is: with narrow directories, two levels down.
    fn path(&self, file: u64) -> (Vec<String>, String) {
        let directory = file / self.dir_width;
        let parents = match self.dir_width >= FILES_MAX {
            true => Vec::new(),
            false => vec![
                format!("{}", directory / self.dir_width),
                format!("{}", directory % self.dir_width),
            ],
        };
        let path = parents.iter().fold(String::new(), |path, name| path + name + "/")
            + &format!("file{file}");
        (parents, path)
    }
}

impl Running {
    /// Makes directories and the files that are there from the beginning.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn new(load: Load, directory: &Path, files: u64) -> Result<Self> {
        let root = open_directory(directory)?;
        let mut threads = (0..THREADS)
            .map(|thread| Ok(Client::new(load, thread as u64, root.try_clone()?)))
            .collect::<Result<Vec<_>>>()?;
        for file in 0..files {
            interrupt::check()?;
            let (parents, path) = load.path(file);
            let mut parent = String::new();
            for name in parents {
                parent = parent + &name + "/";
                match mkdirat(&root, parent.as_str(), Mode::RWXU) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error).context(parent),
                }
            }
            let thread = &mut threads[file as usize % THREADS];
            let known = Known { path, len_bytes: 0 };
            match file / THREADS as u64 % 5 < load.preallocated {
                true => thread.make(known, true, false)?,
                false => thread.absent.push(known),
            }
        }
        // Data made before must not be written back in the time that counts.
        syncfs(&root)?;
        Ok(Self { load, threads })
    }

    /// Lets each thread go through its steps so often.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn loops(&mut self, loops: u64) -> Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .threads
                .iter_mut()
                .map(|client| scope.spawn(move || client.loops(loops)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
        })
    }
}

impl Workload for Running {
    fn batch_ops(&self) -> u64 {
        LOOPS * self.load.ops_of_a_loop()
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        self.loops(ops / self.load.ops_of_a_loop())
    }
}

/// A file that a thread knows of.
struct Known {
    path: String,
    len_bytes: u64,
}

/// One thread.
struct Client {
    load: Load,
    root: OwnedFd,
    random: Random,
    present: Vec<Known>,
    absent: Vec<Known>,
    buffer: Vec<u8>,
    log_name: String,
    log: Option<(File, u64)>,
}

impl Client {
    fn new(load: Load, thread: u64, root: OwnedFd) -> Self {
        let (random, log_name) = (Random::nth(thread), format!("log{thread}"));
        let (present, absent, buffer) = (Vec::new(), Vec::new(), vec![0; PIECE_BYTES]);
        Self { load, root, random, present, absent, buffer, log_name, log: None }
    }

    fn loops(&mut self, loops: u64) -> Result<()> {
        for _ in 0..loops {
            interrupt::check()?;
            self.load
                .steps
                .iter()
                .try_for_each(|&step| self.step(step).with_context(|| format!("{step:?}")))?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Delete => {
                let at = self.any_present();
                let gone = self.present.swap_remove(at);
                unlinkat(&self.root, gone.path.as_str(), AtFlags::empty())?;
                self.absent.push(Known { len_bytes: 0, ..gone });
                Ok(())
            }
            Step::Create { whole, fsync } => {
                let at = self.random.below(self.absent.len() as u64) as usize;
                let known = self.absent.swap_remove(at);
                self.make(known, whole, fsync)
            }
            Step::Append { read, fsync } => {
                let at = self.any_present();
                let file = create(&self.root, &self.present[at].path, OFlags::empty())?;
                if read {
                    self.read_whole(&file, at)?;
                }
                let len_bytes = self.append_bytes();
                write_out(&file, self.present[at].len_bytes, len_bytes)?;
                self.present[at].len_bytes += len_bytes;
                if fsync { Ok(file.sync_all()?) } else { Ok(()) }
            }
            Step::Read => {
                let at = self.any_present();
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = open_at(&self.root, &self.present[at].path, flags)?;
                self.read_whole(&file, at)
            }
            Step::Stat => {
                let at = self.any_present();
                let stat = statat(&self.root, self.present[at].path.as_str(), AtFlags::empty())?;
                ensure!(
                    stat.st_size as u64 == self.present[at].len_bytes,
                    "a file has {} bytes",
                    stat.st_size
                );
                Ok(())
            }
            Step::Log => self.append_to_log(),
        }
    }

    fn any_present(&mut self) -> usize {
        self.random.below(self.present.len() as u64) as usize
    }

    /// Creates a file and writes it whole, or its first append.
    fn make(&mut self, known: Known, whole: bool, fsync: bool) -> Result<()> {
        let len_bytes = match whole {
            true => gamma(&mut self.random, self.load.mean_file_bytes),
            false => self.append_bytes(),
        };
        let file = create(&self.root, &known.path, OFlags::EXCL)?;
        write_out(&file, 0, len_bytes)?;
        if fsync {
            file.sync_all()?;
        }
        self.present.push(Known { len_bytes, ..known });
        Ok(())
    }

    fn read_whole(&mut self, file: &File, at: usize) -> Result<()> {
        let len_bytes = self.present[at].len_bytes;
        for offset in (0..len_bytes).step_by(PIECE_BYTES) {
            let piece = (len_bytes - offset).min(PIECE_BYTES as u64) as usize;
            file.read_exact_at(&mut self.buffer[..piece], offset)?;
        }
        Ok(())
    }

    fn append_to_log(&mut self) -> Result<()> {
        let (file, end) = match self.log.take().filter(|(_, end)| *end < LOG_BYTES_MAX) {
            Some(log) => log,
            None => (create(&self.root, &self.log_name, OFlags::TRUNC)?, 0),
        };
        let len_bytes = self.append_bytes();
        write_out(&file, end, len_bytes)?;
        self.log = Some((file, end + len_bytes));
        Ok(())
    }

    fn append_bytes(&mut self) -> u64 {
        1 + self.random.below(APPEND_BYTES_MAX)
    }
}

fn write_out(file: &File, offset: u64, len_bytes: u64) -> Result<()> {
    for done in (0..len_bytes).step_by(PIECE_BYTES) {
        let piece = (len_bytes - done).min(PIECE_BYTES as u64) as usize;
        file.write_all_at(&FILLING[..piece], offset + done)?;
    }
    Ok(())
}

/// A size of Filebench's distribution: gamma, of shape 1.5. That is the sum of an exponential
/// variable and of half the square of a normal one.
fn gamma(random: &mut Random, mean: u64) -> u64 {
    const SHAPE: f64 = 1.5;
    let mut unit = || (random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
    let exponential = -unit().ln();
    let half_square = -unit().ln() * (std::f64::consts::TAU * unit()).cos().powi(2);
    ((exponential + half_square) * mean as f64 / SHAPE).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spread_around_their_mean_as_gamma_is() {
        let mut random = Random::new();
        let drawn: Vec<f64> = (0..100_000).map(|_| gamma(&mut random, 16 << 10) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean / f64::from(16 << 10) - 1.0).abs() < 0.02, "{mean}");
        // Of shape k, the variance is the square of the mean divided by k.
        let variance =
            drawn.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean * mean / variance - 1.5).abs() < 0.05, "{variance}");
    }

    #[test]
    fn loops_have_as_many_operations_as_filebench_s() {
        assert_eq!(
            [VARMAIL, FILESERVER, WEBSERVER, WEBPROXY].map(|load| load.ops()),
            [13, 11, 31, 19]
        );
    }

    #[test]
    fn appends_have_up_to_their_most_and_half_of_it_on_average() {
        let directory = tempfile::TempDir::new().unwrap();
        let mut client = Client::new(VARMAIL, 0, open_directory(directory.path()).unwrap());
        let drawn: Vec<u64> = (0..10_000).map(|_| client.append_bytes()).collect();
        assert!(drawn.iter().all(|&bytes| (1..=APPEND_BYTES_MAX).contains(&bytes)));
        let mean = drawn.iter().sum::<u64>() / 10_000;
        assert!(mean.abs_diff(APPEND_BYTES_MAX / 2) < APPEND_BYTES_MAX / 50, "{mean}");
    }

    #[test]
    fn narrow_directories_hold_as_many_files_as_they_should() {
        let mut files = std::collections::HashMap::new();
        for file in 0..FILES_MAX {
            let (parents, path) = FILESERVER.path(file);
            assert_eq!(path, format!("{}/{}/file{file}", parents[0], parents[1]));
            *files.entry(parents).or_insert(0) += 1;
        }
        assert!(files.len() == 50 && files.values().all(|&count| count == 20), "{files:?}");
        assert_eq!(VARMAIL.path(999), (Vec::new(), "file999".to_owned()));
    }

    #[test]
    fn every_load_keeps_its_share_of_files_and_their_sizes() {
        for load in [VARMAIL, FILESERVER, WEBSERVER, WEBPROXY] {
            let directory = tempfile::TempDir::new().unwrap();
            let mut running = Running::new(load, directory.path(), 100).unwrap();
            running.loops(20).unwrap();
            let present: Vec<&Known> =
                running.threads.iter().flat_map(|client| &client.present).collect();
            assert_eq!(present.len() as u64, 20 * load.preallocated);
            for known in present {
                let metadata = std::fs::metadata(directory.path().join(&known.path)).unwrap();
                assert_eq!(metadata.len(), known.len_bytes, "{}", known.path);
            }
            let absent = running.threads.iter().flat_map(|client| &client.absent);
            assert!(absent.into_iter().all(|known| !directory.path().join(&known.path).exists()));
        }
    }
}
