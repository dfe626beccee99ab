//! PM that cannot be read under a volume: who is told, who is not, and what becomes of writes.

mod rig;

use std::collections::{BTreeMap, BTreeSet};

use rig::{FILE, Rig, find, pattern, populated, put, tree};
use terrace_damage::places::places_of;
use terrace_engine::{
    CheckOptions, FileKind, FsError, FsResult, Ino, OpenOptions, SetAttr, Volume, WriteOptions,
    XattrFlags, check, save,
};

const PAGE: u64 = 4096;

fn read(v: &Volume, ino: Ino, at: u64, len: usize) -> FsResult<Vec<u8>> {
    let mut buf = vec![0xee; len];
    v.read(ino, at, &mut buf).map(|n| buf[..n].to_vec())
}

/// The byte in PM where a file's data lies.
fn data_at(v: &Volume, ino: Ino, offset: u64) -> u64 {
    let map = v.file_map(ino).unwrap();
    let extent = map
        .extents
        .iter()
        .find(|e| (e.offset_bytes..e.offset_bytes + e.len_bytes).contains(&offset))
        .unwrap();
    assert_eq!(extent.tier, "pm");
    extent.device_offset_bytes + offset - extent.offset_bytes
}

/// Everything but the file with bad data goes on; what was lost is overwritten or removed, and the
/// volume is sound.
#[test]
fn bad_data_is_an_error_of_its_file_only() {
    for checksums in [false, true] {
        let rig = populated(checksums);
        let v = rig.open(90);
        let deep = find(&v, "dir/sub/deep");
        let bad = data_at(&v, deep, 8192);
        rig.pm.fail_page(bad);
        let error = read(&v, deep, 9000, 10).unwrap_err();
        assert_eq!(error.errno(), libc::EIO);
        let message = error.to_string();
        assert!(
            message.contains("<memory>") && message.contains(&format!("offset {bad} ")),
            "{message}"
        );
        assert!(read(&v, deep, 0, 20_000).is_err());
        assert_eq!(read(&v, deep, 0, 8192).unwrap(), pattern(20_000, 2)[..8192]);
        assert_eq!(read(&v, deep, 12_288, 8000).unwrap(), pattern(20_000, 2)[12_288..]);
        // A write that needs the old bytes around it cannot be; one that does not, can.
        let refused = v.write(deep, 8192 + 1000, &[7; 1000], WriteOptions::default()).unwrap_err();
        assert_eq!(refused.errno(), libc::EIO);
        put(&v, deep, 8192, &[7; 4096]);
        assert_eq!(read(&v, deep, 8192, 4096).unwrap(), [7; 4096]);
        put(&v, find(&v, "small"), 0, b"others go on");
        let status = v.status();
        assert_eq!(status.read_only, None);
        assert_eq!(
            status.devices[0].health,
            format!("failing: 4096 bytes cannot be read, the first at byte {bad}")
        );
        v.sync().unwrap();
        // Nobody gets the bad block again, however full PM becomes.
        let filler = v.create(Ino::ROOT, b"filler", &FILE).unwrap().ino;
        for i in 0..1000 {
            put(&v, filler, i * PAGE, &[1; PAGE as usize]);
        }
        v.sync().unwrap();
        let extents = v.file_map(filler).unwrap().extents;
        let owns = |start: u64, len: u64| (start..start + len).contains(&bad);
        assert!(extents.iter().any(|e| e.tier != "pm"), "PM is full");
        assert!(
            !extents.iter().any(|e| e.tier == "pm" && owns(e.device_offset_bytes, e.len_bytes))
        );
        v.close().unwrap();
        drop(v);
        // Back from the workshop.
        let report = Rig { pm: rig.image().rig().pm, disks: rig.disks.clone() }.check(false);
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
    }
}

