//! Running other programs, with their output in the error when they fail.

use crate::skip;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Finds a program in `TERRACE_TOOLS`, `target/tools/bin`, `PATH` and the system directories that
/// an ordinary user's `PATH` lacks.
///
/// # Errors
/// A skip that names the missing program.
pub fn tool(name: &str) -> Result<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    dirs.extend(std::env::var_os("TERRACE_TOOLS").map(PathBuf::from));
    dirs.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin"));
    dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    dirs.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    dirs.into_iter()
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| skip(format!("{name} is not installed (scripts/setup.sh test installs it)")))
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// If it cannot be started or fails; the error holds all that it printed.
pub fn run(command: &mut Command) -> Result<String> {
    run_with_input(command, "")
}

/// As [`run`], with `input` on its standard input.
///
/// # Errors
/// As [`run`].
pub fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let input = input.to_owned();
    // On its own thread: a child that prints before it has read everything must not block us.
    let feeder = std::thread::spawn(move || {
        // A child that exits without reading all its input reports that itself.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output()?;
    let _ = feeder.join();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{stdout}\n{stderr}", output.status);
    }
    Ok(stdout)
}

/// Waits for a child; kills it if it has not ended after `limit`, and says so.
///
/// # Errors
/// If the child had to be killed. A wait that never ends would hide the reason.
pub fn wait_or_kill(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("process {} did not end within {limit:?}", child.id());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
