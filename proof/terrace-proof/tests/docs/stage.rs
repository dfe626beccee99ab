//! A machine of its own for the commands of the docs (`stage.sh`), gone with all its processes and
//! mounts when dropped.

use crate::page;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use terrace_proof::{Scratch, skip, terrace_binary, tool, wait_or_kill};

/// No command of the docs takes nearly as long, a build on a busy machine aside.
const STEP_LIMIT: Duration = Duration::from_secs(300);

/// How a command is run, and ends.
#[derive(Debug, Clone, Copy)]
pub enum How {
    /// To its end, by itself.
    Plain,
    /// On a terminal, until it has printed what is expected; then these keys end it.
    Keys(&'static str),
    /// It is a line of `/etc/fstab`: added there, and then `mount /mnt`.
    Fstab,
}

/// What Ctrl-C sends.
pub const CTRL_C: &str = "\x03";

/// A command of a page, and what is to be seen of it.
#[derive(Debug)]
pub struct Step {
    /// As printed.
    pub command: &'static str,
    /// A script that brings about what the page takes for granted.
    pub before: &'static str,
    pub how: How,
    /// Its exit status.
    pub exits: i32,
    /// What it prints, in any order, to standard output or error.
    pub prints: &'static [&'static str],
    /// A script that runs between what it prints and the keys that end it.
    pub meanwhile: &'static str,
    /// A script that sees what it has done: it fails otherwise.
    pub then: &'static str,
}

impl Step {
    /// A command that needs nothing, and prints nothing that matters.
    pub const fn new(command: &'static str) -> Self {
        let how = How::Plain;
        Step { command, before: "", how, exits: 0, prints: &[], meanwhile: "", then: "" }
    }

    pub const fn before(self, before: &'static str) -> Self {
        Step { before, ..self }
    }

    pub const fn how(self, how: How) -> Self {
        Step { how, ..self }
    }

    pub const fn exits(self, exits: i32) -> Self {
        Step { exits, ..self }
    }

    pub const fn prints(self, prints: &'static [&'static str]) -> Self {
        Step { prints, ..self }
    }

    pub const fn meanwhile(self, meanwhile: &'static str) -> Self {
        Step { meanwhile, ..self }
    }

    pub const fn then(self, then: &'static str) -> Self {
        Step { then, ..self }
    }
}

/// Runs all commands of a page on a stage of their own, as `steps` say. `elsewhere` are those that
/// something else runs, each with the reason.
///
/// # Errors
/// If page and steps are not the same commands in the same order; if one fails, or does not print
/// what it should.
pub fn play(page: &str, steps: &[Step], elsewhere: &[(&str, &str)]) -> Result<()> {
    let printed = page::commands(&page::text(page)?);
    let (skipped, printed): (Vec<_>, Vec<_>) = printed
        .into_iter()
        .partition(|command| elsewhere.iter().any(|(other, _)| command == other));
    ensure!(skipped.len() == elsewhere.len(), "{page} no longer has all of {elsewhere:?}");
    let known: Vec<_> = steps.iter().map(|step| step.command.to_owned()).collect();
    ensure!(
        printed == known,
        "{page} has the commands\n{printed:#?}\nand its test the steps\n{known:#?}"
    );
    let is_install = |step: &Step| {
        ["cargo install", "make install"].iter().any(|install| step.command.starts_with(install))
    };
    let installs = steps.iter().any(is_install);
    let stage = Stage::new(installs)?;
    steps
        .iter()
        .try_for_each(|step| stage.run(step).with_context(|| format!("{page}: {}", step.command)))
}

/// The namespaces, with a process that holds them.
struct Stage {
    holder: Child,
    /// The process in them whose place commands take.
    inside: String,
    directory: PathBuf,
    _scratch: Scratch,
}

