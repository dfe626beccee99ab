//! `terrace run`. A library that does nothing stands for the real one, whose own tests say what it
//! does.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ran, TERRACE, has};

/// A directory with the command and a library beside it. `None`: there is no C compiler.
fn installed() -> Option<tempfile::TempDir> {
    if !has("cc") {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::copy(TERRACE, directory.path().join("terrace")).unwrap();
    compile(directory.path(), "int terrace_nothing;", "libterrace_preload.so", &["-shared"]);
    Some(directory)
}

fn compile(directory: &Path, source: &str, name: &str, options: &[&str]) -> PathBuf {
    let (file, to) = (directory.join("source.c"), directory.join(name));
    fs::write(&file, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(options).args(["-fPIC", "-o"]).args([&to, &file]);
    Ran::of(&mut cc).ok();
    to
}

fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(directory.join("terrace"));
    command.arg("run").args(args).env_remove("LD_PRELOAD").current_dir(directory);
    command
}

#[test]
fn the_program_finds_the_library_and_what_it_is_told() {
    let Some(directory) = installed() else { return };
    let show = "echo \"$LD_PRELOAD|$TERRACE_DIRECT|$TERRACE_DIRECT_NOT|$TERRACE_REPORT\"";
    let library = directory.path().canonicalize().unwrap().join("libterrace_preload.so");
    let library = library.display();
    let show = |args: &[&str]| {
        Ran::of(
            command(directory.path(), &[args, &["--", "sh", "-c", show]].concat()).env("A", "b"),
        )
        .ok()
    };
    assert_eq!(show(&[]), format!("{library}|||\n"));
    let patterns = ["--direct", "*.db", "--direct", "/a/?", "--not", "x*", "--report"];
    assert_eq!(show(&patterns), format!("{library}|*.db:/a/?|x*|1\n"));
    let file = directory.path().canonicalize().unwrap().join("report");
    assert_eq!(show(&["--report=report"]), format!("{library}|||{}\n", file.display()));
    let others = Ran::of(
        command(directory.path(), &["sh", "-c", "echo $LD_PRELOAD"]).env("LD_PRELOAD", "libc.so.6"),
    );
    assert_eq!(others.ok(), format!("{library}:libc.so.6\n"));
}

#[test]
fn a_packaged_library_is_found() {
    let Some(directory) = installed() else { return };
    let (bin, lib) = (directory.path().join("bin"), directory.path().join("lib/terrace"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::rename(directory.path().join("terrace"), bin.join("terrace")).unwrap();
    Ran::of(&mut command(&bin, &["true"])).fails(1, &["library is missing", "install it again"]);
    let name = "libterrace_preload.so";
    fs::rename(directory.path().join(name), lib.join(name)).unwrap();
    let shown = Ran::of(&mut command(&bin, &["sh", "-c", "echo $LD_PRELOAD"])).ok();
    assert_eq!(shown, format!("{}\n", lib.canonicalize().unwrap().join(name).display()));
}

#[test]
fn status_signals_and_process_are_the_programs() {
    let Some(directory) = installed() else { return };
    let ran = Ran::of(&mut command(directory.path(), &["--", "sh", "-c", "exit 42"]));
    assert_eq!(ran.code, Some(42));
    let status = command(directory.path(), &["sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    let mut child = command(directory.path(), &["sh", "-c", "echo $$"]);
    let child = child.stdout(Stdio::piped()).spawn().unwrap();
    let (id, output) = (child.id(), child.wait_with_output().unwrap());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{id}\n"));
}

#[test]
fn a_program_that_does_not_run_is_told_as_by_a_shell() {
    let Some(directory) = installed() else { return };
    Ran::of(&mut command(directory.path(), &["no-such-program"]))
        .fails(127, &["no-such-program", "no such program"]);
    fs::write(directory.path().join("plain"), "text").unwrap();
    Ran::of(&mut command(directory.path(), &["./plain"])).fails(126, &["./plain", "cannot be run"]);
    Ran::of(&mut command(directory.path(), &[])).fails(2, &["PROGRAM"]);
    Ran::of(&mut command(directory.path(), &["--direct", "a:b", "true"])).fails(2, &["colon"]);
}

#[test]
fn a_program_that_takes_no_library_is_named_and_runs() {
    let Some(directory) = installed() else { return };
    let place = directory.path();
    let source = "int main(void) { return 7; }";
    compile(place, source, "static", &["-static"]);
    compile(place, source, "pie", &["-static-pie"]);
    compile(place, source, "usual", &[]);
    let script = place.join("script");
    fs::write(&script, format!("#!{}\n", place.join("static").display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, told) in [("static", true), ("pie", true), ("script", true), ("usual", false)] {
        let ran = Ran::of(&mut command(place, &[&format!("./{name}")]));
        assert_eq!(ran.code, Some(7), "{name}: {ran:?}");
        assert_eq!(ran.stderr.contains("statically linked"), told, "{name}: {ran:?}");
    }
    let quiet = Ran::of(&mut command(place, &["--quiet", "./static"]));
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(7), ""));
}
