//! One Terrace volume per test: formatted, mounted, and gone afterwards, also after a panic.
//!
//! The daemon runs in the foreground as our own child, so that it can be killed by its process id
//! and nobody else's daemon can be hit. In directory mode (`TERRACE_PROOF_DIR`) the same interface
//! hands out a plain directory; killing, remounting and checking then do nothing. With
//! `TERRACE_PROOF_TRANSPORT` set, volumes are mounted with that transport.

use crate::killer::Killer;
use crate::process::{child_of, children_of, daemon_of_stopped, end, wait_for_connection};
use crate::skip::note;
use crate::{Scratch, direct, run, skip, tool, transport, wait_or_kill};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// One mebibyte.
pub const MIB: u64 = 1 << 20;

/// No mount, recovery included, and no unmount of a test volume takes nearly this long; past it the
/// test fails with a reason instead of hanging.
const DAEMON_LIMIT: Duration = Duration::from_secs(120);

/// Size and mount options of a test volume.
#[derive(Debug, Clone)]
pub struct VolumeSpec {
    name: String,
    pm_bytes: u64,
    disk_bytes: u64,
    pm_dir: Option<PathBuf>,
    disk_dir: Option<PathBuf>,
    options: Vec<String>,
    preparation: String,
}

/// A process that another test starts has our descriptors between its fork and its exec, and with
/// them keeps our mount busy.
const BUSY_LIMIT: Duration = Duration::from_secs(20);