/// Unreadable data is not moved, and the rest of its file stays with it; whole files move.
#[test]
fn bad_data_does_not_move() {
    for checksums in [false, true] {
        let rig = populated(checksums);
        let v = rig.open(90);
        let deep = find(&v, "dir/sub/deep");
        let bad = data_at(&v, deep, 8192);
        rig.pm.fail_page(bad);
        let error = v.move_file(deep, 1).unwrap_err();
        assert_eq!(error.errno(), libc::EIO);
        let message = error.to_string();
        assert!(
            message.contains("<memory>") && message.contains(&format!("offset {bad} ")),
            "{message}"
        );
        assert_eq!(data_at(&v, deep, 8192), bad);
        assert_eq!(read(&v, deep, 0, 8192).unwrap(), pattern(20_000, 2)[..8192]);
        assert_eq!(read(&v, deep, 12_288, 8000).unwrap(), pattern(20_000, 2)[12_288..]);
        assert_eq!(v.status().read_only, None);
        let small = find(&v, "small");
        let before = read(&v, small, 0, 5000).unwrap();
        v.move_file(small, 1).unwrap();
        assert!(v.file_map(small).unwrap().extents.iter().all(|e| e.tier != "pm"));
        assert_eq!(read(&v, small, 0, 5000).unwrap(), before);
        // Once the block is overwritten, nothing of the file is bad.
        put(&v, deep, 8192, &[7; 4096]);
        let moved = v.move_file(deep, 1).unwrap();
        assert_eq!((moved.moved_bytes, moved.left_bytes), (5 * PAGE, 0));
        assert_eq!(read(&v, deep, 8192, 4096).unwrap(), [7; 4096]);
        // Memory that fails where the data would go is not used.
        let probe = v.create(Ino::ROOT, b"probe", &FILE).unwrap().ino;
        put(&v, probe, 0, &[1; PAGE as usize]);
        rig.pm.fail_page(data_at(&v, probe, 0) + 2 * PAGE);
        let big = find(&v, "dir/some");
        let before = read(&v, big, 0, 40_000).unwrap();
        v.move_file(big, 0).unwrap();
        assert_eq!(read(&v, big, 0, 40_000).unwrap(), before);
        assert_eq!(v.status().read_only, None);
        v.close().unwrap();
        drop(v);
        let report = Rig { pm: rig.image().rig().pm, disks: rig.disks.clone() }.check(false);
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
    }
}

/// Memory that nobody uses may fail, too: as soon as that is known, nobody gets it.
#[test]
fn bad_free_blocks_are_not_handed_out() {
    let rig = populated(false);
    let v = rig.open(90);
    let probe = v.create(Ino::ROOT, b"probe", &FILE).unwrap().ino;
    put(&v, probe, 0, &[1; PAGE as usize]);
    let next = data_at(&v, probe, 0) + PAGE;
    let bad = [next, next + 3 * PAGE, next + 4 * PAGE];
    bad.iter().for_each(|&at| rig.pm.fail_page(at));
    let data = pattern(100 * PAGE as usize, 8);
    put(&v, probe, 0, &data);
    for i in 0..100 {
        put(&v, probe, i * PAGE, &data[(i * PAGE) as usize..][..PAGE as usize]);
    }
    assert_eq!(read(&v, probe, 0, data.len()).unwrap(), data);
    assert_eq!(v.status().read_only, None);
    v.close().unwrap();
    drop(v);
    assert!(
        Rig { pm: rig.image().rig().pm, disks: rig.disks.clone() }.check(false).problems.is_empty()
    );
}

