//! Mounts over io_uring keep to the CPUs that the daemon may use, and serve programs on all.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use common::skip;
use common::switch::{Switch, over_ring};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;
use terrace_fuse::terms::attributes;
use terrace_fuse::{Mounted, mount_with};
use terrace_transport::abi::{Attr, StatfsOut};
use terrace_transport::{FileSystem, Operation, Reply, Request};

/// Answers no STATFS before `count` of them are under way.
struct Meeting {
    count: usize,
    here: Mutex<usize>,
    all_here: Condvar,
}

/// No meeting takes nearly so long.
const MEETING_LIMIT: Duration = Duration::from_secs(30);

impl FileSystem for Meeting {
    fn answer(&self, request: &Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Getattr => {
                let mode = libc::S_IFDIR | 0o755;
                reply.value(&attributes(Attr { ino: 1, mode, nlink: 2, ..Attr::default() }));
            }
            Operation::Statfs => {
                let mut here = self.here.lock().unwrap();
                *here += 1;
                self.all_here.notify_all();
                let missing = |here: &mut usize| !here.is_multiple_of(self.count);
                let waited = self.all_here.wait_timeout_while(here, MEETING_LIMIT, missing);
                match waited.unwrap().1.timed_out() {
                    true => reply.error(libc::ETIMEDOUT),
                    false => reply.value(&StatfsOut::default()),
                }
            }
            Operation::Forget { .. } | Operation::BatchForget(_) => drop(reply),
            _ => reply.error(libc::ENOSYS),
        }
    }
}

/// A mount that answers STATFS when as many wait for it as a queue has workers.
struct MeetingMount {
    mounted: Mounted,
    place: TempDir,
}

const DEPTH: usize = 12;

impl MeetingMount {
    fn new() -> MeetingMount {
        let place = tempfile::tempdir().unwrap();
        let meeting = Meeting { count: DEPTH, here: Mutex::default(), all_here: Condvar::new() };
        let mounted = mount_with(place.path(), &over_ring(DEPTH), |_| Ok(meeting)).unwrap();
        MeetingMount { mounted, place }
    }

    /// As many programs as a queue has workers ask from this CPU.
    fn meet_on(&self, cpu: usize) {
        std::thread::scope(|scope| {
            for _ in 0..DEPTH {
                scope.spawn(|| {
                    run_on(None, &[cpu]);
                    rustix::fs::statvfs(self.place.path()).unwrap();
                });
            }
        });
    }

    /// One program asks something that is answered at once.
    fn ask_once(&self, cpu: usize) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run_on(None, &[cpu]);
                let error = fs::read_dir(self.place.path().join("absent")).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
            });
        });
    }

    /// The CPUs of each worker of a CPU's queue.
    fn workers_of(&self, cpu: usize) -> Vec<Vec<usize>> {
        threads(&format!("terrace-fuse-{cpu}.")).into_iter().map(|tid| cpus(Some(tid))).collect()
    }

    /// All workers of a CPU's queue keep to these CPUs.
    fn check_workers(&self, cpu: usize, expected: &[usize]) {
        let workers = self.workers_of(cpu);
        assert_eq!(workers.len(), DEPTH, "of CPU {cpu}: {workers:?}");
        assert!(workers.iter().all(|cpus| cpus == expected), "of CPU {cpu}: {workers:?}");
    }
}

/// The threads of this process whose names begin so.
fn threads(prefix: &str) -> Vec<Pid> {
    let name = |task: &Path| fs::read_to_string(task.join("comm")).unwrap_or_default();
    fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path())
        .filter(|task| name(task).starts_with(prefix))
        .map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap())
        .map(|tid| Pid::from_raw(tid).unwrap())
        .collect()
}

