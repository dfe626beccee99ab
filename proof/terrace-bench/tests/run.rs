//! One tiny run of everything: the shape of the results, and that nothing is left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the benchmarks with a directory for temporary files; returns the process's number and what
/// it printed.
fn run(arguments: &[&str], temporary: &Path, output: &Path) -> (u32, Output) {
    let child = Command::new(env!("CARGO_BIN_EXE_terrace-bench"))
        .args(arguments)
        .arg("--output")
        .arg(output)
        .env("TMPDIR", temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("running terrace-bench");
    (child.id(), child.wait_with_output().expect("the end of terrace-bench"))
}

/// Asserts that a process which has ended left neither files in memory nor temporary files, mounts
/// or control groups.
fn assert_nothing_is_left(process: u32, temporary: &Path) {
    let prefix = format!("terrace-bench-{process}-");
    for directory in [Path::new("/dev/shm"), temporary] {
        let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> =
            names.filter(|name| name.to_string_lossy().starts_with(&prefix)).collect();
        assert!(left.is_empty(), "{}: {left:?}", directory.display());
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&prefix), "{mounts}");
    for groups in mounts.lines().filter(|mount| mount.starts_with("cgroup2 ")) {
        let group = Path::new(groups.split(' ').nth(1).unwrap()).join(prefix.trim_end_matches('-'));
        assert!(!group.exists(), "{}", group.display());
    }
    // A loop device ends after its last user, in its own time.
    let looped = || {
        let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let files = devices.filter_map(|device| {
            std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
        });
        files.filter(|file| file.contains(&prefix)).collect::<Vec<_>>()
    };
    for _ in 0..1200 {
        if looped().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("still there: {:?}", looped());
}

/// Whether a row was not measured because of other load on the machine, beside which this test may
/// run.
fn is_disturbed(row: &Value) -> bool {
    row["unit"] == "not measured"
        && row["note"].as_str().is_some_and(|why| why.contains("disturbed: "))
}

/// Whether a row was not measured because this machine has not what it takes.
fn is_skipped(row: &Value) -> bool {
    row["unit"] == "not measured"
        && row["note"].as_str().is_some_and(|why| why.contains("are skipped: "))
}

/// Rows on a mount at rest stand beside those of other benchmarks.
fn is_of_rest(row: &Value) -> bool {
    row["unit"] == "B" || row["unit"] == "wake-ups"
}

#[test]
fn a_tiny_run_measures_every_row_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let (temporary, output) =
        (directory.path().join("tmp"), directory.path().join("new/results.json"));
    std::fs::create_dir(&temporary).unwrap();
    // A program that happens to lie beside the benchmarks may be an old one.
    let program = std::env::var("TERRACE_BIN").unwrap_or_else(|_| {
        eprintln!("TERRACE_BIN names no program: rows on messages of its mounts are skipped");
        "missing".to_owned()
    });
    let arguments = ["--quick", "--terrace", &program, "--before", &program];
    let (process, run) = run(&arguments, &temporary, &output);
    let (printed, told) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{told}");

    let rows: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(&output).unwrap()).unwrap();
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let number = |key: &str| row[key].as_f64();
        if is_disturbed(row) || is_skipped(row) {
            continue;
        }
        // Nobody need wake up.
        let least = if row["unit"] == "wake-ups" { 0.0 } else { f64::MIN_POSITIVE };
        assert!(number("ours").is_some_and(|ours| ours >= least), "{row}");
        assert_eq!(row["baseline"].is_null(), row["ratio"].is_null(), "{row}");
        if let (Some(baseline), Some(ratio)) = (number("baseline"), number("ratio")) {
            assert!(baseline > 0.0 && ratio > 0.0, "{row}");
        }
        let ratio = number("ratio");
        let is_met = |reach: f64| {
            ratio >= Some(reach) && number("at_most").is_none_or(|most| ratio <= Some(most))
        };
        assert_eq!(row["met"].as_bool(), number("reach").map(is_met), "{row}");
        match row["unit"].as_str().unwrap() {
            "op/s" | "MiB/s" | "entries/s/core" => assert!(name.contains(" vs "), "{name}"),
            // Each byte that a program writes is stored at least once.
            "B/op" => assert!(number("ours") >= number("baseline"), "{row}"),
            "B" | "B/B" | "ms" | "µs" | "ns" | "share" | "wake-ups" => {}
            unit => panic!("{name}: {unit}"),
        }
        // What touches a disk says how fast that was.
        let loads = ["mount: fileserver", "mount: web", "mount: varmail"];
        let marks = ["on disk", "RocksDB fillseq", "small PM", "direct: "];
        let trees = ["mount: untar", "mount: rm", "mount: cp", "mount: git", "mount: build"];
        // Of direct programs, these are beside others in memory, or beside themselves.
        let in_memory = [
            "direct: untar",
            "direct: git",
            "direct: build",
            "two threads",
            "of a file of no mount",
            "the first 1,000 overwrites",
            "what terrace run adds",
            "p99 of open + read",
        ];
        let on_disk = marks.iter().chain(&trees).chain(&loads).any(|mark| name.contains(mark))
            && !in_memory.iter().any(|mark| name.contains(mark));
        assert_eq!(number("fdatasync_us").is_some_and(|us| us > 0.0), on_disk, "{row}");
        assert_eq!(row["cell"].is_null(), !name.starts_with("message: ") || is_of_rest(row));
        let shown = match &row["cell"] {
            Value::Null => name.to_owned(),
            cell => ["operation", "server"].map(|key| cell[key].as_str().unwrap()).join(", "),
        };
        assert!(printed.contains(&shown), "{name} is missing:\n{printed}");
    }

    let row = |name: &str| rows.iter().find(|row| row["name"] == name);
    let kinds = [
        ("engine: 4 KiB durable overwrite vs tmpfs", "skipped"),
        ("engine: 128-byte durable append, bytes stored to PM vs bytes written", "skipped"),
        ("engine: 4 KiB random read, two threads, one file vs one thread", "skipped"),
        ("engine: lookup in a directory of 1 million files vs of 10", "skipped"),
        ("engine: 4 KiB read in a file of 100 GiB vs in files of 1 MiB", "skipped"),
        ("engine: policy in a 4 KiB durable append vs 5 % of it", "skipped"),
        ("mount: after a clean unmount, 1 million files vs 1 s", "skipped"),
        (
            "recovery: 1 million files, 10 million write entries, rate vs 1 million/s/core",
            "skipped",
        ),
        ("DRAM: a file of one contiguous extent, 16 MiB vs 4 KiB", "skipped"),
        ("mount: fsync after a 4 KiB write vs do-nothing FUSE", "rows on mounts are skipped"),
        (
            "mount: sequential read of a file on disk, cold vs the slower of those",
            "rows on loop devices are skipped",
        ),
        (
            "mount -o durable: 4 KiB write + fsync vs without -o durable",
            "rows on mounts are skipped",
        ),
        ("mount, small PM: varmail vs do-nothing FUSE", "are skipped"),
        (
            "engine, small PM: log and tables of a store, keys in order vs PM with room for all",
            "are skipped",
        ),
        ("mount: webserver vs ext4", "are skipped"),
        ("mount: varmail vs do-nothing FUSE", "are skipped"),
        ("mount: 64 KiB random reads of a file on disk, 32 at a time vs ext4", "are skipped"),
        ("message: 4 KiB write, do-nothing on /dev/fuse vs floor", "rows on mounts are skipped"),
        ("message: SQLite, 3,000 commits, WAL, Terrace on /dev/fuse", "are skipped"),
        ("message: create, Terrace over io_uring vs do-nothing", "are skipped"),
        ("mount: untar vs ext4", "are skipped"),
        ("mount: build vs ext4", "are skipped"),
        ("prediction: SQLite, transactions vs always right", "rows on mounts are skipped"),
        ("mount: RocksDB fillseq, sync vs XFS, log in memory", "are skipped"),
        ("direct: 4 KiB random read vs tmpfs", "are skipped"),
        ("direct: 4 KiB overwrite + fdatasync vs the engine in process", "are skipped"),
        ("direct: 4 KiB overwrite + fdatasync, two threads, one file vs one thread", "are skipped"),
        ("direct: the first 1,000 overwrites of a process vs the next 1,000", "are skipped"),
        ("direct: p99 of open + read of a file of a stopped program vs 50 ms", "are skipped"),
        ("direct: MariaDB commit vs the mount", "are skipped"),
        ("direct: varmail vs ext4 data=journal, journal in memory", "are skipped"),
        ("direct: build vs the mount", "are skipped"),
        ("direct: SQLite commit, DELETE vs ext4 data=journal, journal in memory", "are skipped"),
    ];
    for (name, reason) in kinds {
        assert!(row(name).is_some() || told.contains(reason), "{name} is missing:\n{told}");
    }
    if let Some(cold) = row("mount: 4 KiB read, cold vs do-nothing FUSE") {
        assert!(is_disturbed(cold) || cold["note"] == "1.00 messages", "{cold}");
        assert_eq!(row("mount: stat, cached vs tmpfs").unwrap()["note"], "0.00 messages");
    }
    for fact in ["CPU  ", "kernel  ", "PM        emulated, flushed with ", "date  ", "command  "] {
        assert!(printed.contains(fact), "{fact}:\n{printed}");
    }

    assert_nothing_is_left(process, &temporary);
}

#[test]
fn an_interrupted_run_leaves_nothing_either() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("results.json");
    // It would take a minute if the signal were lost.
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace-bench"))
        .args([
            "--rounds",
            "1",
            "--seconds",
            "60",
            "--size",
            "16M",
            "--filter",
            "mount: 4 KiB write vs do-nothing",
        ])
        .arg("--output")
        .arg(&output)
        .env("TMPDIR", directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("running terrace-bench");
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // Its first benchmark has begun, or there will be none.
    told.read_line(&mut line).unwrap();
    // SAFETY: kill takes two numbers; the child has not been waited for, so the number is still its
    // own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    told.read_to_string(&mut line).unwrap();
    let status = child.wait().unwrap();
    if !line.contains("rows on mounts are skipped: ") {
        assert_eq!(status.code(), Some(130), "{line}");
        assert!(!output.exists());
    }
    assert_nothing_is_left(child.id(), directory.path());
}

#[test]
fn a_filter_that_selects_nothing_lists_what_there_is() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("results.json");
    let (_, run) = run(&["--filter", "no such row"], directory.path(), &output);
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1));
    assert!(told.contains("engine: 4 KiB random read vs tmpfs"), "{told}");
    assert!(!output.exists());
}
