//! Names, links and directories.

use super::{must_fail, open, rivals};
use anyhow::{Context, Result, ensure};
use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags, linkat, renameat_with};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use terrace_proof::{VolumeSpec, proof, run};

/// **P-19** A name is up to 255 bytes long, any but `/` and NUL, and kept as it is: case matters
/// and nothing is normalized. A longer name fails with ENAMETOOLONG.
#[test]
fn any_bytes_are_names() {
    proof(|| {
        let mut volume = VolumeSpec::new("names").mount()?;
        let mut names: Vec<Vec<u8>> =
            vec![b"a".into(), b"A".into(), "é".into(), "e\u{301}".into(), vec![b'n'; 255]];
        names.extend((1..=255).filter(|b| !b"./aA".contains(b)).map(|b| vec![b]));
        names.push((1..=255).filter(|b| *b != b'/').collect());
        for name in &names {
            std::fs::write(volume.root().join(std::ffi::OsStr::from_bytes(name)), name)?;
        }
        volume.check()?;
        let mut listed = 0;
        for entry in std::fs::read_dir(volume.root())? {
            let entry = entry?;
            ensure!(std::fs::read(entry.path())? == entry.file_name().as_bytes(), "{entry:?}");
            listed += 1;
        }
        ensure!(listed == names.len(), "{listed} names of {}", names.len());
        let long = volume.join(&"n".repeat(256));
        must_fail(File::create(&long), libc::ENAMETOOLONG)?;
        must_fail(std::fs::metadata(&long), libc::ENAMETOOLONG)?;
        must_fail(std::fs::create_dir(&long), libc::ENAMETOOLONG)?;
        must_fail(std::fs::rename(volume.join("a"), &long), libc::ENAMETOOLONG)
    });
}

/// **P-20** The target of a symbolic link is up to 4095 bytes long.
#[test]
fn long_symlinks() {
    proof(|| {
        let mut volume = VolumeSpec::new("symlink").mount()?;
        for len in [1, 100, 3000, 4095] {
            symlink("t".repeat(len), volume.join(&len.to_string()))?;
        }
        must_fail(symlink("t".repeat(4096), volume.join("4096")), libc::ENAMETOOLONG)?;
        volume.check()?;
        for len in [1, 100, 3000, 4095] {
            ensure!(std::fs::read_link(volume.join(&len.to_string()))?.as_os_str().len() == len);
            ensure!(std::fs::symlink_metadata(volume.join(&len.to_string()))?.len() == len as u64);
        }
        Ok(())
    });
}

/// **P-21** A directory holds as many names as there is room for. A listing returns each name that
/// is there all the time exactly once, whatever else comes and goes meanwhile, also if it is given
/// to another file by a rename. A listing ends, even if each name that it returns is changed at
/// once.
#[test]
fn listing_while_names_change() {
    const LASTING: usize = 20_000;
    proof(|| {
        let mut volume = VolumeSpec::new("listing").mount()?;
        for number in 0..LASTING {
            File::create(volume.join(&format!("lasting-{number}")))?;
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            let changer = scope.spawn(|| -> Result<()> {
                let mut number = 0u64;
                while !done.load(Ordering::Relaxed) {
                    File::create(volume.join("newer"))?;
                    std::fs::rename(
                        volume.join("newer"),
                        volume.join(&format!("lasting-{}", number % 100)),
                    )?;
                    let path = volume.join(&format!("passing-{}", number % 500));
                    if std::fs::remove_file(&path).is_err() {
                        File::create(&path)?;
                    }
                    number += 7;
                }
                Ok(())
            });
            let listings = (0..5).try_for_each(|_| each_exactly_once(volume.root(), LASTING));
            done.store(true, Ordering::Relaxed);
            changer.join().map_err(|_| anyhow::anyhow!("the changer panicked"))??;
            listings
        })?;
        volume.check()?;
        each_exactly_once(volume.root(), LASTING)?;
        let mut renamed = 0;
        for entry in std::fs::read_dir(volume.root())? {
            let old = entry?.path();
            std::fs::rename(&old, old.with_extension("renamed"))?;
            renamed += 1;
            ensure!(renamed < 2 * LASTING, "a listing returns what was renamed since it began");
        }
        Ok(())
    });
}

