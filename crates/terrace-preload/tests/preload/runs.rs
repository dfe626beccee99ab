//! Builds the library with its backend for tests, and programs in C, and runs them with it and
//! without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, built with the backend that maps files of tmpfs.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // A target directory of its own: the feature is in no other build.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mapped");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "terrace-preload", "--features", "mapped"])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the library does not build with --features mapped");
        target.join("debug/libterrace_preload.so")
    })
}

/// A directory on tmpfs, gone when it is dropped.
pub fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("terrace-preload-").tempdir_in("/dev/shm").unwrap()
}

/// Whether a program is there. A test that lacks it says so and passes.
pub fn have(program: &str) -> bool {
    let there = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    });
    if !there {
        eprintln!("skipped: there is no {program}");
    }
    there
}

/// Compiles a program of `tests/programs`. `None` if there is no compiler.
pub fn program(name: &str) -> Option<PathBuf> {
    if !have("cc") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    // Tests run side by side, each with its own copy.
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    let id = std::process::id();
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{id}-{number}"));
    let built = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .args([&binary, &source])
        .status()
        .expect("cc runs");
    assert!(built.success(), "{} does not compile", source.display());
    Some(binary)
}

/// What a run has left.
#[derive(Debug)]
pub struct Run {
    pub output: Output,
    /// The library's report.
    pub report: String,
}

impl Run {
    /// How many calls went direct, in all files.
    pub fn direct(&self) -> u64 {
        self.report
            .lines()
            .filter(|line| line.contains(" direct"))
            .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .sum()
    }

    pub fn text(&self) -> String {
        format!(
            "{}{}{:?}",
            String::from_utf8_lossy(&self.output.stdout),
            String::from_utf8_lossy(&self.output.stderr),
            self.output.status
        )
    }
}

/// Runs a command within half a minute: plain, or with the library.
pub fn run(command: &[&str], direct: bool, variables: &[(&str, &str)], inside: &Path) -> Run {
    let report = inside.join("report");
    let _ = fs::remove_file(&report);
    let mut timed = Command::new("timeout");
    timed.args(["--kill-after=1", "30"]);
    if direct {
        timed.arg("env").arg(format!("LD_PRELOAD={}", library().display()));
        timed.arg(format!("TERRACE_REPORT={}", report.display()));
        timed.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
    }
    let output = timed.args(command).current_dir(inside).output().expect("timeout runs");
    Run { output, report: fs::read_to_string(&report).unwrap_or_default() }
}

/// Runs a program of `tests/programs` both ways, and wants the same from both. The last argument
/// is a file of its own. Gives the run with the library.
pub fn same(name: &str, args: &[&str], variables: &[(&str, &str)]) -> Option<Run> {
    let binary = program(name)?;
    let directory = directory();
    let file = directory.path().join("file");
    let mut command = vec![binary.to_str()?];
    command.extend(args);
    command.push(file.to_str()?);
    let plain = run(&command, false, &[], directory.path());
    let _ = fs::remove_file(&file);
    let direct = run(&command, true, variables, directory.path());
    let _ = fs::remove_file(&binary);
    if let Some(line) = plain.text().lines().zip(direct.text().lines()).position(|(a, b)| a != b) {
        let near = |run: &Run| {
            let text = run.text();
            let lines: Vec<&str> = text.lines().skip(line.saturating_sub(6)).take(10).collect();
            lines.join("\n")
        };
        panic!(
            "{name} {args:?} {variables:?}: line {line} differs\nplain:\n{}\ndirect:\n{}\n{}",
            near(&plain),
            near(&direct),
            direct.report
        );
    }
    assert_eq!(plain.text(), direct.text(), "{name} {args:?}");
    Some(direct)
}
