//! The files that are used most and least: which, where they are, and what they are called.

mod rig;

use std::sync::Arc;

use rig::{DIR, FILE, Rig, a_moment_passes, make, pattern, put};
use terrace_engine::{FormatOptions, Ino, OpenOptions, RankedFile, RenameFlags, Volume, format};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Param;

fn rig(pm_bytes: u64) -> Rig {
    let (pm, disks) = (Pm::anonymous(pm_bytes), vec![memory_disk(16 << 20)]);
    format(&pm, &disks, &FormatOptions { shards: Some(2), ..Default::default() }).unwrap();
    Rig { pm, disks }
}

fn open(rig: &Rig) -> Arc<Volume> {
    let options = OpenOptions { cache_bytes: 4 << 20, workers: false, ..Default::default() };
    Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap()
}

fn paths(files: &[RankedFile]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_deref().unwrap_or("?")).collect()
}

fn bytes(file: &RankedFile) -> Vec<(&str, u64)> {
    file.bytes.iter().map(|(tier, &bytes)| (tier.as_str(), bytes)).collect()
}

#[test]
fn the_hottest_and_the_coldest_have_paths_and_places() {
    let rig = rig(8 << 20);
    let volume = open(&rig);
    // All count as old as they are.
    volume.tune(Param::Siblings, 0).unwrap();
    let dir = make(&volume, Ino::ROOT, "dir", &DIR);
    let files: Vec<Ino> = (0..12).map(|i| make(&volume, dir, &format!("file{i}"), &FILE)).collect();
    for these in [&[0, 3, 4, 5, 6][..], &[1, 2, 7, 8, 9, 10, 11]] {
        these.iter().for_each(|&i| put(&volume, files[i], 0, &pattern(20_000, 1)));
        a_moment_passes();
    }
    volume.move_range(files[2], 1, 0, 8192).unwrap();
    // The second is written last, then the third is read.
    put(&volume, files[1], 0, &pattern(20_000, 2));
    a_moment_passes();
    volume.read(files[2], 0, &mut [0; 20_000]).unwrap();
    let ranking = volume.file_ranking();
    assert_eq!((ranking.hottest.len(), ranking.coldest.len()), (5, 5), "{ranking:?}");
    assert_eq!(paths(&ranking.hottest)[..2], ["/dir/file2", "/dir/file1"]);
    assert_eq!(bytes(&ranking.hottest[0]), [("disk1", 8192), ("pm", 12_288)]);
    assert!(
        ranking.hottest[0].mean_read_age_seconds.is_some()
            && ranking.hottest[1].mean_read_age_seconds.is_none()
    );
    assert_eq!(
        paths(&ranking.coldest),
        ["/dir/file0", "/dir/file3", "/dir/file4", "/dir/file5", "/dir/file6"]
    );
    // New names are found, what is gone is not shown.
    volume.rename(dir, b"file2", Ino::ROOT, b"named\nanew", RenameFlags::default()).unwrap();
    volume.unlink(dir, b"file0").unwrap();
    volume.rename(Ino::ROOT, b"dir", Ino::ROOT, b"moved", RenameFlags::default()).unwrap();
    // With the second question, where the first came to the end of the names.
    volume.file_ranking();
    let ranking = volume.file_ranking();
    assert_eq!(paths(&ranking.hottest)[..2], ["/named\\nanew", "/moved/file1"]);
    assert_eq!(paths(&ranking.coldest)[0], "/moved/file3");
    // A file that nobody has used since the mount is cold, and a pinned one cannot move.
    volume.setxattr(files[3], b"user.terrace.pin", b"pm", Default::default(), None).unwrap();
    volume.close().unwrap();
    drop(volume);
    let ranking = open(&rig).file_ranking();
    assert_eq!(ranking.hottest, []);
    assert_eq!(paths(&ranking.coldest)[..2], ["/moved/file4", "/moved/file5"]);
}

/// More names than a question looks at: each goes on where the last one ended.
#[test]
fn paths_are_found_in_time_however_many_names_there_are() {
    let rig = rig(64 << 20);
    let volume = open(&rig);
    for d in 0..20 {
        let dir = make(&volume, Ino::ROOT, &format!("dir{d}"), &DIR);
        for i in 0..1500 {
            make(&volume, dir, &format!("file{i}"), &FILE);
        }
    }
    let ends: Vec<Ino> = ["dir0", "dir10", "dir19"]
        .map(|dir| rig::find(&volume, &format!("{dir}/file1499")))
        .to_vec();
    for &ino in &ends {
        put(&volume, ino, 0, b"used");
    }
    let known = |volume: &Volume| {
        let ranking = volume.file_ranking();
        assert_eq!(ranking.hottest.len(), 3);
        ranking.hottest.iter().filter(|file| file.path.is_some()).count()
    };
    assert!(known(&volume) < 3, "half of the names are looked at");
    known(&volume);
    assert_eq!(known(&volume), 3);
    let mut found: Vec<String> =
        volume.file_ranking().hottest.into_iter().filter_map(|file| file.path).collect();
    found.sort_unstable();
    assert_eq!(found, ["/dir0/file1499", "/dir10/file1499", "/dir19/file1499"]);
}

/// A file deeper than a path can name is ranked without one.
#[test]
fn no_path_is_longer_than_programs_can_use() {
    let rig = rig(16 << 20);
    let volume = open(&rig);
    let (mut dir, mut path, name) = (Ino::ROOT, String::new(), "n".repeat(250));
    for depth in 0..40 {
        dir = make(&volume, dir, &name, &DIR);
        path += &format!("/{name}");
        if depth == 10 {
            let shallow = make(&volume, dir, "shallow", &FILE);
            put(&volume, shallow, 0, b"used");
        }
    }
    let deep = make(&volume, dir, "deep", &FILE);
    put(&volume, deep, 0, b"used");
    let mut found = Vec::new();
    for _ in 0..3 {
        found =
            volume.file_ranking().hottest.into_iter().map(|file| (file.ino, file.path)).collect();
    }
    found.sort_by_key(|(_, path)| path.is_none());
    let shallow = format!("{}/shallow", &path[..11 * 251]);
    assert_eq!((found[0].1.as_deref(), found.len()), (Some(shallow.as_str()), 2));
    assert_eq!(found[1], (deep.0, None));
}