fn each_exactly_once(dir: &std::path::Path, lasting: usize) -> Result<()> {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name.as_bytes().starts_with(b"lasting-") {
            *counts.entry(name.as_bytes().to_vec()).or_default() += 1;
        }
    }
    ensure!(counts.len() == lasting, "{} of {lasting} names were listed", counts.len());
    ensure!(counts.values().all(|n| *n == 1), "a name was listed twice");
    Ok(())
}

/// **P-44** If some names of a directory lead to inodes that cannot be read, the others are listed,
/// and the listing ends with EIO: nobody takes it for all that there is.
#[test]
fn listing_with_an_unreadable_inode() {
    proof(|| {
        let mut volume = VolumeSpec::new("unreadable").mount()?;
        for name in ["a", "damaged", "z"] {
            std::fs::write(volume.join(name), name)?;
        }
        let ino = std::fs::metadata(volume.join("damaged"))?.ino();
        volume.unmount()?;
        let dump =
            run(volume.terrace("dump")?.arg("inode").arg(ino.to_string()).arg(volume.pm_path()))?;
        let record_at = dump
            .split_once("at byte ")
            .and_then(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok());
        let record_at = record_at.with_context(|| format!("where is the record? {dump}"))?;
        File::options()
            .write(true)
            .open(volume.pm_path())?
            .write_all_at(b"damage", record_at + 8)?;
        volume.remount()?;
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(volume.root())? {
            match entry {
                Ok(entry) => names.push(entry.file_name()),
                Err(error) => errors.push(error.raw_os_error()),
            }
        }
        names.sort();
        ensure!(names == ["a", "z"] && errors == [Some(libc::EIO)], "{names:?}, {errors:?}");
        must_fail(std::fs::read(volume.join("damaged")), libc::EIO)?;
        ensure!(std::fs::read(volume.join("z"))? == b"z");
        volume.unmount()
    });
}

/// **P-22** A file may have 65,000 hard links; one more fails with EMLINK.
#[test]
fn many_hard_links() {
    const LINKS: u64 = 65_000;
    proof(|| {
        let mut volume = VolumeSpec::new("links").mount()?;
        let original = volume.join("original");
        std::fs::write(&original, "content")?;
        for number in 1..LINKS {
            std::fs::hard_link(&original, volume.join(&format!("link-{number}")))?;
        }
        must_fail(std::fs::hard_link(&original, volume.join("one-more")), libc::EMLINK)?;
        volume.check()?;
        ensure!(std::fs::metadata(volume.join("link-1"))?.nlink() == LINKS);
        Ok(())
    });
}

/// **P-23** A file keeps its inode number as long as it exists, across mounts, too.
#[test]
fn inode_numbers_last() {
    proof(|| {
        let mut volume = VolumeSpec::new("inodes").mount()?;
        let mut numbers = Vec::new();
        for number in 0..500 {
            std::fs::write(volume.join(&format!("f{number}")), "")?;
            numbers.push(std::fs::metadata(volume.join(&format!("f{number}")))?.ino());
        }
        std::fs::rename(volume.join("f7"), volume.join("renamed"))?;
        volume.check()?;
        for (number, ino) in numbers.iter().enumerate() {
            let name = if number == 7 { "renamed".to_owned() } else { format!("f{number}") };
            ensure!(
                std::fs::metadata(volume.join(&name))?.ino() == *ino,
                "{name} has another inode number"
            );
        }
        numbers.sort_unstable();
        numbers.dedup();
        ensure!(numbers.len() == 500, "two files share an inode number");
        Ok(())
    });
}

/// **P-24** Of several rivals, open(2) with O_CREAT and O_EXCL, mkdir(2), link(2) and rename with
/// RENAME_NOREPLACE succeed for exactly one; the others get EEXIST.
#[test]
fn one_rival_wins() {
    proof(|| {
        let volume = VolumeSpec::new("rivals").mount()?;
        let join = |name: String| volume.join(&name);
        for rival in 0..4 {
            for round in 0..100 {
                std::fs::write(join(format!("source-{rival}-{round}")), "")?;
            }
        }
        for round in 0..100 {
            let attempts: [&(dyn Fn(usize) -> std::io::Result<()> + Sync); 4] = [
                &|_| File::create_new(join(format!("created-{round}"))).map(drop),
                &|_| std::fs::create_dir(join(format!("dir-{round}"))),
                &|rival| {
                    std::fs::hard_link(
                        join(format!("source-{rival}-{round}")),
                        join(format!("link-{round}")),
                    )
                },
                &|rival| {
                    let (from, to) =
                        (join(format!("source-{rival}-{round}")), join(format!("renamed-{round}")));
                    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
                },
            ];
            for (kind, attempt) in attempts.iter().enumerate() {
                let results = rivals(4, attempt)?;
                let winners = results.iter().filter(|r| r.is_ok()).count();
                ensure!(winners == 1, "round {round}, kind {kind}: {winners} winners");
                for result in results.into_iter().filter(|r| r.is_err()) {
                    must_fail(result, libc::EEXIST)?;
                }
            }
        }
        Ok(())
    });
}

