//! Removing names needs no room: volumes full of names in every shape, until the last one is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::{
    Counter, FsResult, Ino, RenameFlags, SetAttr, SetTime, Time, Volume, XattrFlags,
};
use terrace_media::{IoOp, sim_disk_from};
use terrace_policy::{PM_RESERVE_BLOCKS, Param};

use super::rig::{DIR, FILE, Rig, a_moment_passes, find, make, number_after};

/// Names by path, with the inode that each leads to.
type Names = BTreeMap<String, Ino>;

/// Nothing moves by itself, lest it make room.
fn still(rig: &Rig) -> Arc<Volume> {
    let volume = rig.open(90);
    volume.tune(Param::Migrate, 0).unwrap();
    volume
}

/// The directory of a path, and its last name.
fn split<'p>(v: &Volume, path: &'p str) -> (Ino, &'p [u8]) {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    (find(v, dir), name.as_bytes())
}

fn create(v: &Volume, path: &str) -> FsResult<Ino> {
    let (dir, name) = split(v, path);
    let ino = v.create(dir, name, &FILE)?.ino;
    v.forget(ino, 1);
    Ok(ino)
}

fn unlink(v: &Volume, path: &str) {
    let (dir, name) = split(v, path);
    v.unlink(dir, name).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// In an order that has nothing to do with that in which they came.
fn shuffled(names: &Names) -> Vec<String> {
    let mut paths: Vec<String> = names.keys().cloned().collect();
    paths.sort_by_cached_key(|path| terrace_layout::data_crc(path.as_bytes()));
    paths
}

/// A name of `n`, which takes two slots of a log now and then.
fn name(n: usize) -> String {
    format!("{n}{}", "-with-a-longer-name".repeat(n % 3))
}

/// Files in `dirs` directories, as many as there is room for; each has a name in the next
/// directory, too, if so asked.
fn full(rig: &Rig, dirs: usize, linked: bool) -> Names {
    let v = still(rig);
    (0..dirs).for_each(|d| {
        v.forget(v.create(Ino::ROOT, format!("d{d}").as_bytes(), &DIR).unwrap().ino, 1)
    });
    let path = |n: usize| if dirs == 0 { name(n) } else { format!("d{}/{}", n % dirs, name(n)) };
    let mut names = Names::new();
    for n in 0.. {
        let made = create(&v, &path(n)).and_then(|ino| {
            names.insert(path(n), ino);
            let other = format!("d{}/{}", (n + 1) % dirs.max(1), name(n));
            if linked {
                let (dir, name) = split(&v, &other);
                v.link(ino, dir, name)?;
                v.forget(ino, 1);
                names.insert(other, ino);
            }
            Ok(())
        });
        if let Err(error) = made {
            assert_eq!(error.errno(), libc::ENOSPC, "{error}");
            break;
        }
    }
    v.close().unwrap();
    names
}

/// The names that there are.
fn found(v: &Volume) -> Names {
    let list = |dir: &str| {
        let mut names = Vec::new();
        v.readdir(find(v, dir), 0, &mut |entry| {
            names.push((
                format!("{dir}{}", String::from_utf8(entry.name.to_vec()).unwrap()),
                entry.ino,
                entry.kind,
            ));
            true
        })
        .unwrap();
        names.into_iter().filter(|(name, ..)| !name.ends_with('.'))
    };
    let is_dir = |kind| kind == terrace_engine::FileKind::Directory;
    let (dirs, mut names): (Vec<_>, Vec<_>) = list("").partition(|&(_, _, kind)| is_dir(kind));
    names.extend(dirs.iter().flat_map(|(dir, ..)| list(&format!("{dir}/"))));
    names.into_iter().map(|(path, ino, _)| (path, ino)).collect()
}

/// Removes all names; halfway the volume crashes, is mounted again, and is whole.
fn remove_all(rig: &Rig, names: &mut Names) {
    let all = shuffled(names);
    for half in [&all[..all.len() / 2], &all[all.len() / 2..]] {
        let v = still(rig);
        for path in half {
            let links = names.values().filter(|&&ino| ino == names[path]).count();
            assert_eq!(v.getattr(find(&v, path)).unwrap().nlink as usize, links, "{path}");
            unlink(&v, path);
            names.remove(path);
        }
        v.abandon();
        drop(v);
        let v = still(rig);
        assert_eq!(found(&v), *names);
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

#[test]
fn names_of_a_full_volume_go_whatever_shape_they_have() {
    for (dirs, linked) in [(0, false), (2, true), (400, false), (300, true)] {
        let rig = Rig::new(2 << 20, false);
        let mut names = full(&rig, dirs, linked);
        assert!(names.len() > 1000, "{} names in {dirs} directories", names.len());
        remove_all(&rig, &mut names);
        let v = still(&rig);
        (0..dirs).for_each(|d| v.rmdir(Ino::ROOT, format!("d{d}").as_bytes()).unwrap());
        v.sync().unwrap();
        create(&v, "room-again").unwrap();
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

/// A file takes the name of another, in the same directory or in another one: that frees an inode,
/// too.
#[test]
fn names_of_a_full_volume_can_be_taken_over() {
    for linked in [false, true] {
        let rig = Rig::new(2 << 20, false);
        let mut names = full(&rig, 50, linked);
        let v = still(&rig);
        let mut paths = shuffled(&names);
        while paths.len() > 1 {
            let (from, to) = (paths.pop().unwrap(), paths[paths.len() / 2].clone());
            if names[&from] == names[&to] {
                continue;
            }
            let ((from_dir, from_name), (to_dir, to_name)) = (split(&v, &from), split(&v, &to));
            let renamed = v.rename(from_dir, from_name, to_dir, to_name, RenameFlags::default());
            renamed.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
            let ino = names.remove(&from).unwrap();
            names.insert(to, ino);
        }
        v.abandon();
        drop(v);
        let v = still(&rig);
        assert_eq!(found(&v), names);
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

/// Fills PM, but for what is left to those who free something.
fn fill(v: &Volume) {
    let ballast = make(v, Ino::ROOT, "ballast", &FILE);
    let room = || {
        let pm = &v.status().devices[0];
        ((pm.size_bytes - pm.used_bytes) / 4096).saturating_sub(PM_RESERVE_BLOCKS)
    };
    for n in 0.. {
        match room() {
            0 => break,
            // A value in a block of its own, and what the log takes for it.
            2.. => v
                .setxattr(
                    ballast,
                    format!("user.{n}").as_bytes(),
                    &[7; 4096],
                    XattrFlags::default(),
                    None,
                )
                .unwrap(),
            _ => {
                let mode = SetAttr { mode: Some(0o600 + n % 8), ..Default::default() };
                v.setattr(ballast, &mode).map(drop).unwrap();
            }
        }
    }
}

/// An entry of one slot more in the log of an inode, which kills the one before it.
fn mark(v: &Volume, ino: Ino) -> FsResult<()> {
    v.setxattr(ino, b"user.m", b"m", XattrFlags::default(), None)
}

/// Leaves no slot of the last page of the log.
fn fill_page(v: &Volume, ino: Ino) {
    let full = (0..1000).find_map(|_| mark(v, ino).err());
    assert_eq!(full.expect("there is no room for pages").errno(), libc::ENOSPC);
}

/// The log grows by dead entries until it is written anew.
fn compact(v: &Volume, ino: Ino) {
    let blocks = || v.getattr(ino).unwrap().blocks_512;
    let mut most = 0;
    while blocks() >= most {
        most = blocks();
        mark(v, ino).unwrap();
    }
}

/// A change in place must change the entry that gives the times last in a log that was written
/// anew.
#[test]
fn times_of_a_compacted_directory_outlive_a_removal_in_place() {
    let rig = Rig::new(2 << 20, false);
    let v = still(&rig);
    // The last one has its attributes behind its names: they give a time to come.
    let dirs: Vec<Ino> = (0..6).map(|n| make(&v, Ino::ROOT, &format!("d{n}"), &DIR)).collect();
    for &dir in &dirs {
        for name in ["old", "new"] {
            make(&v, dir, name, &FILE);
        }
        if dir == dirs[5] {
            let times =
                SetAttr { mtime: Some(SetTime::At(Time(i64::MAX / 2))), ..Default::default() };
            v.setattr(dir, &times).unwrap();
        }
        compact(&v, dir);
    }
    fill(&v);
    dirs.iter().for_each(|&dir| fill_page(&v, dir));
    a_moment_passes();
    for &dir in &dirs {
        let before = v.getattr(dir).unwrap();
        v.unlink(dir, b"old").unwrap();
        let after = v.getattr(dir).unwrap();
        assert!(before.mtime != after.mtime && before.ctime < after.ctime, "{before:?} {after:?}");
        assert_eq!(mark(&v, dir).unwrap_err().errno(), libc::ENOSPC, "the page was not full");
    }
    let times = |v: &Volume, dir| v.getattr(dir).map(|attr| (attr.mtime, attr.ctime)).unwrap();
    let said = |v: &Volume| dirs.iter().map(|&dir| times(v, dir)).collect::<Vec<_>>();
    let expected = said(&v);
    v.close().unwrap();
    drop(v);
    let v = still(&rig);
    assert_eq!(said(&v), expected);
    v.close().unwrap();
    drop(v);
    rig.must_be_sound();
}

/// A change in place makes no log longer, and two of them may happen in one tick of the clock: a
/// log that moves notices all the same.
#[test]
fn a_name_removed_in_place_while_its_log_moves_stays_removed() {
    let rig = Rig::new(2 << 20, false);
    let v = still(&rig);
    let dir = make(&v, Ino::ROOT, "dir", &DIR);
    for n in 0..100 {
        make(&v, dir, &n.to_string(), &FILE);
    }
    fill(&v);
    fill_page(&v, dir);
    v.close().unwrap();
    drop(v);
    let image = rig.image();
    // Nearly always both removals are of one tick.
    for _ in 0..8 {
        let (disks, sims): (_, Vec<_>) =
            image.0[1..].iter().map(|bytes| sim_disk_from(bytes.clone())).unzip();
        let rig = Rig { pm: image.rig().pm, disks };
        let v = rig.open_alone(&[(Param::Migrate, 0), (Param::LogsAt, 0), (Param::ColdAge, 0)]);
        a_moment_passes();
        v.unlink(dir, b"1").unwrap();
        for sim in &sims {
            let v = v.clone();
            sim.before_next(IoOp::Write, move || {
                // Nobody makes room for it, and nothing else moves.
                v.tune(Param::Migrate, 0).unwrap();
                v.unlink(dir, b"2").unwrap();
            });
        }
        v.tune(Param::Migrate, 1).unwrap();
        // Whether others move is all the same.
        let _ = v.migrate_shard((dir.0 as usize - 1) % v.shards());
        sims.iter().for_each(|sim| sim.clear_on_io());
        assert!(v.stats().counters.get(Counter::MigrationsOvertaken) > 0);
        let mut expected = found(&v);
        assert!(!expected.contains_key("dir/1") && !expected.contains_key("dir/2"));
        expected.remove("ballast");
        assert_eq!(expected.len(), 98);
        v.abandon();
        drop(v);
        let v = still(&rig);
        let mut found = found(&v);
        found.remove("ballast");
        assert_eq!(found, expected);
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

/// Logs on a disk do not change there: names in them go, or are taken over, by new entries in the
/// last room.
#[test]
fn names_in_an_archive_go_and_can_be_taken_over() {
    let rig = Rig::new(2 << 20, false);
    let v = rig.open_alone(&[(Param::LogsAt, 0), (Param::ColdAge, 0)]);
    let dir = make(&v, Ino::ROOT, "dir", &DIR);
    let other = make(&v, Ino::ROOT, "other", &DIR);
    let mut names: Names =
        (0..300).map(|n| (format!("dir/{n}"), make(&v, dir, &n.to_string(), &FILE))).collect();
    let elsewhere =
        (0..300).map(|n| (format!("other/{n}"), make(&v, other, &n.to_string(), &FILE)));
    names.extend(elsewhere.collect::<Names>());
    v.sync().unwrap();
    v.migrate(1).unwrap_err();
    v.tune(Param::Migrate, 0).unwrap();
    fill(&v);
    for ino in [dir, other] {
        let blocks = number_after(&rig.image().rig().dump(ino), "log archive      ");
        assert!(blocks.is_some_and(|n| n > 0), "the log is on no disk");
        fill_page(&v, ino);
    }
    for n in 0..60 {
        let to_dir = if n % 2 == 0 { "dir" } else { "other" };
        let (from, to, gone) =
            (format!("dir/{n}"), format!("{to_dir}/{}", n + 100), format!("dir/{}", n + 200));
        let ((from_dir, from_name), (to_dir, to_name)) = (split(&v, &from), split(&v, &to));
        let renamed = v.rename(from_dir, from_name, to_dir, to_name, RenameFlags::default());
        renamed.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
        let ino = names.remove(&from).unwrap();
        names.insert(to, ino);
        unlink(&v, &gone);
        names.remove(&gone);
    }
    v.abandon();
    drop(v);
    let v = still(&rig);
    let mut found = found(&v);
    found.remove("ballast");
    assert_eq!(found, names);
    v.close().unwrap();
    drop(v);
    rig.must_be_sound();
}

/// The last room is for what frees something; where that is used up, more is made at once, however
/// lately that was in vain.
#[test]
fn names_go_at_once_when_the_disk_that_makes_room_works_again() {
    const DIRS: usize = 64;
    let rig = Rig::new(2 << 20, false);
    let v = rig.open_alone(&[(Param::LogsAt, 0), (Param::ColdAge, 0)]);
    let dirs: Vec<Ino> = (0..DIRS).map(|d| make(&v, Ino::ROOT, &format!("d{d}"), &DIR)).collect();
    for &dir in &dirs {
        for n in 0..20 {
            make(&v, dir, &n.to_string(), &FILE);
        }
    }
    v.sync().unwrap();
    a_moment_passes();
    v.migrate(1).unwrap_err();
    v.close().unwrap();
    drop(v);
    for &dir in &dirs {
        let blocks = number_after(&rig.dump(dir), "log archive      ");
        assert!(blocks.is_some_and(|n| n > 0), "the log is on no disk");
    }
    let (disks, sims): (_, Vec<_>) =
        rig.image().0[1..].iter().map(|bytes| sim_disk_from(bytes.clone())).unzip();
    let rig = Rig { pm: rig.pm, disks };
    let v = still(&rig);
    fill(&v);
    dirs.iter().for_each(|&dir| fill_page(&v, dir));
    // Each takes a page; the first ones take what the inode tables give back.
    let refused: Vec<Ino> =
        dirs.iter().copied().filter(|&dir| v.unlink(dir, b"1").is_err()).collect();
    assert!(!refused.is_empty() && refused.len() < DIRS, "{refused:?}");
    sims.iter().for_each(|sim| sim.fail_writes_after(0));
    v.tune(Param::Migrate, 1).unwrap();
    assert_eq!(v.unlink(refused[0], b"1").unwrap_err().errno(), libc::ENOSPC);
    sims.iter().for_each(|sim| sim.clear_faults());
    for &dir in &refused {
        v.unlink(dir, b"1").unwrap();
    }
    let expected = found(&v);
    assert_eq!(expected.len(), DIRS * 19 + 1);
    v.abandon();
    drop(v);
    let v = still(&rig);
    assert_eq!(found(&v), expected);
    v.close().unwrap();
    drop(v);
    rig.must_be_sound();
}
