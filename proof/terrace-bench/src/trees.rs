//! Many small files in a row, by the programs that people use: a tree of sources that `tar`
//! unpacks, `rm` removes, `cp` copies, `git` clones and `make` builds. An operation is one file; of
//! the build, one that is compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::syncfs;
use tempfile::TempDir;

use crate::daemon::directly;
use crate::direct::Both;
use crate::direct::share::DirectShare;
use crate::files::{OnFiles, open_directory};
use crate::interrupt;
use crate::kernel::run;
use crate::stage::memory_directory;
use crate::workload::{Random, Sizes, Workload};

/// One file for so many bytes of the file that other benchmarks overwrite: 4,096 by default.
const BYTES_PER_FILE: u64 = 64 << 10;
const FILES_MIN: u64 = 100;
const FILES_PER_DIRECTORY: u64 = 20;
/// Of so many files, one is compiled by the build.
const FILES_PER_OBJECT: u64 = 100;
/// Of these and of an archive or repository of them.
const SOURCE_BYTES_PER_FILE: u64 = 32 << 10;
/// Sources are small: half of them have less than this, and few are much longer.
const HALF_BYTES: u64 = 4 << 10;
const DOUBLINGS: u64 = 5;
/// The tree, and what is made of it, in a site's directory.
const TREE: &str = "tree";
const COPY: &str = "copy";

/// All workloads of this module, run by themselves.
pub const ALL: [OnFiles; 5] = [unpack, remove, copy, clone, build];

/// [`unpack`] directly, and by itself.
pub const UNPACK: Both =
    Both { direct: |on, sizes| start_directly(Task::Unpack, on, sizes), plain: unpack };
/// [`clone`], likewise.
pub const CLONE: Both =
    Both { direct: |on, sizes| start_directly(Task::Clone, on, sizes), plain: clone };
/// [`build`], likewise.
pub const BUILD: Both =
    Both { direct: |on, sizes| start_directly(Task::Build, on, sizes), plain: build };

/// `tar -x` of an archive in memory.
pub fn unpack(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Task::Unpack, directory, sizes)
}

/// `rm -r` of a tree that was unpacked.
pub fn remove(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Task::Remove, directory, sizes)
}

/// `cp -r` of a tree beside it.
pub fn copy(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Task::Copy, directory, sizes)
}

/// `git clone` of a repository in memory.
pub fn clone(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Task::Clone, directory, sizes)
}

/// `make` of a part of a tree, two compilers at a time.
pub fn build(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Task::Build, directory, sizes)
}

fn start(task: Task, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Trees::new(task, false, directory, files(sizes))?))
}

/// Runs it once under the report of `terrace run`, too.
fn start_directly(task: Task, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let mut trees = Trees::new(task, true, directory, files(sizes))?;
    trees.prepare(0)?;
    trees.share = Some(DirectShare::of(trees.command()?)?);
    Ok(Box::new(trees))
}

fn files(sizes: Sizes) -> u64 {
    (sizes.file_bytes / BYTES_PER_FILE).max(FILES_MIN)
}

/// Memory that the tree takes, which is not on any site.
pub fn source_bytes(sizes: Sizes) -> u64 {
    files(sizes) * SOURCE_BYTES_PER_FILE
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Unpack,
    Remove,
    Copy,
    Clone,
    Build,
}

/// The tree, in memory, with an archive or repository of it.
struct Source {
    directory: TempDir,
    files: u64,
}

impl Source {
    fn new(files: u64, as_repository: bool) -> Result<Self> {
        let source = Self { directory: memory_directory()?, files };
        let tree = source.tree();
        let mut random = Random::new();
        let mut objects = Vec::new();
        for file in 0..files {
            interrupt::check()?;
            let name = format!("part{}/file{file}", file / FILES_PER_DIRECTORY);
            let path = tree.join(format!("{name}.c"));
            fs::create_dir_all(path.parent().context("a part of the tree")?)?;
            fs::write(path, source_text(file, &mut random))?;
            if file.is_multiple_of(FILES_PER_OBJECT) {
                objects.push(format!("{name}.o"));
            }
        }
        fs::write(tree.join("Makefile"), makefile(&objects))?;
        match as_repository {
            true => source.commit()?,
            false => {
                let mut tar = Command::new("tar");
                run(tar
                    .arg("-cf")
                    .arg(source.archive())
                    .arg("-C")
                    .arg(source.directory.path())
                    .arg(TREE))?;
            }
        }
        Ok(source)
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join(TREE)
    }

    fn archive(&self) -> PathBuf {
        self.directory.path().join("archive.tar")
    }

    fn commit(&self) -> Result<()> {
        let tree = self.tree();
        let name = ["-c", "user.name=terrace-bench", "-c", "user.email=terrace-bench@localhost"];
        run(git().arg("init").arg("-q").arg(&tree))?;
        run(git().arg("-C").arg(&tree).args(["add", "."]))?;
        run(git().arg("-C").arg(&tree).args(name).args(["commit", "-q", "-m", "A tree"]))?;
        // A clone then takes one pack, as from a server.
        run(git().arg("-C").arg(&tree).args(["gc", "-q"])).map(drop)
    }
}

fn git() -> Command {
    untold(Command::new("git"))
}

/// git without what this machine's people have told it.
fn untold(mut git: Command) -> Command {
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git
}

