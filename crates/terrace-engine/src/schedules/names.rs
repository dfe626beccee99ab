//! Names: what stays is always found, a rename has one winner, directories never form a circle.

use terrace_store::planted::Bug;
use terrace_store::sync::thread;

use super::{DIR, FILE, Rig, Tier, contents, errno, finds, holds, make, put, together};
use crate::{Ino, RenameFlags, Volume};

const PLAIN: RenameFlags = RenameFlags { no_replace: false, exchange: false, whiteout: false };

fn rename(volume: &Volume, from: (Ino, &str), to: (Ino, &str)) -> Result<(), i32> {
    errno(volume.rename(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), PLAIN))
}

fn find(volume: &Volume, dir: Ino, name: &str) -> Result<Ino, i32> {
    errno(volume.lookup(dir, name.as_bytes())).map(|attr| attr.ino)
}

fn names(volume: &Volume, dir: Ino) -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |name: &[u8]| names.push(String::from_utf8(name.to_vec()).unwrap());
    volume
        .readdir(dir, 2, &mut |entry| {
            add(entry.name);
            true
        })
        .unwrap();
    names.sort();
    names
}

/// A file that is replaced again and again is always there, with old or new contents, whole.
fn replacing() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let dir = make(&volume, Ino::ROOT, "dir", &DIR);
    put(&volume, make(&volume, Ino::ROOT, "target", &FILE), 0, &[1; 300]);
    let write_new = |dir: Ino, name: &str, byte: u8| {
        let file = make(&volume, dir, name, &FILE);
        put(&volume, file, 0, &[byte; 300]);
        volume.forget(file, 1);
        rename(&volume, (dir, name), (Ino::ROOT, "target")).unwrap();
    };
    let read = || {
        for _ in 0..3 {
            let file = find(&volume, Ino::ROOT, "target").expect("a name that stays");
            let bytes = contents(&volume, file);
            assert!(bytes.len() == 300 && bytes.iter().all(|&b| b == bytes[0] && b != 0));
            volume.forget(file, 1);
        }
    };
    together! {
        { write_new(Ino::ROOT, "new", 2); write_new(Ino::ROOT, "new", 3) }
        { write_new(dir, "new", 4) }
        { read() }
        { read() }
    };
    assert_eq!(names(&volume, Ino::ROOT), ["dir", "target"]);
    assert_eq!(names(&volume, dir), [""; 0]);
    rig.close(volume);
}

/// A file that moves to and fro is at one place at a time; what trades places is always at both.
fn moving() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let (a, b) = (make(&volume, Ino::ROOT, "a", &DIR), make(&volume, Ino::ROOT, "b", &DIR));
    let file = make(&volume, a, "file", &FILE);
    let inside = make(&volume, a, "traded", &DIR);
    make(&volume, b, "traded", &FILE);
    together! {
        {
            rename(&volume, (a, "file"), (b, "file")).unwrap();
            rename(&volume, (b, "file"), (a, "other")).unwrap();
            rename(&volume, (a, "other"), (a, "file")).unwrap();
        }
        {
            let exchange = RenameFlags { exchange: true, ..PLAIN };
            volume.rename(a, b"traded", b, b"traded", exchange).unwrap();
            volume.rename(b, b"traded", a, b"traded", exchange).unwrap();
        }
        {
            for dir in [a, b, a] {
                let seen = [(a, "file"), (b, "file"), (a, "other")]
                    .map(|(dir, name)| find(&volume, dir, name));
                assert!(seen.iter().all(|&found| [Ok(file), Err(libc::ENOENT)].contains(&found)));
                find(&volume, dir, "traded").expect("a name that stays");
            }
        }
        { make(&volume, inside, "late", &FILE); assert!(find(&volume, inside, "..").is_ok()) }
    };
    assert_eq!(
        (names(&volume, a), names(&volume, b)),
        (vec!["file".into(), "traded".into()], vec!["traded".into()])
    );
    assert_eq!(find(&volume, inside, ".."), Ok(a));
    assert_eq!(names(&volume, inside), ["late"]);
    rig.close(volume);
}