/// The CPUs that a thread may use, or this one.
fn cpus(thread: Option<Pid>) -> Vec<usize> {
    let allowed = sched_getaffinity(thread).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Keeps a thread, or this one, on these CPUs.
fn run_on(thread: Option<Pid>, cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(thread, &set).unwrap();
}

/// Two CPUs that this process may use; a skip if there is one only.
fn two_cpus(test: &str) -> Option<[usize; 2]> {
    let two = cpus(None).first_chunk().copied();
    if two.is_none() {
        skip(test, "there is only one CPU to use");
    }
    two
}

/// Requests that only end together, as many as a queue serves: each finds a worker, also those that
/// come at once. The kernel hands none that waits to a worker that comes later.
#[test]
fn requests_that_wait_for_each_other_are_all_taken() {
    let Some(_switch) = Switch::set("requests_that_wait_for_each_other_are_all_taken", "Y") else {
        return;
    };
    let mount = MeetingMount::new();
    for cpu in cpus(None) {
        mount.check_workers(cpu, &[cpu]);
        mount.meet_on(cpu);
    }
    mount.mounted.unmount().unwrap();
}

/// As `taskset` does it, before the mount and while it is there.
#[test]
fn workers_keep_to_the_affinity_of_the_daemon() {
    let test = "workers_keep_to_the_affinity_of_the_daemon";
    let Some(_switch) = Switch::set(test, "Y") else {
        return;
    };
    let Some([first, second]) = two_cpus(test) else { return };
    let mount = std::thread::scope(|scope| {
        let restricted = || {
            run_on(None, &[first]);
            MeetingMount::new()
        };
        scope.spawn(restricted).join().unwrap()
    });
    mount.check_workers(first, &[first]);
    mount.check_workers(second, &[first]);
    mount.meet_on(second);
    mount.check_workers(second, &[first]);

    // `taskset --all-tasks`, with the other one only.
    let all = || threads("terrace-fuse");
    all().into_iter().for_each(|thread| run_on(Some(thread), &[second]));
    mount.meet_on(first);
    mount.meet_on(second);
    mount.check_workers(first, &[second]);
    mount.check_workers(second, &[second]);

    // With both: whoever takes a message elsewhere goes where it belongs.
    all().into_iter().for_each(|thread| run_on(Some(thread), &[first, second]));
    let strays = threads(&format!("terrace-fuse-{first}."));
    strays.into_iter().for_each(|thread| run_on(Some(thread), &[second]));
    mount.meet_on(first);
    mount.check_workers(first, &[first]);
    mount.mounted.unmount().unwrap();
}

/// This process is in a cpuset of its own; when this is dropped, it is where it was.
struct InCpuset {
    before: PathBuf,
    own: PathBuf,
}

impl InCpuset {
    /// With this CPU. An error says why there is none.
    fn with(cpu: usize) -> Result<InCpuset, String> {
        let mine = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let path_in = |hierarchy: &str| {
            let line = mine.lines().find(|line| line.contains(hierarchy))?;
            Some(line.rsplit(':').next()?.trim_start_matches('/').to_owned())
        };
        let (old, new) = (path_in(":cpuset:"), path_in("0::"));
        let before = match (&old, new) {
            (Some(path), _) => Path::new("/sys/fs/cgroup/cpuset").join(path),
            (None, Some(path)) => Path::new("/sys/fs/cgroup").join(path),
            (None, None) => return Err("there are no cgroups".to_owned()),
        };
        let own = before.join(format!("terrace-test-{}", std::process::id()));
        fs::create_dir(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let cpuset = InCpuset { before, own };
        let set = |file: &str, value: &str| {
            let file = cpuset.own.join(file);
            fs::write(&file, value).map_err(|error| format!("{}: {error}", file.display()))
        };
        set("cpuset.cpus", &cpu.to_string())?;
        if old.is_some() {
            set("cpuset.mems", "0")?;
        }
        set("cgroup.procs", &std::process::id().to_string())?;
        Ok(cpuset)
    }

    /// Has a program outside ask on another CPU.
    fn ask_from_outside(&self, cpu: usize, mount: &Path) {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec taskset -c \"$1\" ls \"$2/absent\"";
        let mut command = Command::new("sh");
        command.args(["-euc", script]).arg(&self.before).arg(cpu.to_string()).arg(mount);
        let output = command.output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("not implemented"), "{output:?}");
    }
}

impl Drop for InCpuset {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.own);
    }
}

#[test]
fn workers_keep_to_the_cpuset_of_the_daemon() {
    let test = "workers_keep_to_the_cpuset_of_the_daemon";
    let Some(_switch) = Switch::set(test, "Y") else {
        return;
    };
    let Some([first, second]) = two_cpus(test) else { return };
    let mount = MeetingMount::new();
    mount.check_workers(second, &[second]);
    let cpuset = match InCpuset::with(first) {
        Ok(cpuset) => cpuset,
        Err(why_not) => return skip(test, &why_not),
    };
    mount.check_workers(second, &[first]);
    cpuset.ask_from_outside(second, mount.place.path());
    let later = MeetingMount::new();
    later.mounted.unmount().unwrap();
    mount.meet_on(first);
    mount.check_workers(second, &[first]);
    drop(cpuset);
    assert!(cpus(None).contains(&second), "{:?}", cpus(None));
    mount.meet_on(second);
    mount.mounted.unmount().unwrap();
}

/// A CPU is offline; when this is dropped, it is online again.
struct Offline(PathBuf);

impl Offline {
    fn new(cpu: usize) -> Result<Offline, String> {
        let file = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        fs::write(&file, "0").map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Offline(file))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "1");
    }
}

#[test]
fn cpus_come_and_go() {
    let test = "cpus_come_and_go";
    let Some(_switch) = Switch::set(test, "Y") else {
        return;
    };
    let Some([first, second]) = two_cpus(test) else { return };
    let before = MeetingMount::new();
    let offline = match Offline::new(second) {
        Ok(offline) => offline,
        Err(why_not) => return skip(test, &why_not),
    };
    before.meet_on(first);
    let during = MeetingMount::new();
    assert_eq!(during.workers_of(second).len(), DEPTH + 2, "those of both mounts");
    during.meet_on(first);
    drop(offline);
    before.meet_on(second);
    // The first message brings in the other workers.
    during.ask_once(second);
    during.meet_on(second);
    let workers = during.workers_of(second);
    assert_eq!(workers.len(), 2 * DEPTH, "those of both mounts");
    // One that found itself there has no need to return.
    assert!(workers.iter().all(|cpus| cpus.contains(&second)), "{workers:?}");
    before.mounted.unmount().unwrap();
    during.mounted.unmount().unwrap();
}