impl Stage {
    /// `installs`: the commands begin in the repository and install the program; otherwise it is
    /// there already.
    fn new(installs: bool) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("only root can make namespaces with devices"));
        }
        let scratch = Scratch::new("docs")?;
        std::fs::create_dir(scratch.join("data"))?;
        std::fs::create_dir(scratch.join("tmp"))?;
        let programs = scratch.join("opt/terrace/bin");
        std::fs::create_dir_all(&programs)?;
        if !installs {
            let terrace = terrace_binary()?;
            let library = "libterrace_preload.so";
            std::fs::copy(terrace.with_file_name(library), programs.join(library))
                .context("the library of `terrace run`")?;
            std::fs::copy(terrace, programs.join("terrace"))?;
        }
        let mut holder = Command::new(tool("setpriv")?)
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "--net",
            ])
            .args(["--pid", "--fork", "--kill-child", "bash"])
            .arg(page::repository()?.join("proof/terrace-proof/tests/docs/stage.sh"))
            .arg(scratch.path())
            .arg(page::repository()?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("setpriv")?;
        let mut ready = String::new();
        BufReader::new(holder.stdout.take().context("no output")?).read_line(&mut ready)?;
        let inside = ready.trim().strip_prefix("ready ").map(str::to_owned);
        let directory = if installs { page::repository()? } else { PathBuf::from("/tmp") };
        let mut stage = Stage { directory, holder, inside: String::new(), _scratch: scratch };
        stage.inside = inside.context("the stage was not set up; standard error has the reason")?;
        Ok(stage)
    }

    /// A shell on the stage.
    fn shell(&self, script: &str) -> Result<Command> {
        let mut command = Command::new(tool("nsenter")?);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["--target", &self.inside, "--mount", "--pid", "--net", "--root"])
            .args(["bash", "-c", &format!("cd {}\n{script}", self.directory.display())])
            .env("PATH", format!("/opt/terrace/bin:{path}:/usr/sbin:/sbin"))
            .env("CARGO_INSTALL_ROOT", "/opt/terrace")
            .env("PKG_CONFIG_PATH", "/opt/terrace/lib/pkgconfig")
            .env("LD_LIBRARY_PATH", "/opt/terrace/lib")
            .env("CARGO_NET_OFFLINE", "true")
            .current_dir("/")
            .env_remove("TERRACE_BIN");
        Ok(command)
    }

    fn script(&self, script: &str) -> Result<()> {
        // `! command` would not end a strict script, wherever it stands; `not command` does.
        let strict =
            format!("set -euo pipefail\nnot() {{ if \"$@\"; then return 1; fi; }}\n{script}");
        terrace_proof::run(&mut self.shell(&strict)?).map(drop).with_context(|| script.to_owned())
    }

    fn run(&self, step: &Step) -> Result<()> {
        self.script(step.before).context("before it")?;
        let command = of_a_tests_size(step.command);
        let printed = match step.how {
            How::Plain => self.seen(&command, step, "")?,
            // `script` is a terminal: Ctrl-C is a key.
            How::Keys(keys) => {
                let terminal = format!(
                    "SHELL=/bin/bash TERM=xterm script --quiet --return --command 'stty rows 50 \
                     columns 120; {command}' /dev/null"
                );
                self.seen(&terminal, step, keys)?
            }
            How::Fstab => {
                self.seen(&format!("echo '{command}' >>/etc/fstab && mount /mnt"), step, "")?
            }
        };
        if std::env::var_os("TERRACE_DOCS_SHOW").is_some() {
            println!("$ {}\n{printed}", step.command);
        }
        self.script(step.then).with_context(|| format!("after it had printed\n{printed}"))
    }

    /// Runs a script and, once it has printed what the step says, types `keys`. Returns all that it
    /// printed.
    fn seen(&self, script: &str, step: &Step, keys: &str) -> Result<String> {
        let mut child = self
            .shell(&format!("exec 2>&1\n{script}"))?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("no input")?;
        let output = pump(child.stdout.take().context("no output")?);
        let deadline = Instant::now() + STEP_LIMIT;
        let rest = || deadline.saturating_duration_since(Instant::now());
        let missing =
            |printed: &str| step.prints.iter().copied().find(|text| !printed.contains(text));
        let mut printed = String::new();
        while missing(&printed).is_some() {
            let Ok(more) = output.recv_timeout(rest()) else { break };
            printed.push_str(&more);
        }
        self.script(step.meanwhile)?;
        // A program that has ended already takes no keys; its status says why.
        let _ = stdin.write_all(keys.as_bytes());
        let ended = wait_or_kill(&mut child, rest());
        // A daemon that stays behind may have the pipe open: what was printed is there by now.
        while let Ok(more) = output.recv_timeout(Duration::from_millis(100)) {
            printed.push_str(&more);
        }
        let status = ended.with_context(|| format!("it had printed\n{printed}"))?;
        ensure!(status.code() == Some(step.exits), "{status}\n{printed}");
        if let Some(text) = missing(&printed) {
            bail!("{text:?} is not in what it printed:\n{printed}");
        }
        Ok(printed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // With it, by --kill-child, the first process of the pid namespace dies, and so all others,
        // and the mounts.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Reads what comes, on a thread, so that a wait for it can end.
fn pump(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The command on devices of a test's size: as printed but for the sizes of new files.
fn of_a_tests_size(command: &str) -> String {
    command.replace(":4G", ":16M").replace(":100G", ":300M")
}
