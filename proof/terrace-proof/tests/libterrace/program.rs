//! Programs that use the library, and the library itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use terrace_proof::{Scratch, TestVolume, VolumeSpec, run, skip, terrace_binary, tool};

use crate::worker::Worker;

/// A mount that lends files.
pub fn volume(name: &str) -> Result<TestVolume> {
    VolumeSpec::new(name).options("lend=owner").mount()
}

/// A worker that uses the library (`src/bin/library_worker.rs`), in this directory.
pub fn worker(directory: &Path) -> Result<Worker> {
    Worker::of(Command::new(env!("CARGO_BIN_EXE_library_worker")), directory)
}

/// How many calls of a handle went direct.
pub fn direct_calls(worker: &mut Worker, handle: usize) -> Result<u64> {
    let usage = worker.ask(&format!("{handle} usage"))?;
    usage.ok().and_then(|usage| usage.first().copied()).context("no usage")
}

/// A file of the repository.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The library, as it was built beside the command; what a program needs to be built with it.
#[derive(Debug)]
pub struct Library {
    /// Has the shared library under the names that linkers and programs look for.
    shared: Scratch,
    archive: PathBuf,
}

impl Library {
    /// # Errors
    /// A skip if it is not built.
    pub fn new() -> Result<Self> {
        let terrace = terrace_binary()?;
        let [built, archive] =
            ["libterrace.so", "libterrace.a"].map(|name| terrace.with_file_name(name));
        if !built.exists() || !archive.exists() {
            return Err(skip(format!("{} is not built", built.display())));
        }
        let shared = Scratch::new("libterrace")?;
        for name in ["libterrace.so", "libterrace.so.0"] {
            std::os::unix::fs::symlink(&built, shared.join(name))?;
        }
        Ok(Self { shared, archive })
    }

    /// Where the shared library is.
    pub fn directory(&self) -> &Path {
        self.shared.path()
    }

    /// Compiles a program, and returns it. `arguments` come first.
    pub fn compile(&self, compiler: &str, source: &Path, arguments: &[&str]) -> Result<PathBuf> {
        let program = self.shared.join("program");
        let mut command = Command::new(tool(compiler)?);
        command.args(arguments).args(["-Wall", "-Wextra", "-pedantic", "-Werror"]);
        command.arg("-I").arg(self::source("crates/terrace-c/include"));
        command.arg(source).arg("-o").arg(&program);
        match arguments.contains(&"-static") {
            // What Libs.private of the file for pkg-config says.
            true => command.arg(&self.archive).args(private_libraries()?),
            false => command.arg("-L").arg(self.shared.path()).arg("-lterrace"),
        };
        run(&mut command)?;
        Ok(program)
    }

    /// A command whose process finds the library.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.shared.path());
        command
    }
}

fn private_libraries() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(source("crates/terrace-c/terrace.pc.in"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Libs.private: "));
    let libraries = line.context("no Libs.private")?.split(' ').map(str::to_owned);
    let libraries: Vec<String> = libraries.collect();
    ensure!(libraries.iter().all(|library| library.starts_with("-l")), "{libraries:?}");
    Ok(libraries)
}