/// **P-34** O_TMPFILE makes a file without a name; it is gone after its last close. linkat(2) gives
/// it a name, unless it was opened with O_EXCL: then it fails with ENOENT.
#[test]
fn files_without_names() {
    proof(|| {
        let mut volume = VolumeSpec::new("tmpfile").mount()?;
        let dir = volume.join("dir");
        std::fs::create_dir(&dir)?;
        let root = volume.root().to_owned();
        let unnamed = |flags: OFlags| open(&dir, OFlags::TMPFILE | OFlags::RDWR | flags);
        let name = |file: &File, name: &str| {
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, open.as_str(), CWD, root.join(name), AtFlags::SYMLINK_FOLLOW)
        };
        let (kept, gone, exclusive) =
            (unnamed(OFlags::empty())?, unnamed(OFlags::empty())?, unnamed(OFlags::EXCL)?);
        for (file, byte) in [(&kept, b'k'), (&gone, b'g'), (&exclusive, b'e')] {
            file.write_all_at(&[byte; 100_000], 0)?;
            ensure!(file.metadata()?.nlink() == 0);
        }
        ensure!(std::fs::read_dir(&dir)?.count() == 0, "none has a name");
        name(&kept, "kept")?;
        must_fail(name(&exclusive, "exclusive"), libc::ENOENT)?;
        must_fail(name(&gone, "kept"), libc::EEXIST)?;
        name(&kept, "again")?;
        ensure!(kept.metadata()?.nlink() == 2);
        let mut bytes = [0; 100_000];
        gone.read_exact_at(&mut bytes, 0)?;
        ensure!(bytes == [b'g'; 100_000], "it is usable as long as it is open");
        drop((kept, gone, exclusive));
        volume.check()?;
        ensure!(std::fs::read(volume.join("kept"))? == vec![b'k'; 100_000]);
        ensure!(std::fs::metadata(volume.join("again"))?.nlink() == 2);
        // One whose only name goes while it is open, and which therefore may not get another one.
        let file = unnamed(OFlags::empty())?;
        name(&file, "soon-gone")?;
        std::fs::remove_file(volume.join("soon-gone"))?;
        must_fail(name(&file, "late"), libc::ENOENT)
    });
}

/// **P-25** renameat2(2) knows RENAME_NOREPLACE, RENAME_EXCHANGE and RENAME_WHITEOUT.
#[test]
fn rename_flags() {
    proof(|| {
        let mut volume = VolumeSpec::new("rename-flags").mount()?;
        std::fs::write(volume.join("file"), "file")?;
        std::fs::create_dir(volume.join("dir"))?;
        std::fs::write(volume.join("dir/inside"), "inside")?;
        let rename = |from: &str, to: &str, flags| {
            renameat_with(CWD, volume.join(from), CWD, volume.join(to), flags)
        };
        must_fail(rename("file", "dir", RenameFlags::NOREPLACE), libc::EEXIST)?;
        must_fail(rename("file", "absent", RenameFlags::EXCHANGE), libc::ENOENT)?;
        must_fail(rename("dir", "dir/inside", RenameFlags::EXCHANGE), libc::EINVAL)?;
        rename("file", "dir", RenameFlags::EXCHANGE)?;
        ensure!(
            std::fs::read(volume.join("dir"))? == b"file" && volume.join("file/inside").exists()
        );
        if rustix::process::geteuid().is_root() {
            rename("dir", "moved", RenameFlags::WHITEOUT)?;
        } else {
            rename("dir", "moved", RenameFlags::NOREPLACE)?;
        }
        volume.check()?;
        ensure!(std::fs::read(volume.join("moved"))? == b"file");
        if rustix::process::geteuid().is_root() {
            let whiteout = std::fs::symlink_metadata(volume.join("dir"))?;
            ensure!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0, "{whiteout:?}");
        }
        Ok(())
    });
}
