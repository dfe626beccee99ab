//! Dirty pages of daemons that died.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::*;

#[test]
fn a_dead_daemons_dirty_pages_are_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, none) = open(dir.path());
    assert!(none.is_empty());
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 2), (2, 3)], 3 * PAGE);
    write(&cache, &map, &[(1, 4)], 3 * PAGE);
    fetch(&cache, &map, &[(8, 8)]);
    let pins = cache.dirty(&map, 0, 1);
    assert!(mark_clean(&cache, &map, &pins[0]));
    cache.clamp_sizes(&map, 2 * PAGE + 1);
    std::mem::forget((cache, map, pins));

    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 2 * PAGE + 1, 3)]);
    assert!(pages.iter().all(|p| (p.ino, p.generation, p.mtime_ns) == (5, 3, 1000)));
    // It dies again before the pages were published: they are still there. And again, halfway.
    std::mem::forget(cache);
    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 2 * PAGE + 1, 3)]);
    let map = cache.map(5, 3);
    write(&cache, &map, &[(2, 5)], 7);
    assert!(map.dirty_pages() == 1 && pages.iter().all(|page| page.seq < cache.pool.next_seq()));
    std::mem::forget((cache, map));
    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 7, 5)]);
    // Published whole: the old files go, and the pages stay readable until the caller is done with
    // them.
    let map = cache.map(5, 3);
    write(&cache, &map, &[(1, 4), (2, 5)], 7);
    cache.forget_recovered().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 7, 5)]);
    std::mem::forget((cache, map));
    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 7, 4), (2, 7, 5)]);
    cache.remove_backing().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_mount_that_keeps_dying_does_not_pile_up_files() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path());
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 2), (2, 3)], 3 * PAGE);
    std::mem::forget((cache, map));
    for _ in 0..5 {
        let (cache, pages) = open(dir.path());
        assert_eq!(found(&pages), [(0, 3 * PAGE, 1), (1, 3 * PAGE, 2), (2, 3 * PAGE, 3)]);
        let map = cache.map(5, 3);
        write(&cache, &map, &[(0, 1), (1, 2)], 3 * PAGE);
        assert!(fs::read_dir(dir.path()).unwrap().count() <= 3);
        std::mem::forget((cache, map));
    }
}

/// The cache's file at each crash point, recovered: everything is the state before or the state
/// after.
#[test]
fn a_publication_is_there_whole_or_not_at_all_at_every_crash_point() {
    let dir = tempfile::tempdir().unwrap();
    let images = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path());
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 1), (2, 1)], 3 * PAGE);
    fetch(&cache, &map, &[(3, 1)]);
    let name = format!("terrace-{UUID}.cache");
    let snapshot = {
        let (file, images, name) = (dir.path().join(&name), images.path().to_owned(), name.clone());
        let mut count = 0;
        move || {
            let image = images.join(count.to_string());
            fs::create_dir(&image).unwrap();
            fs::copy(&file, image.join(&name)).unwrap();
            count += 1;
        }
    };
    with_crash_points(snapshot, || {
        write(&cache, &map, &[(1, 2), (2, 2), (3, 2), (4, 2)], 5 * PAGE);
    });
    let before = [(0, 3 * PAGE, 1), (1, 3 * PAGE, 1), (2, 3 * PAGE, 1)];
    let after =
        [(0, 3 * PAGE, 1), (1, 5 * PAGE, 2), (2, 5 * PAGE, 2), (3, 5 * PAGE, 2), (4, 5 * PAGE, 2)];
    let count = fs::read_dir(images.path()).unwrap().count();
    assert_eq!(count, 4 * 2 + 1 + 3);
    let mut states = BTreeMap::new();
    for image in 0..count {
        let pages = found(&open(&images.path().join(image.to_string())).1);
        let state = if pages == before { "before" } else { "after" };
        assert!(pages == before || pages == after, "image {image}: {pages:?}");
        states.insert(image, state);
    }
    let commits: Vec<_> =
        (1..count).filter(|image| states[image] != states[&(image - 1)]).collect();
    assert_eq!(
        (states[&0], commits.as_slice(), states[&(count - 1)]),
        ("before", &[8][..], "after")
    );
}

/// A slot that is filled for another page while recovery could still find it would tear that page.
#[test]
fn a_slot_that_is_reused_is_not_found_as_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = PageCache::new(2 * PAGE, Some(&backing(dir.path()))).unwrap();
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 1)], PAGE);
    cache.drop_range(&map, 0, 1);
    let mut blanks = cache.take(0, 1).unwrap();
    blanks[0].fill(9);
    std::mem::forget((cache, map, blanks));
    assert_eq!(found(&open(dir.path()).1), [(1, PAGE, 1)]);
}

#[test]
fn stale_and_damaged_files_are_deleted() {
    let name = format!("terrace-{UUID}.cache");
    let left = |damage: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _) = open(dir.path());
        let map = cache.map(5, 3);
        write(&cache, &map, &[(0, 1)], PAGE);
        std::mem::forget((cache, map));
        damage(&dir.path().join(&name));
        let (cache, pages) = open(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), if pages.is_empty() { 1 } else { 2 });
        assert_eq!(cache.dirty_pages(), 0);
        pages.len()
    };
    let patch = |path: &Path, at: usize, bytes: &[u8]| {
        let mut file = fs::read(path).unwrap();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(path, file).unwrap();
    };
    let identity = 24 + 64 * 8;
    assert_eq!(left(&|_| ()), 1);
    assert_eq!(left(&|path| fs::write(path, b"").unwrap()), 0);
    assert_eq!(left(&|path| fs::write(path, [0; 5000]).unwrap()), 0);
    assert_eq!(left(&|path| patch(path, 0, b"X")), 0, "magic");
    assert_eq!(left(&|path| patch(path, 8, &[1])), 0, "slot count");
    assert_eq!(left(&|path| patch(path, identity, &[2])), 0, "version");
    assert_eq!(left(&|path| patch(path, 16, &[8])), 0, "epoch");
    assert_eq!(left(&|path| patch(path, identity + 8, b"X")), 0, "volume");
    assert_eq!(left(&|path| patch(path, identity + 48, b"X")), 0, "boot");
    assert_eq!(left(&|path| patch(path, 4096, &[77])), 0, "slot state");
    assert_eq!(left(&|path| patch(path, 4096 + 24, &[0xff; 8])), 0, "file size");
}

#[test]
fn the_file_is_private_and_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("terrace-{UUID}.cache"));
    let (cache, _) = open(dir.path());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(cache);
    let error = |dir: &Path| PageCache::new(PAGE, Some(&backing(dir))).expect_err("refused");
    if fs::metadata(&path).unwrap().uid() == 0 {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let refused = error(dir.path());
        assert_eq!(refused.errno(), libc::EPERM);
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        assert!(path.exists());
    }
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert_eq!(error(dir.path()).errno(), libc::ELOOP);
    assert_eq!(error(&dir.path().join("absent")).errno(), libc::ENOENT);
    let odd = CacheBacking { uuid: "../x".into(), ..backing(dir.path()) };
    assert_eq!(PageCache::new(PAGE, Some(&odd)).err().map(|e| e.errno()), Some(libc::EINVAL));
}
