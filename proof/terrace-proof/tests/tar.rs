//! tar: a tree with everything a file system can hold, archived, extracted and compared.

use anyhow::{Result, ensure};
use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, mknodat, utimensat};
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use terrace_proof::{
    MIB, Rng, Scratch, Tree, TreeScope, VolumeSpec, check_holes, proof, run, tool,
};

const EVERYTHING: TreeScope = TreeScope { all_times: true, xattrs: true };

/// A tree of the file types that tar keeps (not sockets), hard links, long names, odd modes,
/// owners, times before 1970 and after 2038, extended attributes and sparse files, and many
/// ordinary files.
fn build_tree(root: &Path, files: u64) -> Result<()> {
    let mut rng = Rng::new(5);
    for number in 0..files {
        let dir = root.join(format!("plain/{}/{}", number % 11, number % 7));
        std::fs::create_dir_all(&dir)?;
        let magnitude = rng.below(17);
        let len = rng.below(1 << magnitude) as usize;
        std::fs::write(dir.join(format!("file-{number}")), rng.bytes(len))?;
    }
    odd_names(root)?;
    links_and_special_files(root)?;
    sparse_files(root)?;
    modes_owners_xattrs(root)?;
    times(root)
}

fn odd_names(root: &Path) -> Result<()> {
    let odd = root.join("odd");
    std::fs::create_dir(&odd)?;
    for name in [
        "x".repeat(255),
        "ü".repeat(127),
        " ".into(),
        "-rf".into(),
        "new\nline".into(),
        "\u{1}".into(),
    ] {
        std::fs::write(odd.join(&name), &name)?;
    }
    let mut deep = root.join("deep");
    for level in 0..40 {
        deep.push(format!("{level:0>60}"));
    }
    std::fs::create_dir_all(&deep)?;
    std::fs::write(deep.join("bottom"), "reached")?;
    Ok(())
}

fn links_and_special_files(root: &Path) -> Result<()> {
    let dir = root.join("links");
    std::fs::create_dir(&dir)?;
    std::fs::write(dir.join("original"), "one inode, many names")?;
    for number in 0..50 {
        std::fs::hard_link(dir.join("original"), dir.join(format!("name-{number}")))?;
    }
    symlink("original", dir.join("relative"))?;
    symlink("/nowhere/at/all", dir.join("dangling"))?;
    symlink("t".repeat(4000), dir.join("long"))?;
    let make = |name: &str, kind, device| {
        mknodat(CWD, dir.join(name), kind, Mode::from_raw_mode(0o640), device)
    };
    make("fifo", FileType::Fifo, 0)?;
    make("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3))?;
    make("loop", FileType::BlockDevice, rustix::fs::makedev(7, 300))?;
    Ok(())
}

fn sparse_files(root: &Path) -> Result<()> {
    let dir = root.join("sparse");
    std::fs::create_dir(&dir)?;
    File::create(dir.join("only-a-hole"))?.set_len(100 * MIB)?;
    let islands = File::create(dir.join("islands"))?;
    for offset in [4096, 3 * MIB + 17, 64 * MIB - 1] {
        islands.write_all_at(b"island", offset)?;
    }
    islands.set_len(80 * MIB)?;
    Ok(())
}

fn modes_owners_xattrs(root: &Path) -> Result<()> {
    let dir = root.join("modes");
    std::fs::create_dir(&dir)?;
    for mode in [0o000, 0o001, 0o444, 0o777, 0o1777, 0o2755, 0o4755, 0o7777] {
        let path = dir.join(format!("mode-{mode:o}"));
        std::fs::write(&path, "")?;
        std::os::unix::fs::chown(&path, Some(mode), Some(70_000 + mode))?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
        rustix::fs::setxattr(
            &path,
            "user.proof",
            format!("{mode:o}").as_bytes(),
            XattrFlags::empty(),
        )?;
        rustix::fs::setxattr(&path, "user.empty", b"", XattrFlags::empty())?;
        rustix::fs::setxattr(&path, "trusted.proof", &[0, 1, 255], XattrFlags::empty())?;
    }
    Ok(())
}

fn times(root: &Path) -> Result<()> {
    let dir = root.join("times");
    std::fs::create_dir(&dir)?;
    for seconds in [-86_400, 0, 1, 1_000_000_000, 4_000_000_000, 9_000_000_000] {
        let path = dir.join(format!("at{seconds}"));
        std::fs::write(&path, "")?;
        let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, &path, &times, rustix::fs::AtFlags::empty())?;
    }
    Ok(())
}

/// Runs tar in `dir`, on all of it when it creates an archive.
fn tar(mode: &[&str], archive: &Path, dir: &Path) -> Result<String> {
    let members = if mode[0] == "--create" { &["."][..] } else { &[] };
    run(Command::new(tool("tar")?)
        .args(mode)
        .args(["--xattrs", "--xattrs-include=*", "--numeric-owner"])
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(dir)
        .args(members))
}

#[test]
fn extracted_tree_is_identical() {
    proof(|| {
        ensure!(
            rustix::process::geteuid().is_root(),
            terrace_proof::skip("owners and devices need root")
        );
        let host = Scratch::new("tar")?;
        let original = host.join("original");
        std::fs::create_dir(&original)?;
        build_tree(&original, 3000)?;
        let archive = host.join("tree.tar");
        // PAX keeps nanoseconds, long names and attributes.
        tar(&["--create", "--format=pax", "--sparse"], &archive, &original)?;

        let mut volume = VolumeSpec::new("tar").pm_mib(32).mount()?;
        let copy = volume.join("copy");
        std::fs::create_dir(&copy)?;
        tar(&["--extract", "--preserve-permissions", "--same-owner"], &archive, &copy)?;
        let expected = Tree::read(&original, EVERYTHING)?;
        ensure!(expected.len() > 3000, "the tree is too small");
        Tree::read(&copy, EVERYTHING)?.must_equal(&expected)?;
        tar(&["--compare"], &archive, &copy)?;
        check_holes(&copy.join("sparse/islands"))?;
        check_holes(&copy.join("sparse/only-a-hole"))?;

        volume.check()?;
        Tree::read(&copy, EVERYTHING)?.must_equal(&expected)?;
        // And back: what the mount shows to tar is the same archive again.
        let second = host.join("second.tar");
        tar(&["--create", "--format=pax", "--sparse"], &second, &copy)?;
        let back = host.join("back");
        std::fs::create_dir(&back)?;
        tar(&["--extract", "--preserve-permissions", "--same-owner"], &second, &back)?;
        Tree::read(&back, EVERYTHING)?.must_equal(&expected)?;
        std::fs::remove_dir_all(&copy)?;
        volume.check()
    });
}