/// Two directories want to move into each other: one of them may.
fn circle() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let (over_a, over_b) =
        (make(&volume, Ino::ROOT, "over_a", &DIR), make(&volume, Ino::ROOT, "over_b", &DIR));
    let (a, b) = (make(&volume, over_a, "a", &DIR), make(&volume, over_b, "b", &DIR));
    let (below_a, below_b) = (make(&volume, a, "x", &DIR), make(&volume, b, "y", &DIR));
    let mut moved = [Ok(()); 2];
    let [first, second] = &mut moved;
    together! {
        { *first = rename(&volume, (over_a, "a"), (below_b, "a")) }
        { *second = rename(&volume, (over_b, "b"), (below_a, "b")) }
        {
            let _ = find(&volume, a, "x");
            let _ = find(&volume, below_a, "..");
            let _ = find(&volume, over_b, "b");
        }
    };
    let winners = moved.iter().filter(|moved| moved.is_ok()).count();
    assert_eq!(winners, 1, "{moved:?}");
    assert!(moved.contains(&Err(libc::EINVAL)));
    rig.close(volume);
}

/// Renames, removals and creations in the same two directories: no deadlock, a sound volume.
fn crossing() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let (a, b) = (make(&volume, Ino::ROOT, "a", &DIR), make(&volume, Ino::ROOT, "b", &DIR));
    let below = make(&volume, a, "below", &DIR);
    volume.forget(make(&volume, a, "one", &FILE), 1);
    volume.forget(make(&volume, b, "two", &FILE), 1);
    let fair = |result: Result<(), i32>| {
        let fair = [
            libc::ENOENT,
            libc::ENOTEMPTY,
            libc::EEXIST,
            libc::EINVAL,
            libc::EISDIR,
            libc::ENOTDIR,
        ];
        assert!(result.is_ok() || fair.contains(&result.unwrap_err()), "{result:?}");
    };
    together! {
        {
            fair(rename(&volume, (a, "one"), (b, "two")));
            fair(rename(&volume, (b, "two"), (below, "three")))
        }
        {
            fair(rename(&volume, (a, "below"), (b, "below")));
            fair(rename(&volume, (b, "below"), (Ino::ROOT, "b")))
        }
        { fair(errno(volume.rmdir(a, b"below"))); fair(errno(volume.rmdir(Ino::ROOT, b"b"))) }
        {
            fair(errno(volume.create(below, b"four", &FILE).map(|_| ())));
            fair(errno(volume.unlink(below, b"three")))
        }
    };
    rig.close(volume);
}

/// Links come and go beside lookups: the count is that of the names.
fn links() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let dir = make(&volume, Ino::ROOT, "dir", &DIR);
    let file = make(&volume, Ino::ROOT, "a", &FILE);
    volume.link(file, dir, b"stays").unwrap();
    volume.forget(file, 1);
    let by_link = find(&volume, dir, "stays").unwrap();
    volume.forget(by_link, 2);
    together! {
        { volume.unlink(Ino::ROOT, b"a").unwrap() }
        {
            let file = find(&volume, dir, "stays").expect("a name that stays");
            volume.link(file, Ino::ROOT, b"b").unwrap();
            volume.forget(file, 2);
        }
        {
            for _ in 0..2 {
                let attr = volume.lookup(dir, b"stays").expect("a name that stays");
                assert!((1..=3).contains(&attr.nlink));
                volume.forget(attr.ino, 1);
            }
        }
        { rename(&volume, (dir, "stays"), (dir, "stays")).unwrap() }
    };
    assert_eq!(volume.lookup(dir, b"stays").unwrap().nlink, 2);
    assert_eq!(
        (names(&volume, Ino::ROOT), names(&volume, dir)),
        (vec!["b".into(), "dir".into()], vec!["stays".into()])
    );
    rig.close(volume);
}

#[test]
fn a_replaced_name_is_always_found() {
    holds(500, replacing);
}

#[test]
fn a_lookup_beside_a_rename_is_found() {
    finds(Bug::LookupUnlocked, 1000, replacing);
}

#[test]
fn what_moves_is_at_one_place() {
    holds(500, moving);
}

#[test]
fn directories_form_no_circle() {
    holds(600, circle);
}

#[test]
fn renames_that_do_not_exclude_each_other_are_found() {
    finds(Bug::RenameUnlocked, 600, circle);
}

#[test]
fn directories_under_many_hands_stay_sound() {
    holds(600, crossing);
}

#[test]
fn links_are_counted() {
    holds(500, links);
}