/// A small overwrite in place, an append in place: neither may be acknowledged when the page is
/// bad, and from then on the volume is read-only. Everything acknowledged before is there on the
/// repaired device.
#[test]
fn a_write_to_bad_memory_is_refused_and_the_volume_turns_read_only() {
    type Write = fn(&Volume, Ino) -> FsResult<()>;
    let writes: [(&str, Write); 5] = [
        ("append", |v, f| v.write(f, 5000, b"appended", WriteOptions::default()).map(drop)),
        ("extend", |v, f| {
            v.setattr(f, &SetAttr { size: Some(6000), ..Default::default() }).map(drop)
        }),
        // These store to the record and the log in it.
        ("chmod", |v, f| {
            v.setattr(f, &SetAttr { mode: Some(0o600), ..Default::default() }).map(drop)
        }),
        ("setxattr", |v, f| v.setxattr(f, b"user.new", b"value", XattrFlags::default(), None)),
        ("unlink", |v, _| v.unlink(Ino::ROOT, b"small")),
    ];
    for (name, write) in writes {
        let rig = populated(false);
        let v = rig.open(90);
        let before = tree(&v);
        let small = find(&v, "small");
        let record = rig.record_at(small);
        let root = rig.record_at(Ino::ROOT);
        let bad: Vec<u64> = match name {
            "append" | "extend" => vec![data_at(&v, small, 4096)],
            // Wherever the log of the inode, or of its directory, goes on.
            "unlink" => std::iter::once(root).chain(log_pages(&rig, Ino::ROOT)).collect(),
            _ => std::iter::once(record).chain(log_pages(&rig, small)).collect(),
        };
        let image = rig.image();
        bad.iter().for_each(|&at| rig.pm.fail_page(at));
        let error = write(&v, small).unwrap_err();
        assert_eq!(error.errno(), libc::EIO, "{name}: {error}");
        // An operation that has to read the page first never comes to store to it.
        let read_first = error.to_string().contains("cannot be read");
        assert!(!read_first || name == "append", "{name}: {error}");
        let (reason, status) = (error.to_string(), v.status());
        assert_eq!(status.read_only, (!read_first).then(|| reason.clone()), "{name}");
        assert!(reason.contains("<memory>"), "{name}: {reason}");
        let errno = v.create(Ino::ROOT, b"more", &FILE).map_or_else(|error| error.errno(), |_| 0);
        assert_eq!(errno, if read_first { 0 } else { libc::EROFS }, "{name}");
        // Reads of the rest go on.
        assert_eq!(
            read(&v, find(&v, "dir/sub/deep"), 0, 20_000).unwrap(),
            pattern(20_000, 2),
            "{name}"
        );
        assert_eq!(
            v.close().is_err(),
            !read_first,
            "{name}: a volume that is read-only cannot be unmounted cleanly"
        );
        drop(v);
        // The page as it was before it failed, everything else as it is now.
        let mut now = rig.image();
        for at in bad.iter().map(|at| (at / PAGE * PAGE) as usize) {
            now.0[0][at..at + PAGE as usize].copy_from_slice(&image.0[0][at..at + PAGE as usize]);
        }
        let repaired = now.rig();
        let mut after = tree(&repaired.open(90));
        after.remove("/more");
        assert_eq!(after, before, "{name}");
        assert!(repaired.check(false).problems.is_empty(), "{name}");
    }
}

/// The pages of an inode's log (bytes in PM).
fn log_pages(rig: &Rig, ino: Ino) -> Vec<u64> {
    let text = rig.dump(ino);
    let entries = text.lines().filter_map(|line| rig::number_after(line, "  byte "));
    entries.map(|at| at / PAGE * PAGE).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The inodes that have something in each page of PM.
fn owners(image: &rig::Image) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut owners: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for place in places_of(&terrace_damage::Image(image.0.clone())) {
        if let (Some(owner), 0) = (place.owner, place.device) {
            for page in place.at / PAGE as usize..=(place.at + place.len - 1) / PAGE as usize {
                owners.entry(page as u64).or_default().insert(owner);
            }
        }
    }
    owners
}

/// Bad metadata, before a mount and during one: every page of PM in turn. Nothing panics; what
/// belongs to the page fails, and everything else is there and right.
#[test]
fn every_page_of_pm_may_be_bad() {
    let rig = populated(false);
    let whole = tree(&rig.open(90));
    let image = rig.image();
    let owners = owners(&image);
    let (mut mounted, mut damaged, mut seen_empty) = (0, 0, false);
    for page in 0..image.0[0].len() as u64 / PAGE {
        let bytes = &image.0[0][(page * PAGE) as usize..][..PAGE as usize];
        // Pages that hold nothing are all alike, and so are pages of file data (see `pattern`).
        let empty = bytes.iter().all(|&b| b == 0);
        let data = bytes.iter().all(|&b| b & 1 == 1) && page % 16 != 0;
        if (empty && seen_empty) || data {
            continue;
        }
        seen_empty |= empty;
        let rig = image.rig();
        rig.pm.fail_page(page * PAGE);
        let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
        match check(&rig.pm, &rig.disks, &options, &|_, _, _| {}) {
            Ok(report) => {
                let told = report.problems.iter().any(|p| p.what.contains("cannot be read"));
                assert!(told, "page {page}: {report:#?}");
            }
            Err(error) => assert!(error.message().is_some(), "page {page}: {error}"),
        }
        // An image of it would be worth nothing; but nobody saves free blocks.
        if let Err(error) = save(&rig.pm, &mut Vec::new(), &|_, _, _| {}) {
            assert!(error.message().is_some(), "page {page}: {error}");
        }
        let options = OpenOptions { cache_bytes: 8 << 20, ..Default::default() };
        if let Ok(v) = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}) {
            mounted += 1;
            let none = BTreeSet::new();
            let concerned = owners.get(&page).unwrap_or(&none);
            damaged += Reader { v: &v, whole: &whole, concerned, page }.read_dir(Ino::ROOT, "");
            let created = v.create(Ino::ROOT, b"new", &FILE);
            let _ = created.and_then(|a| v.write(a.ino, 0, &[1; 9000], WriteOptions::default()));
            let _ = v.close();
        }
    }
    assert!(mounted > 10 && damaged > 10, "{mounted} mounts, {damaged} files with errors");
}