/// A source text that compiles.
fn source_text(file: u64, random: &mut Random) -> String {
    let mut bytes = HALF_BYTES;
    let mut doublings = 0;
    while doublings < DOUBLINGS && random.below(2) == 1 {
        (bytes, doublings) = (bytes * 2, doublings + 1);
    }
    let bytes = bytes / 2 + random.below(bytes / 2);
    let mut text = String::new();
    let mut function = 0;
    while (text.len() as u64) < bytes {
        let number = random.below(1 << 20);
        text += &format!(
            "/* Number {number} of file {file}. */\nint function{file}_{function}(int x) {{\n    \
             return x * {number} + {function};\n}}\n\n"
        );
        function += 1;
    }
    text
}

fn makefile(objects: &[String]) -> String {
    format!(
        "OBJECTS = {}\n\nlibrary.a: $(OBJECTS)\n\tar rcs $@ $^\n\n%.o: %.c\n\tcc -c -o $@ $<\n\n\
         clean:\n\trm -f library.a $(OBJECTS)\n",
        objects.join(" ")
    )
}

struct Trees {
    task: Task,
    is_direct: bool,
    site: PathBuf,
    source: Source,
    share: Option<DirectShare>,
}

impl Trees {
    fn new(task: Task, is_direct: bool, site: &Path, files: u64) -> Result<Self> {
        let source = Source::new(files, task == Task::Clone)?;
        let trees = Self { task, is_direct, site: site.to_owned(), source, share: None };
        if matches!(task, Task::Copy | Task::Build) {
            trees.unpack()?;
        }
        Ok(trees)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.site.join(name)
    }

    fn unpack(&self) -> Result<()> {
        run(&mut self.tar(Command::new("tar"))).map(drop)
    }

    fn tar(&self, mut tar: Command) -> Command {
        tar.arg("-xf").arg(self.source.archive()).arg("-C").arg(&self.site);
        tar
    }

    /// Removes what the last run made.
    fn clear(&self, name: &str) -> Result<()> {
        let path = self.at(name);
        match path.exists() {
            true => Ok(fs::remove_dir_all(path)?),
            false => Ok(()),
        }
    }

    fn make(&self, mut make: Command) -> Command {
        make.arg("-s").arg("-C").arg(self.at(TREE));
        make
    }

    /// The program whose work counts.
    fn command(&self) -> Result<Command> {
        let program = |name: &str| directly(self.is_direct, Path::new(name));
        Ok(match self.task {
            Task::Unpack => self.tar(program("tar")?),
            Task::Remove => {
                let mut remove = program("rm")?;
                remove.arg("-r").arg(self.at(TREE));
                remove
            }
            Task::Copy => {
                let mut copy = program("cp")?;
                copy.arg("-r").arg(self.at(TREE)).arg(self.at(COPY));
                copy
            }
            Task::Clone => {
                let from = format!("file://{}", self.source.tree().display());
                let mut clone = untold(program("git")?);
                clone.args(["clone", "-q"]).arg(from).arg(self.at(COPY));
                clone
            }
            Task::Build => {
                let mut make = self.make(program("make")?);
                make.arg("-j2");
                make
            }
        })
    }
}

impl Workload for Trees {
    fn batch_ops(&self) -> u64 {
        match self.task {
            Task::Build => self.source.files.div_ceil(FILES_PER_OBJECT),
            _ => self.source.files,
        }
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        match self.task {
            Task::Unpack => self.clear(TREE)?,
            Task::Remove => self.unpack()?,
            Task::Copy | Task::Clone => self.clear(COPY)?,
            Task::Build => drop(run(self.make(Command::new("make")).arg("clean"))?),
        }
        // Data of earlier rows must not be written back in the time that counts.
        Ok(syncfs(open_directory(&self.site)?)?)
    }

    fn run(&mut self, _ops: u64) -> Result<()> {
        run(&mut self.command()?).map(drop)
    }

    fn note(&self) -> Option<String> {
        self.share.as_ref().map(DirectShare::note)
    }
}

/// Why the programs of these rows cannot run, if so.
pub fn why_not() -> Option<anyhow::Error> {
    let programs = ["tar", "git", "make", "cc", "ar"];
    programs.iter().find_map(|program| run(Command::new(program).arg("--version")).err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_below(path: &Path) -> usize {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let count = |path: PathBuf| if path.is_dir() { files_below(&path) } else { 1 };
        entries.filter(|path| !path.ends_with(".git")).map(count).sum()
    }

    #[test]
    fn each_task_does_its_work_again_and_again() {
        if let Some(why) = why_not() {
            eprintln!("skipped: {why:#}");
            return;
        }
        for task in [Task::Unpack, Task::Remove, Task::Copy, Task::Clone, Task::Build] {
            let site = TempDir::new().unwrap();
            let mut trees = Trees::new(task, false, site.path(), FILES_MIN).unwrap();
            // The files, and the Makefile.
            let all = FILES_MIN as usize + 1;
            for _ in 0..2 {
                let ops = trees.batch_ops();
                trees.prepare(ops).unwrap();
                trees.run(ops).unwrap();
                let (name, expected) = match task {
                    Task::Unpack => (TREE, all),
                    Task::Remove => ("", 0),
                    Task::Copy | Task::Clone => (COPY, all),
                    // An object, and the library.
                    Task::Build => (TREE, all + 2),
                };
                assert_eq!(files_below(&site.path().join(name)), expected, "{task:?}");
            }
        }
    }
}
