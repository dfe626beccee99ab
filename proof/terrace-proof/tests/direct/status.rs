//! Who has files, as `terrace status`, `stats` and the options tell.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use terrace_proof::{Scratch, TestVolume, VolumeSpec, pattern, proof, run, skip, terrace_binary};

use crate::worker::{Worker, direct_calls};

const GROUP: u32 = 70_123;
const MEMBER: u32 = 70_124;
const STRANGER: u32 = 70_125;

fn json(volume: &TestVolume, command: &str, arguments: &[&str]) -> Result<serde_json::Value> {
    let mut command = volume.terrace(command)?;
    command.args(arguments).arg("--json").arg(volume.root());
    Ok(serde_json::from_str(&run(&mut command)?)?)
}

#[test]
fn status_and_stats_tell_of_direct_processes() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-status").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-status-reports")?;
        let mut direct = Worker::start(volume.root(), Some(&scratch.join("report")))?;
        ensure!(direct.ask("open file rwc")? == Ok(vec![0]));
        (0..20).try_for_each(|seed| direct.ask(&format!("0 write 100 {seed}")).map(drop))?;
        direct.ask("0 pread 0 50")?.ok().context("a read")?;
        let ino = fs::metadata(volume.join("file"))?.ino();
        let direct_path = &json(&volume, "status", &[])?["direct"];
        let process = &direct_path["processes"][0];
        ensure!(process["process"] == direct.id(), "{direct_path}");
        ensure!(process["name"] == "worker" && process["inodes"][0] == ino, "{direct_path}");
        let text = run(volume.terrace("status")?.arg(volume.root()))?;
        let line = format!("process {} (worker) of user", direct.id());
        ensure!(text.contains("direct path: 1 file lent, 1 process connected"), "{text}");
        ensure!(text.contains(&line), "{text}");
        let stats = json(&volume, "stats", &["--once"])?;
        let counter = |name: &str| stats["counters"][name].as_u64().unwrap_or(0);
        ensure!(counter("loans") >= 1 && counter("direct_reads") == 1, "{stats}");
        ensure!(counter("direct_writes") >= 15, "{stats}");
        ensure!(stats["loans"]["files"] == 1 && stats["loans"]["processes"] == 1, "{stats}");
        direct.finish()?;
        let after = run(volume.terrace("status")?.arg(volume.root()))?;
        ensure!(after.contains("direct path: 0 files lent, 0 processes connected"), "{after}");
        volume.check()
    });
}

/// Also while the daemon is not asked: it is asked less and less often.
#[test]
fn the_report_says_why_the_mount_had_the_calls() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-reasons").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-reasons-reports")?;
        let report = scratch.join("report");
        fs::write(volume.join("file"), pattern(0, 64 << 10))?;
        run(volume.terrace("evict")?.arg(volume.join("file")))?;
        let mut worker = Worker::start(volume.root(), Some(&report))?;
        ensure!(worker.ask("open file r")? == Ok(vec![0]));
        for _ in 0..200 {
            worker.ask("0 pread 4096 50")?.ok().context("a read")?;
        }
        worker.finish()?;
        let text = fs::read_to_string(&report)?;
        let line = "0 direct, 7 350 mount (few calls), 193 9650 mount (not in PM)";
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(words.contains(line), "{text}");
        volume.check()
    });
}

/// One thread of several borrows the file again after another process has looked at it. The others
/// find that, and do not give it back.
#[test]
fn threads_that_read_find_each_other_s_loans() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-readers").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-readers-reports")?;
        let report = scratch.join("report");
        let mut worker = Worker::start(volume.root(), Some(&report))?;
        worker.expect("open file rwc", &[0])?;
        (0..4).try_for_each(|seed| worker.expect(&format!("0 write 4096 {seed}"), &[4096]))?;
        for _ in 0..30 {
            worker.send("0 readers 4 20000")?;
            ensure!(fs::read(volume.join("file"))?.len() == 4 * 4096);
            ensure!(worker.answer()? == Ok(vec![0]), "a read was wrong");
        }
        worker.finish()?;
        let text = fs::read_to_string(&report)?;
        ensure!(!text.contains("no room") && direct_calls(&report)? > 0, "{text}");
        volume.check()
    });
}

