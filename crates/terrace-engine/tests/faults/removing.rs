//! What removes names needs no room: volumes full of names in every shape, until the last one is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::{FsResult, Ino, RenameFlags, Volume};
use terrace_policy::Param;

use super::rig::{DIR, FILE, Rig, find};

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

/// Files in `dirs` directories, as many as there is room for; each has a name in the next directory, too, if so asked.
fn full(rig: &Rig, dirs: usize, linked: bool) -> Names {
    let v = still(rig);
    (0..dirs).for_each(|d| v.forget(v.create(Ino::ROOT, format!("d{d}").as_bytes(), &DIR).unwrap().ino, 1));
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
            names.push((format!("{dir}{}", String::from_utf8(entry.name.to_vec()).unwrap()), entry.ino, entry.kind));
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

/// A file takes the name of another, in the same directory or in another one: that frees an inode, too.
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