/// Unmounts as soon as nobody keeps the mount busy.
///
/// # Errors
/// What `unmount` says, if it is something else or remains so.
pub fn when_idle(mut unmount: impl FnMut() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + BUSY_LIMIT;
    while let Err(error) = unmount() {
        if !format!("{error:#}").contains("is in use") || Instant::now() > deadline {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl VolumeSpec {
    /// A volume with 64 MiB of PM and a sparse 1 GiB disk image; `name` appears in its paths.
    pub fn new(name: &str) -> Self {
        VolumeSpec {
            name: name.to_owned(),
            pm_bytes: 64 * MIB,
            disk_bytes: 1024 * MIB,
            pm_dir: None,
            disk_dir: None,
            options: Vec::new(),
            preparation: String::new(),
        }
    }

    /// Has the daemon's process run these commands of the shell before it is the daemon: they set
    /// what it may use.
    pub fn prepared_by(mut self, script: &str) -> Self {
        script.clone_into(&mut self.preparation);
        self
    }

    /// Sets the size of the PM device.
    pub fn pm_mib(mut self, mib: u64) -> Self {
        self.pm_bytes = mib * MIB;
        self
    }

    /// Sets the size of the disk.
    pub fn disk_mib(mut self, mib: u64) -> Self {
        self.disk_bytes = mib * MIB;
        self
    }

    /// Puts the PM device's file into this directory.
    pub fn pm_in(mut self, dir: &Path) -> Self {
        self.pm_dir = Some(dir.to_owned());
        self
    }

    /// Puts the disk's image into this directory.
    pub fn disk_in(mut self, dir: &Path) -> Self {
        self.disk_dir = Some(dir.to_owned());
        self
    }

    /// Adds mount options, as after `-o`.
    pub fn options(mut self, options: &str) -> Self {
        self.options.extend(options.split(',').filter(|o| !o.is_empty()).map(str::to_owned));
        self
    }

    /// Whether it is such a volume as [`Self::migrating`] makes.
    pub fn migrates(&self) -> bool {
        self.options.iter().any(|option| option == "migrate_at=1")
    }

    /// PM is so small, and the thresholds such, that all data, and all logs, migrate all the time.
    pub fn migrating(self) -> Self {
        self.pm_mib(16).disk_mib(512).options(
            "migrate_min=1,migrate_at=1,migrate_max=1,cold_age=0,logs_at=0,group=64K,\
                 flow_seconds=1,settle=0",
        )
    }

    /// Adds the options of a mount for several users, with the kernel's permission checks.
    pub fn shared(self) -> Self {
        self.options("allow_other,default_permissions")
    }

    /// Formats and mounts it.
    ///
    /// # Errors
    /// A skip if mounts are impossible here; otherwise what `terrace` printed.
    pub fn mount(self) -> Result<TestVolume> {
        TestVolume::new(self)
    }
}

/// See [`TestVolume::kill_after`].
#[derive(Debug)]
#[must_use]
pub struct Watch {
    _ends_the_watch: Sender<()>,
}

/// A mounted volume, unmounted and removed when dropped.
#[derive(Debug)]
pub struct TestVolume {
    spec: VolumeSpec,
    binary: Option<PathBuf>,
    scratch: Scratch,
    /// On tmpfs: the emulated PM device, and the directory of the page cache's file.
    memory: Option<Scratch>,
    pm: PathBuf,
    mountpoint: PathBuf,
    daemon: Option<Child>,
    killer: Option<Killer>,
}

impl TestVolume {
    fn new(spec: VolumeSpec) -> Result<Self> {
        if let Some(dir) = std::env::var_os("TERRACE_PROOF_DIR") {
            let scratch = Scratch::new_in(Path::new(&dir), &spec.name)?;
            let mountpoint = scratch.path().to_owned();
            return Ok(TestVolume {
                spec,
                binary: None,
                scratch,
                memory: None,
                pm: PathBuf::new(),
                mountpoint,
                daemon: None,
                killer: None,
            });
        }
        let binary = terrace_binary()?;
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(|e| skip(format!("/dev/fuse cannot be opened: {e}")))?;
        let scratch = Scratch::new(&spec.name)?;
        let mountpoint = scratch.join("mnt");
        std::fs::create_dir(&mountpoint)?;
        let memory = Scratch::new_in(Path::new("/dev/shm"), &spec.name)?;
        std::fs::create_dir(memory.join("cache"))?;
        let pm_dir = spec.pm_dir.clone();
        let mut volume = TestVolume {
            spec,
            binary: Some(binary),
            scratch,
            pm: pm_dir.unwrap_or_else(|| memory.path().to_owned()).join("pm"),
            memory: Some(memory),
            mountpoint,
            daemon: None,
            killer: None,
        };
        volume.format()?;
        volume.start()?;
        Ok(volume)
    }

    /// Where programs find the file system.
    pub fn root(&self) -> &Path {
        &self.mountpoint
    }

    /// `name` in its root directory.
    pub fn join(&self, name: &str) -> PathBuf {
        self.mountpoint.join(name)
    }

    /// Whether this is a real mount and not directory mode.
    pub fn is_mount(&self) -> bool {
        self.binary.is_some()
    }

    /// The PM device's file (an empty path in directory mode).
    pub fn pm_path(&self) -> &Path {
        &self.pm
    }

    /// Bytes that background migration has taken from PM since the volume was mounted: of data that
    /// went to a disk, and of pages of logs.
    ///
    /// # Errors
    /// If the daemon does not tell.
    pub fn migrated_bytes(&self) -> Result<(u64, u64)> {
        let output = self.terrace("stats")?.args(["--once", "--json"]).arg(self.root()).output()?;
        let stats: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let counter = |name| {
            stats["counters"][name].as_u64().with_context(|| format!("{stats}: no counter {name}"))
        };
        Ok((counter("migrated_write_bytes")?, counter("migrated_log_bytes")?))
    }

    /// Waits until background migration has given back a page of a log.
    ///
    /// # Errors
    /// If that takes far too long, or the daemon does not tell.
    pub fn wait_for_moved_logs(&self) -> Result<()> {
        let deadline = Instant::now() + DAEMON_LIMIT;
        while self.migrated_bytes()?.1 == 0 {
            if Instant::now() > deadline {
                bail!("no log has moved");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A `terrace` command line that starts with `subcommand`.
    ///
    /// # Errors
    /// A skip in directory mode.
    pub fn terrace(&self, subcommand: &str) -> Result<Command> {
        let binary = self.binary.as_ref().ok_or_else(|| skip("needs a mount, not a directory"))?;
        let mut command = Command::new(binary);
        command.arg(subcommand);
        Ok(command)
    }

    /// SIGKILL for the daemon, as a crash of it would be, and for its keeper, if it has one. The
    /// mount answers with errors from now on.
    ///
    /// # Errors
    /// If the daemon had already ended by itself, which is a crash that the test did not order.
    pub fn kill(&mut self) -> Result<()> {
        drop(self.killer.take());
        let Some(mut process) = self.daemon.take() else {
            return Ok(());
        };
        if let Some(status) = process.try_wait()? {
            bail!("the daemon ended before it was killed: {status}\n{}", self.daemon_log());
        }
        let daemon = self.has_keeper().then(|| daemon_of_stopped(process.id())).transpose()?;
        process.kill()?;
        process.wait()?;
        daemon.flatten().map_or(Ok(()), |daemon| end(daemon, Signal::KILL))
    }

    /// Whether its daemons are killed while it is used (`TERRACE_PROOF_KILLS`).
    pub fn is_killed_again_and_again(&self) -> bool {
        self.killer.is_some()
    }

    /// Whether a keeper starts a successor when the daemon dies.
    pub fn has_keeper(&self) -> bool {
        let options = &self.spec.options;
        let said = options.iter().rev().find(|option| option.ends_with("keeper"));
        match said {
            Some(option) => option == "keeper",
            None => !options.iter().any(|option| option == "clone_fd"),
        }
    }

    /// The process that the test started: the keeper, or, without one, the daemon.
    ///
    /// # Errors
    /// Nothing is mounted.
    pub fn process(&self) -> Result<Pid> {
        let process = self.daemon.as_ref().context("no daemon")?.id();
        Pid::from_raw(process.cast_signed()).context("a process")
    }

    /// The daemon that a keeper has at this moment, if any.
    pub fn daemon_of_keeper(&self) -> Option<Pid> {
        self.daemon.as_ref().and_then(|keeper| child_of(keeper.id()))
    }

    /// All processes that a keeper has at this moment, the oldest first.
    ///
    /// # Errors
    /// Nothing is mounted.
    pub fn children_of_keeper(&self) -> Result<Vec<Pid>> {
        Ok(children_of(self.process()?.as_raw_pid().cast_unsigned()))
    }

    /// The process that serves the mount. With a keeper it waits for the next one if need be.
    ///
    /// # Errors
    /// Nothing is mounted; the keeper has ended, or starts none.
    pub fn serving(&self) -> Result<Pid> {
        let process = self.process()?;
        if !self.has_keeper() {
            return Ok(process);
        }
        let deadline = Instant::now() + DAEMON_LIMIT;
        while Instant::now() < deadline {
            if let Some(daemon) = child_of(process.as_raw_pid().cast_unsigned()) {
                return Ok(daemon);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("the keeper has no daemon\n{}", self.daemon_log());
    }

    /// SIGKILL for the daemon of a mount with a keeper. Returns when it is dead.
    ///
    /// # Errors
    /// As [`Self::serving`].
    pub fn kill_daemon(&self) -> Result<()> {
        end(self.serving()?, Signal::KILL)
    }

    /// Waits until the process that the test started has ended by itself; says whether it was with
    /// success.
    ///
    /// # Errors
    /// It does not end.
    pub fn ended(&mut self) -> Result<bool> {
        let mut process = self.daemon.take().context("no daemon")?;
        Ok(wait_or_kill(&mut process, DAEMON_LIMIT)?.success())
    }

    /// The daemon's process; `None` if there is none, as in directory mode.
    pub fn daemon_id(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// Kills the daemon after `limit`, unless the result is dropped before: a daemon that does not
    /// answer any more holds programs in the kernel, where nothing else ends their wait.
    pub fn kill_after(&self, limit: Duration) -> Watch {
        let (process, has_keeper) = (self.process().ok(), self.has_keeper());
        let (watch, dropped) = channel();
        std::thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Nobody has waited for it yet, so that its number is still its own.
                if let Some(process) = process {
                    let id = process.as_raw_pid().cast_unsigned();
                    let daemon = has_keeper.then(|| daemon_of_stopped(id).ok().flatten()).flatten();
                    let _ = kill_process(process, Signal::KILL);
                    daemon.map(|daemon| end(daemon, Signal::KILL));
                }
            }
        });
        Watch { _ends_the_watch: watch }
    }

    /// What a power cut leaves: SIGKILL for the daemon, and its memory is gone, with all data that
    /// was on no device. (Stores to emulated PM that were not flushed yet stay; the simulators of
    /// `terrace-media` lose those.)
    ///
    /// # Errors
    /// As [`TestVolume::kill`].
    pub fn power_cut(&mut self) -> Result<()> {
        self.kill()?;
        if let Some(memory) = &self.memory {
            std::fs::remove_dir_all(memory.join("cache"))?;
            std::fs::create_dir(memory.join("cache"))?;
        }
        Ok(())
    }

    /// The files of its devices: PM and the disk. None in directory mode.
    pub fn devices(&self) -> Vec<PathBuf> {
        if self.is_mount() { vec![self.pm.clone(), self.disk()] } else { Vec::new() }
    }

    fn disk(&self) -> PathBuf {
        self.spec.disk_dir.as_deref().unwrap_or(self.scratch.path()).join("disk.img")
    }

    /// Unmounts (if the daemon lives) and mounts again at the same place, recovering if need be.
    ///
    /// # Errors
    /// What `terrace` printed.
    pub fn remount(&mut self) -> Result<()> {
        self.remount_with("")
    }

    /// As [`TestVolume::remount`], with further mount options for this mount only.
    ///
    /// # Errors
    /// As [`TestVolume::remount`].
    pub fn remount_with(&mut self, options: &str) -> Result<()> {
        self.unmount()?;
        let spec = self.spec.clone();
        self.spec = spec.clone().options(options);
        let started = self.start();
        self.spec = spec;
        started
    }

    /// Cleanly unmounts, if mounted. The daemon must exit with success.
    ///
    /// # Errors
    /// If something still uses the mount, or the daemon failed.
    pub fn unmount(&mut self) -> Result<()> {
        drop(self.killer.take());
        if self.daemon.is_none() {
            return Ok(());
        }
        match when_idle(|| run(self.terrace("umount")?.arg(&self.mountpoint)).map(drop)) {
            // A test beside this one has a copy of all mounts, for a moment.
            Err(error) if format!("{error:#}").contains("in another mount namespace") => {}
            unmounted => unmounted?,
        }
        let mut daemon = self.daemon.take().context("no daemon")?;
        let status = wait_or_kill(&mut daemon, DAEMON_LIMIT)?;
        if !status.success() {
            bail!("the daemon failed at unmount: {status}\n{}", self.daemon_log());
        }
        Ok(())
    }

    /// Unmounts, runs `terrace check`, which must find nothing, and mounts again.
    ///
    /// # Errors
    /// What `terrace check` found.
    pub fn check(&mut self) -> Result<()> {
        if !self.is_mount() {
            return Ok(());
        }
        self.unmount()?;
        run(self.terrace("check")?.arg(&self.pm))?;
        self.start()
    }

    fn format(&self) -> Result<()> {
        if !self.is_mount() {
            return Ok(());
        }
        let device = |path: &Path, bytes: u64| format!("{}:{}M", path.display(), bytes / MIB);
        run(self
            .terrace("format")?
            .args(["--pm", &device(&self.pm, self.spec.pm_bytes)])
            .args(["--disk", &device(&self.disk(), self.spec.disk_bytes)]))?;
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        if !self.is_mount() {
            return Ok(());
        }
        let binary = self.binary.as_ref().context("not a mount")?;
        let mut command = Command::new("sh");
        command
            .args(["-euc", &format!("{}\nexec \"$0\" \"$@\"", self.spec.preparation)])
            .arg(binary)
            .arg("mount");
        command.arg(&self.pm).arg(&self.mountpoint).arg("--foreground");
        let mut options = self.spec.options.clone();
        let chosen = options.iter().any(|option| option.starts_with("cache_dir="));
        if let Some(memory) = self.memory.as_ref().filter(|_| !chosen) {
            options.push(format!("cache_dir={}", memory.join("cache").display()));
        }
        let chosen = options.iter().any(|option| option.starts_with("transport="));
        let transport = transport::wanted().filter(|_| !chosen);
        options.extend(transport.map(|transport| format!("transport={transport}")));
        options.extend(direct::wanted(&options).map(str::to_owned));
        command.args(["-o", &options.join(",")]).env_remove("LD_PRELOAD");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_path())?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // SAFETY: between fork and exec only prctl is called, which is async-signal-safe. It takes
        // the daemon (and with it the mount) along if the test process is killed.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        let before = device_of(self.scratch.path())?;
        let mut daemon = command.spawn().context("starting terrace mount")?;
        let deadline = Instant::now() + DAEMON_LIMIT;
        loop {
            // The dead mount of a killed daemon still answers stat, from the kernel's cache, but
            // not statfs, which only a daemon can answer.
            if rustix::fs::statvfs(&self.mountpoint).is_ok()
                && device_of(&self.mountpoint).ok() != Some(before)
            {
                self.daemon = Some(daemon);
                self.killer = match self.has_keeper() {
                    true => {
                        wait_for_connection(self.process()?.as_raw_pid().cast_unsigned());
                        Killer::asked_for(self.process()?, &self.mountpoint)?
                    }
                    false => None,
                };
                let served = std::fs::read_dir(&self.mountpoint).map(drop);
                return served
                    .with_context(|| format!("the mount does not serve\n{}", self.daemon_log()));
            }
            if let Some(status) = daemon.try_wait()? {
                bail!("terrace mount: {status}\n{}", self.daemon_log());
            }
            if Instant::now() > deadline {
                daemon.kill()?;
                daemon.wait()?;
                bail!("terrace mount: no mount after {DAEMON_LIMIT:?}\n{}", self.daemon_log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.join("daemon.log")
    }

    /// What its daemons have logged so far.
    pub fn daemon_log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

impl Drop for TestVolume {
    /// Leaves no mount and no daemon behind, whatever state the test left them in; the files go
    /// with their directories.
    fn drop(&mut self) {
        if !self.is_mount() {
            return;
        }
        let log = format!("daemon log of {}:\n{}", self.spec.name, self.daemon_log());
        if std::thread::panicking() {
            eprintln!("{log}");
        } else {
            note(log);
        }
        // A test may have waited for a daemon that did not end.
        let unmounted = self.unmount().is_ok();
        let is_mounted = || device_of(&self.mountpoint).ok() != device_of(self.scratch.path()).ok();
        if !unmounted || rustix::fs::statvfs(&self.mountpoint).is_err() || is_mounted() {
            // Lazily: the test may have panicked with files open.
            if let Ok(fusermount) = tool("fusermount3") {
                let _ = run(Command::new(fusermount).args(["-u", "-z"]).arg(&self.mountpoint));
            }
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.daemon.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None))) {
            if Instant::now() > deadline {
                let _ = self.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn device_of(path: &Path) -> std::io::Result<u64> {
    Ok(std::fs::metadata(path)?.dev())
}

/// `TERRACE_BIN`, or `terrace` in the profile directory of the running test program.
///
/// # Errors
/// A skip if there is neither.
pub fn terrace_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TERRACE_BIN") {
        return Ok(PathBuf::from(path));
    }
    let test_program = std::env::current_exe()?;
    let profile_dir =
        test_program.parent().and_then(Path::parent).context("no profile directory")?;
    let binary = profile_dir.join("terrace");
    if binary.is_file() {
        return Ok(binary);
    }
    Err(skip(format!("{} is not built and TERRACE_BIN is not set", binary.display())))
}
