//! One tiny run of everything: the shape of the results, and that nothing is left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the benchmarks with a directory for temporary files; returns the process's number and what it printed.
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

/// Asserts that a process which has ended left neither files in memory nor temporary files nor mounts.
fn assert_nothing_is_left(process: u32, temporary: &Path) {
    let prefix = format!("terrace-bench-{process}-");
    for directory in [Path::new("/dev/shm"), temporary] {
        let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(&prefix)).collect();
        assert!(left.is_empty(), "{}: {left:?}", directory.display());
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&prefix), "{mounts}");
}

#[test]
fn a_tiny_run_measures_every_row_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let (temporary, output) = (directory.path().join("tmp"), directory.path().join("new/results.json"));
    std::fs::create_dir(&temporary).unwrap();
    let (process, run) = run(&["--rounds", "1", "--seconds", "0.02", "--size", "16M"], &temporary, &output);
    let (printed, told) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{told}");

    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&output).unwrap()).unwrap();
    let mounts_skipped = told.contains("rows on mounts are skipped: ");
    assert_eq!(rows.len(), if mounts_skipped { 6 } else { 6 + 2 * 9 }, "{printed}");
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        for number in ["baseline", "ours", "ratio"] {
            assert!(row[number].as_f64().unwrap() > 0.0, "{name}: {number}");
        }
        assert!(row["reach"].is_null() && row["met"].is_null(), "{name}");
        match row["unit"].as_str().unwrap() {
            "op/s" => assert!(name.contains(" vs "), "{name}"),
            // Whatever a program writes is stored at least once.
            "B/op" => assert!(row["ours"].as_f64() >= row["baseline"].as_f64(), "{row}"),
            unit => panic!("{name}: {unit}"),
        }
        assert!(printed.contains(name), "{name} is missing:\n{printed}");
    }
    let messages = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["note"].clone());
    if !mounts_skipped {
        assert_eq!(messages("mount: 4 KiB read, cold vs do-nothing FUSE").unwrap(), "1.00 messages");
        assert_eq!(messages("mount: stat, cached vs tmpfs").unwrap(), "0.00 messages");
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
        .args(["--rounds", "1", "--seconds", "60", "--size", "16M", "--filter", "mount: 4 KiB pwrite vs do-nothing"])
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
    // SAFETY: kill takes two numbers; the child has not been waited for, so the number is still its own.
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