/// Reads what can be read of a volume with a bad page.
struct Reader<'a> {
    v: &'a Volume,
    /// What is there when nothing is bad.
    whole: &'a rig::Tree,
    /// The inodes that may fail.
    concerned: &'a BTreeSet<u64>,
    page: u64,
}

impl Reader<'_> {
    /// All below a directory is as it should be, or fails and may; returns how many failed.
    fn read_dir(&self, dir: Ino, path: &str) -> u64 {
        let mut names = Vec::new();
        let listed = self.v.readdir(dir, 0, &mut |entry| {
            names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.ino));
            true
        });
        if let Err(error) = listed {
            return self.fails(dir, path, &error);
        }
        names.drain(..2);
        let found: BTreeSet<String> = names.iter().map(|(name, _)| name.clone()).collect();
        let child = |key: &String| key.strip_prefix(path)?.strip_prefix('/').map(str::to_owned);
        let expected = self.whole.keys().filter_map(child).filter(|name| !name.contains('/'));
        assert_eq!(found, expected.collect(), "{path:?} with page {} bad", self.page);
        names
            .iter()
            .map(|(name, ino)| self.read_name(dir, name, *ino, &format!("{path}/{name}")))
            .sum()
    }

    fn read_name(&self, dir: Ino, name: &str, ino: Ino, path: &str) -> u64 {
        let attr = match self.v.lookup(dir, name.as_bytes()) {
            Ok(attr) => attr,
            Err(error) => return self.fails(ino, path, &error),
        };
        match attr.kind {
            FileKind::Directory => self.read_dir(ino, path),
            FileKind::Regular => match read(self.v, ino, 0, attr.size as usize) {
                Ok(data) => {
                    let contents =
                        format!("{} bytes, crc {:x}", data.len(), terrace_layout::data_crc(&data));
                    assert!(
                        self.whole[path].ends_with(&contents),
                        "{path}: {}, found {contents}",
                        self.whole[path]
                    );
                    0
                }
                Err(error) => self.fails(ino, path, &error),
            },
            _ => 0,
        }
    }

    fn fails(&self, ino: Ino, path: &str, error: &FsError) -> u64 {
        assert_eq!(error.errno(), libc::EIO, "{path}: {error}");
        assert!(
            self.concerned.contains(&ino.0),
            "{path} has nothing in page {}: {error}",
            self.page
        );
        1
    }
}

/// The last write before a crash counts although its data cannot be read. Recovery stores nothing
/// there, so the volume is mounted, and only reads of that data fail.
#[test]
fn bad_data_of_the_last_write_keeps_no_volume_from_being_recovered() {
    let rig = populated(false);
    let v = rig.open(90);
    let (deep, small) = (find(&v, "dir/sub/deep"), find(&v, "small"));
    put(&v, deep, 8192, &[7; PAGE as usize]);
    let bad = data_at(&v, deep, 8192);
    v.abandon();
    std::mem::forget(v);
    rig.pm.fail_page(bad);
    let v = rig.open(90);
    assert_eq!(read(&v, deep, 8192, 10).unwrap_err().errno(), libc::EIO);
    put(&v, small, 0, b"others go on");
    assert_eq!(read(&v, small, 0, 12).unwrap(), b"others go on");
    v.close().unwrap();
}