/// Programs that other users can reach.
struct Reachable {
    _scratch: Scratch,
    terrace: PathBuf,
    worker: PathBuf,
}

impl Reachable {
    fn new() -> Result<Self> {
        let scratch = Scratch::new("direct-group-programs")?;
        let built = terrace_binary()?;
        let library = built.with_file_name("libterrace_preload.so");
        let worker = Path::new(env!("CARGO_BIN_EXE_worker"));
        for file in [&built, &library, worker] {
            let copy = scratch.join(&file.file_name().context("a name")?.to_string_lossy());
            fs::copy(file, &copy).with_context(|| format!("copying {}", file.display()))?;
            fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
        }
        let (terrace, worker) = (scratch.join("terrace"), scratch.join("worker"));
        Ok(Self { _scratch: scratch, terrace, worker })
    }

    /// Direct calls of a user's program that appends records; the records are as they were written.
    fn direct_calls_of(&self, volume: &TestVolume, user: u32, groups: &str) -> Result<u64> {
        let reports = Scratch::new("direct-group-reports")?;
        fs::set_permissions(reports.path(), Permissions::from_mode(0o777))?;
        let report = reports.join("report");
        let name = format!("file-{user}-{groups}");
        let mut command = Command::new("setpriv");
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        command.args(ids).arg(format!("--groups={groups}")).arg("--");
        command.arg(&self.terrace).args(["run", &format!("--report={}", report.display()), "--"]);
        command.arg(&self.worker);
        let mut worker = Worker::of(command, volume.root())?;
        ensure!(worker.ask(&format!("open {name} wc"))? == Ok(vec![0]));
        let mut expected = Vec::new();
        for seed in 0..50 {
            ensure!(worker.ask(&format!("0 write 100 {seed}"))? == Ok(vec![100]));
            expected.extend(pattern(seed, 100));
        }
        worker.finish()?;
        ensure!(fs::read(volume.join(&name))? == expected, "{name}");
        direct_calls(&report)
    }
}

fn shared(name: &str, lend: &str) -> Result<TestVolume> {
    let volume = VolumeSpec::new(name).shared().options(lend).mount()?;
    fs::set_permissions(volume.root(), Permissions::from_mode(0o777))?;
    Ok(volume)
}

#[test]
fn a_group_s_programs_go_direct_if_the_mount_says_so() {
    proof(|| {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("only root starts programs of other users"));
        }
        let programs = Reachable::new()?;
        let group = GROUP.to_string();
        let mut volume = shared("direct-group", &format!("lend=group={GROUP}"))?;
        let member = programs.direct_calls_of(&volume, MEMBER, &group)?;
        let stranger = programs.direct_calls_of(&volume, STRANGER, "70199")?;
        let root = programs.direct_calls_of(&volume, 0, "0")?;
        ensure!(member > 40 && root > 40 && stranger == 0, "{member}, {root}, {stranger}");
        volume.check()?;
        drop(volume);
        let dir = PathBuf::from(format!("/dev/shm/terrace-0-group-{GROUP}"));
        ensure!(!dir.exists(), "{} is left", dir.display());
        let mut volume = shared("direct-owner", "lend=owner")?;
        let member = programs.direct_calls_of(&volume, MEMBER, &group)?;
        ensure!(member == 0, "{member} calls of a stranger went direct");
        volume.check()
    });
}

#[test]
fn a_directory_that_others_made_is_refused() {
    proof(|| {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("only root gives directories to other users"));
        }
        let dir = PathBuf::from(format!("/dev/shm/terrace-0-group-{}", GROUP + 1));
        fs::create_dir(&dir)?;
        chown(&dir, Some(STRANGER), Some(STRANGER))?;
        let mounted = shared("direct-foreign", &format!("lend=group={}", GROUP + 1));
        fs::remove_dir(&dir)?;
        let error = format!("{:#}", mounted.err().context("it was mounted")?);
        let named = error.contains(&dir.display().to_string());
        ensure!(named && error.contains("no directory of user 0"), "{error}");
        Ok(())
    });
}
