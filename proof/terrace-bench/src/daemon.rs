//! Terrace's own program: its daemons, and programs that it runs directly.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

use crate::kernel::run;
use crate::options::Options;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Notes the program that is measured: what `--terrace` says, the environment, or the one beside
/// this one.
///
/// # Errors
/// If nobody knows where this program is.
pub fn choose(options: &Options) -> Result<()> {
    let chosen = match (&options.terrace, std::env::var_os("TERRACE_BIN")) {
        (Some(program), _) => program.clone(),
        (None, Some(program)) => program.into(),
        (None, None) => {
            let ours = std::env::current_exe().context("finding this program")?;
            ours.with_file_name("terrace")
        }
    };
    // A bare name would be looked for in PATH.
    let _ = PROGRAM.set(std::path::absolute(chosen)?);
    Ok(())
}

/// The program that is measured.
///
/// # Errors
/// If there is none.
pub fn program() -> Result<&'static Path> {
    let program = PROGRAM.get().context("no program was chosen")?;
    match program.is_file() {
        true => Ok(program),
        false => bail!(
            "{} is no program: `cargo build --release -p terrace -p terrace-preload`, or \
             --terrace FILE",
            program.display()
        ),
    }
}

/// A command that is run directly, if so.
///
/// # Errors
/// As [`program`].
pub fn directly(is_direct: bool, command: &Path) -> Result<Command> {
    if !is_direct {
        return Ok(Command::new(command));
    }
    let mut run = Command::new(program()?);
    run.args(["run", "--"]).arg(command);
    Ok(run)
}

/// Reads and writes that processes did by themselves since a volume was mounted.
///
/// # Errors
/// If its daemon does not say.
pub fn direct_calls(mountpoint: &Path) -> Result<u64> {
    let printed =
        run(Command::new(program()?).args(["stats", "--once", "--json"]).arg(mountpoint))?;
    let stats: serde_json::Value = serde_json::from_str(&printed).context("counters of a mount")?;
    let count = |name: &str| stats["counters"][name].as_u64().with_context(|| name.to_owned());
    Ok(count("direct_reads")? + count("direct_writes")?)
}

/// Why nothing can be run directly here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    let library = || -> Result<()> {
        let library = program()?.with_file_name("libterrace_preload.so");
        ensure!(
            library.is_file(),
            "{} is missing: `cargo build --release -p terrace-preload`",
            library.display()
        );
        Ok(())
    };
    library().err()
}

/// A volume, and where it is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// PM, and its bytes.
    pub pm: (&'a Path, u64),
    /// The disk, and its bytes.
    pub disk: (&'a Path, u64),
    /// The directory.
    pub mountpoint: &'a Path,
    /// The daemon's log.
    pub log: &'a Path,
}

/// A daemon of Terrace. When it is dropped, its mount ends.
#[derive(Debug)]
pub struct Daemon {
    program: PathBuf,
    mountpoint: PathBuf,
    mounted: bool,
}

impl Daemon {
    /// Formats and mounts a volume; `options` as after `-o`.
    ///
    /// # Errors
    /// What the program says.
    pub fn new(program: &Path, place: Place<'_>, options: Option<&str>) -> Result<Self> {
        let sized = |(path, bytes): (&Path, u64)| {
            format!("{}:{}M", path.display(), bytes.div_ceil(1 << 20))
        };
        let mut format = Command::new(program);
        format.args(["format", "-q", "--pm"]).arg(sized(place.pm));
        run(format.arg("--disk").arg(sized(place.disk)))?;
        let mut mount = Command::new(program);
        mount.args(["mount", "-q", "--log"]).arg(place.log);
        if let Some(options) = options {
            mount.arg("-o").arg(options);
        }
        run(mount.arg(place.pm.0).arg(place.mountpoint))?;
        let (program, mountpoint) = (program.to_owned(), place.mountpoint.to_owned());
        Ok(Self { program, mountpoint, mounted: true })
    }

    /// What `terrace status --json` says.
    ///
    /// # Errors
    /// If it says nothing.
    pub fn status(&self) -> Result<serde_json::Value> {
        let mut command = Command::new(&self.program);
        let printed = run(command.args(["status", "--json"]).arg(&self.mountpoint))?;
        serde_json::from_str(&printed).context("the state of a mount")
    }

    /// Whether some file is lent at the moment.
    ///
    /// # Errors
    /// If it does not say.
    pub fn lends(&self) -> Result<bool> {
        let status = self.status()?;
        let processes = status["direct"]["processes"].as_array().context("who has files")?;
        let has_files = |process: &serde_json::Value| {
            process["inodes"].as_array().is_some_and(|inodes| !inodes.is_empty())
        };
        Ok(processes.iter().any(has_files))
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// What the program says.
    pub fn unmount(&mut self) -> Result<()> {
        self.mounted = false;
        let mut command = Command::new(&self.program);
        // Not by `run`, which also fails when the run is to end.
        let output = command.args(["umount", "-q"]).arg(&self.mountpoint).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "terrace umount: {}", told.trim());
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = self.unmount()
        {
            let place = self.mountpoint.display();
            eprintln!(
                "terrace-bench: {place} may stay mounted: {error:#}; `terrace umount` ends it"
            );
        }
    }
}
