//! Processes that fork. Each test has a process of its own, which begins with one thread.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use terrace_direct::File;

type Test = (&'static str, fn());

const TESTS: [Test; 3] = [
    ("children_go_on_with_a_file", children_go_on_with_a_file),
    ("forks_amid_calls_end", forks_amid_calls_end),
    ("a_child_that_nobody_notices_is_refused", a_child_that_nobody_notices_is_refused),
];

/// The exit status of a child that panicked.
const PANICKED: i32 = 99;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let status = in_child(|| {
            test();
            0
        });
        println!("test {name} ... {}", if status == 0 { "ok" } else { "FAILED" });
        *(if status == 0 { &mut passed } else { &mut failed }) += 1;
    }
    println!("\ntest result: {passed} passed; {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A directory in memory.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Runs `child` in a child, which has this thread alone, and returns its exit status.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls what it may behind a fork of a process with threads: files that take
    // no locks.
    match unsafe { libc::fork() } {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(child));
            // SAFETY: it ends this process.
            unsafe { libc::_exit(status.unwrap_or(PANICKED)) }
        }
        process => status_of(process),
    }
}

/// Waits for a child's end. `PANICKED`: a signal killed it.
fn status_of(process: libc::pid_t) -> i32 {
    assert!(process > 0, "fork");
    let mut status = 0;
    // SAFETY: `status` lives during the call.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { PANICKED }
}

fn children_go_on_with_a_file() {
    let directory = directory();
    let path = directory.path().join("file");
    let file = File::create(&path).unwrap();
    assert_eq!(file.append(b"parent").unwrap(), 0);
    let status = in_child(|| {
        let mine = File::create(&path).unwrap();
        let grandchild = in_child(|| {
            assert_eq!((file.append(b"1").unwrap(), mine.append(b"2").unwrap()), (6, 7));
            0
        });
        assert_eq!(grandchild, 0);
        assert_eq!((file.append(b"3").unwrap(), mine.append(b"4").unwrap()), (8, 9));
        mine.close().unwrap();
        drop(file);
        7
    });
    assert_eq!(status, 7);
    assert_eq!(fs::read(&path).unwrap(), b"parent1234");
}

/// Forks while threads open, use and close files: no child, and no thread, waits for ever.
fn forks_amid_calls_end() {
    let directory = directory();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (path, is_over) = (directory.path().join(format!("file-{number}")), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let file = File::create(&path).unwrap();
                    file.append(b"abc").unwrap();
                    file.sync().unwrap();
                }
            });
        }
        let file = File::create(directory.path().join("file")).unwrap();
        for round in 0..100 {
            let status = in_child(|| {
                let mine = File::create(directory.path().join("file")).unwrap();
                let at = [file.append(b"a").unwrap(), mine.append(b"b").unwrap()];
                i32::from(at == [2 * round, 2 * round + 1])
            });
            assert_eq!(status, 1, "round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A child of a bare system call has no right to its parent's files, and can open its own. It may
/// allocate memory: its parent had no other thread that could have held the allocator's locks.
fn a_child_that_nobody_notices_is_refused() {
    let directory = directory();
    let file = File::create(directory.path().join("file")).unwrap();
    // SAFETY: as a fork.
    let process = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if process == 0 {
        let is_refused = file.append(b"a").is_err_and(|error| error.errno() == libc::EBADF);
        let own = File::create(directory.path().join("own"));
        let is_own = own.is_ok_and(|own| own.append(b"abc").is_ok_and(|at| at == 0));
        // SAFETY: it ends this process.
        unsafe { libc::_exit(i32::from(is_refused) + 2 * i32::from(is_own)) };
    }
    assert_eq!(status_of(process as libc::pid_t), 3);
    assert_eq!(file.append(b"a").unwrap(), 0);
}
