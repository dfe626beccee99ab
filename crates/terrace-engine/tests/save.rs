//! Images of PM: what comes back is what was saved, or nothing.

mod rig;

use std::io::{Read, Write};
use std::sync::LazyLock;

use rig::{DISK_BYTES, Image, PM_BYTES, Rig, pattern, populated, put, tree};
use terrace_engine::{Ino, read_pm_label, restore, save, saved_pm_len};
use terrace_layout::{IMAGE_DATA, IMAGE_END, ImageHeader, ImageRun, ImageTrailer, MediaStruct};
use terrace_media::Pm;
use zerocopy::IntoBytes;

const HEADER: usize = size_of::<ImageHeader>();
const RUN: usize = size_of::<ImageRun>();

fn saved(rig: &Rig) -> Vec<u8> {
    let before = rig.image();
    let mut bytes = Vec::new();
    let len = save(&rig.pm, &mut bytes, &|_, _, _| {}).unwrap();
    assert_eq!(len, bytes.len() as u64);
    assert!(rig.image() == before, "saving changes nothing");
    bytes
}

/// A PM device that holds another volume, and its bytes.
fn used_pm(bytes: u64) -> Rig {
    let rig = Rig::new(bytes, false);
    let v = rig.open(90);
    let f = v.create(Ino::ROOT, b"old", &rig::FILE).unwrap().ino;
    put(&v, f, 0, &pattern(bytes as usize / 4, 9));
    v.close().unwrap();
    rig
}

fn restored(image: &[u8], rig: &Rig, pm_bytes: u64) -> Rig {
    let target = used_pm(pm_bytes);
    restore(&mut &image[..], &target.pm, &|_, _, _| {}).unwrap();
    Rig { pm: target.pm, disks: rig.disks.clone() }
}

static TARGET: LazyLock<Vec<u8>> = LazyLock::new(|| used_pm(PM_BYTES).image().0.remove(0));

/// Refused, and nobody takes the device for a volume that it does not hold.
fn must_be_refused(image: &[u8], why: &str) -> String {
    let pm = Pm::anonymous(PM_BYTES);
    pm.write(0, &TARGET);
    let error = restore(&mut &image[..], &pm, &|_, _, _| {}).expect_err(why);
    let mut after = vec![0; TARGET.len()];
    pm.read(0, &mut after);
    let untouched = after == *TARGET;
    let label = read_pm_label(&pm).unwrap();
    assert!(untouched || label.is_none(), "{why}: a volume is left");
    error.to_string()
}

/// Where the parts of an image start, the trailer last.
fn parts(image: &[u8]) -> Vec<usize> {
    let mut at = HEADER;
    let mut starts = vec![at];
    loop {
        let run = ImageRun::from_bytes(&image[at..]);
        if run.kind == IMAGE_END {
            assert_eq!(at + RUN, image.len());
            return starts;
        }
        at += RUN + run.content_bytes() as usize;
        starts.push(at);
    }
}

#[test]
fn a_clean_volume_comes_back() {
    for checksums in [false, true] {
        let rig = populated(checksums);
        let expected = tree(&rig.image().rig().open(90));
        let image = saved(&rig);
        assert_eq!(saved_pm_len(&mut &image[..]).unwrap(), PM_BYTES);
        for pm_bytes in [PM_BYTES, PM_BYTES + (3 << 20)] {
            let disks = rig.image().rig().disks;
            let back = restored(&image, &Rig { pm: rig.pm.clone(), disks }, pm_bytes);
            assert!(read_pm_label(&back.pm).unwrap().unwrap().clean);
            assert_eq!(back.check(false).problems.len(), 0);
            let v = back.open(90);
            assert_eq!(tree(&v), expected);
            put(&v, rig::find(&v, "small"), 0, &pattern(50_000, 4));
            v.close().unwrap();
            assert_eq!(back.check(false).problems.len(), 0);
        }
    }
}

#[test]
fn a_volume_that_needs_recovery_comes_back() {
    let rig = populated(false);
    let v = rig.open(90);
    let small = rig::find(&v, "small");
    put(&v, small, 100, b"another patch");
    v.create(Ino::ROOT, b"new", &rig::FILE).unwrap();
    v.unlink(Ino::ROOT, b"hard").unwrap();
    v.sync().unwrap();
    let crashed = rig.image().rig();
    v.close().unwrap();
    let image = saved(&crashed);
    let expected = tree(&crashed.image().rig().open(90));
    let back = restored(&image, &crashed, PM_BYTES);
    assert!(!read_pm_label(&back.pm).unwrap().unwrap().clean);
    assert_eq!(tree(&back.open(90)), expected);
}

#[test]
fn images_are_small() {
    let rig = Rig::new(256 << 20, false);
    let image = saved(&rig);
    assert!(image.len() < 64 << 10, "an empty volume takes {} bytes", image.len());
    let v = rig.open(90);
    let f = v.create(Ino::ROOT, b"f", &rig::FILE).unwrap().ino;
    put(&v, f, 0, &pattern(1 << 20, 1));
    put(&v, f, 1 << 20, &vec![0; 1 << 20]);
    v.close().unwrap();
    let image = saved(&rig);
    assert!(
        image.len() < (1 << 20) + (128 << 10),
        "{} bytes for 1 MiB of data and 1 MiB of zeros",
        image.len()
    );
}

#[test]
fn of_a_damaged_volume_everything_is_saved() {
    let rig = populated(false);
    // Recovery is needed and cannot read a log: nobody knows what is in use.
    let label = read_pm_label(&rig.pm).unwrap().unwrap();
    assert!(label.clean);
    rig.flip(0, rig.entry_at(rig.ino("long"), "write") + 20);
    rig.pm.write(checkpoint_at(&rig), &[0; 8]);
    let image = saved(&rig);
    let back = restored(&image, &rig, PM_BYTES);
    assert!(back.image().0[0] == rig.image().0[0], "PM is the same to the last byte");
}

#[test]
fn a_damaged_checkpoint_does_not_matter() {
    let rig = populated(false);
    let expected = tree(&rig.image().rig().open(90));
    // The group summaries follow the header's block.
    rig.flip(0, checkpoint_at(&rig) + 4096);
    let image = saved(&rig);
    let back = restored(&image, &rig, PM_BYTES);
    assert_eq!(tree(&back.open(90)), expected);
}

fn checkpoint_at(rig: &Rig) -> u64 {
    let mut text = Vec::new();
    terrace_engine::dump_superblock(&rig.pm, &mut text).unwrap();
    rig::number_after(&String::from_utf8(text).unwrap(), "checkpoint (block ").unwrap() * 4096
}

#[test]
fn images_cut_short_are_refused() {
    let image = saved(&Rig::new(2 << 20, false));
    let mut cuts = vec![0, 1, HEADER - 1, image.len() - 1];
    cuts.extend(parts(&image).into_iter().flat_map(|at| [at, at + 1, at + RUN - 1, at + RUN]));
    for cut in cuts.into_iter().filter(|&cut| cut < image.len()) {
        let error = must_be_refused(&image[..cut], &format!("{cut} of {} bytes", image.len()));
        assert!(error.contains("ends too early"), "{error}");
    }
}

#[test]
fn damaged_images_are_refused() {
    let image = saved(&Rig::new(2 << 20, false));
    let parts = parts(&image);
    let mut places: Vec<usize> = (0..HEADER).collect();
    for pair in parts.windows(2) {
        places.extend(pair[0]..pair[0] + RUN);
        places.extend((pair[0] + RUN..pair[1]).step_by(1031));
    }
    places.extend(image.len() - RUN..image.len());
    for place in places {
        let mut damaged = image.clone();
        damaged[place] ^= 0x40;
        must_be_refused(&damaged, &format!("byte {place} is flipped"));
    }
}

#[test]
fn parts_must_all_be_there_once_and_in_order() {
    let image = saved(&populated(false));
    let parts = parts(&image);
    let part = |i: usize| &image[parts[i]..parts.get(i + 1).copied().unwrap_or(image.len())];
    let all = || (0..parts.len()).collect::<Vec<_>>();
    let count = parts.len();
    assert!(count > 5, "there are some runs to play with");
    let built = |order: &[usize]| {
        order.iter().fold(image[..HEADER].to_vec(), |mut bytes, &i| {
            bytes.extend_from_slice(part(i));
            bytes
        })
    };
    assert!(built(&all()) == image);
    for i in 0..count {
        let mut order = all();
        order.remove(i);
        must_be_refused(&built(&order), &format!("part {i} is missing"));
    }
    for i in 0..count - 1 {
        let mut order = all();
        order.swap(i, i + 1);
        must_be_refused(&built(&order), &format!("parts {i} and the next are exchanged"));
        let mut order = all();
        order.insert(i, i);
        must_be_refused(&built(&order), &format!("part {i} is there twice"));
    }
    let mut longer = image.clone();
    longer.push(0);
    let error = must_be_refused(&longer, "a byte follows");
    assert!(error.contains("follows its end"), "{error}");
}

/// Runs that are sound in themselves, but lie where none can be.
#[test]
fn impossible_runs_are_refused() {
    let image = saved(&Rig::new(2 << 20, false));
    let parts = parts(&image);
    let blocks = ImageHeader::from_bytes(&image).blocks;
    let block = vec![1u8; 4096];
    for (start, len, contents) in [
        (0, 1, Some(&block[..])),
        (blocks, 1, Some(&block[..])),
        (u64::MAX, 1, Some(&block[..])),
        (3, u64::MAX, None),
        (3, 0, None),
        (3, blocks, None),
        (3, u64::MAX, Some(&block[..])),
    ] {
        let mut bytes = image[..parts[1]].to_vec();
        bytes.extend_from_slice(ImageRun::new(start, len, contents).as_bytes());
        bytes.extend_from_slice(contents.unwrap_or_default());
        let crc = terrace_layout::data_crc(&bytes);
        bytes.extend_from_slice(ImageTrailer::new(2, 2u64.wrapping_add(len), crc).as_bytes());
        let error = must_be_refused(&bytes, &format!("{len} blocks at {start}"));
        assert!(error.contains("not where one can be"), "{error}");
    }
    let mut other = ImageRun::from_bytes(&image[parts[1]..]);
    other.kind = IMAGE_DATA + 7;
    let mut bytes = image[..parts[1]].to_vec();
    bytes.extend_from_slice(other.as_bytes());
    must_be_refused(&bytes, "a run of no known kind");
}

#[test]
fn an_image_larger_than_pm_is_refused_and_pm_left_alone() {
    let image = saved(&Rig::new(4 << 20, false));
    let target = used_pm(2 << 20);
    let before = target.image();
    let error = restore(&mut &image[..], &target.pm, &|_, _, _| {}).unwrap_err();
    assert_eq!(error.errno(), libc::ENOSPC);
    assert!(error.to_string().contains("4194304"), "{error}");
    assert!(target.image() == before);
}

#[test]
fn what_is_no_image_is_named_as_such() {
    assert!(must_be_refused(&[7; 200], "noise").contains("no image"));
    let image = saved(&Rig::new(2 << 20, false));
    let mut header = ImageHeader::from_bytes(&image);
    header.major += 1;
    header.seal();
    let newer = [header.as_bytes(), &image[HEADER..]].concat();
    assert!(must_be_refused(&newer, "newer").contains("not supported"));
    let mut header = ImageHeader::from_bytes(&image);
    header.uuid[3] ^= 1;
    header.seal();
    let foreign = [header.as_bytes(), &image[HEADER..]].concat();
    assert!(must_be_refused(&foreign, "another volume's").contains("header names"));
}

#[test]
fn the_length_is_read_from_the_header_alone() {
    let image = saved(&Rig::new(2 << 20, false));
    let mut input = &image[..];
    assert_eq!(saved_pm_len(&mut input).unwrap(), 2 << 20);
    assert_eq!(image.len() - input.len(), HEADER);
    assert!(saved_pm_len(&mut &image[..HEADER - 1]).is_err());
}

#[test]
fn what_holds_no_volume_is_not_saved() {
    let error = save(&Pm::anonymous(1 << 20), &mut Vec::new(), &|_, _, _| {}).unwrap_err();
    assert!(error.to_string().contains("no Terrace volume"), "{error}");
    let rig = Rig::new(2 << 20, false);
    let image = rig.image();
    let disk_as_pm = Image(vec![image.0[1].clone(), image.0[0].clone()]).rig();
    assert_eq!(disk_as_pm.pm.len(), DISK_BYTES);
    let error = save(&disk_as_pm.pm, &mut Vec::new(), &|_, _, _| {}).unwrap_err();
    assert!(error.to_string().contains("disk 1"), "{error}");
}

/// Takes so many bytes, then is full.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(buf.len())
            .ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOSPC))?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Fails after so many bytes.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buf)? {
            0 => Err(std::io::Error::from_raw_os_error(libc::EIO)),
            n => Ok(n),
        }
    }
}

#[test]
fn streams_that_fail_are_reported() {
    let rig = Rig::new(2 << 20, false);
    for room in [0, 70, 9000] {
        let error = save(&rig.pm, &mut Full(room), &|_, _, _| {}).unwrap_err();
        assert_eq!(error.errno(), libc::ENOSPC);
    }
    let image = saved(&rig);
    for len in [10, 5000, image.len() - 1, image.len()] {
        let target = used_pm(2 << 20);
        let error = restore(&mut Broken(&image[..len]), &target.pm, &|_, _, _| {}).unwrap_err();
        assert_eq!(error.errno(), libc::EIO);
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}

/// A crash at any fence of a restore leaves no volume, or all of it.
#[test]
fn an_interrupted_restore_leaves_no_volume() {
    let rig = populated(false);
    let image = saved(&rig);
    let expected = tree(&rig.image().rig().open(90));
    let (pm, sim) = Pm::simulated_from(used_pm(PM_BYTES).image().0.remove(0));
    let states = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = states.clone();
    sim.set_on_fence(Box::new(move |sim| {
        let mut states = seen.lock();
        states.push(sim.durable_image());
        states.extend((0..3).map(|seed| sim.crash_image_random(seed)));
    }));
    restore(&mut &image[..], &pm, &|_, _, _| {}).unwrap();
    sim.clear_on_fence();
    let disks = rig.image().0.split_off(1);
    let (mut volumes, mut nothing) = (0, 0);
    let old = read_pm_label(&used_pm(PM_BYTES).pm).unwrap().unwrap();
    let restored = read_pm_label(&rig.pm).unwrap().unwrap().uuid;
    for (i, state) in states.lock().drain(..).enumerate() {
        let after = Image(std::iter::once(state).chain(disks.clone()).collect()).rig();
        match read_pm_label(&after.pm) {
            Ok(None) => nothing += 1,
            // A superblock that was being zeroed, or written.
            Err(_) => nothing += 1,
            Ok(Some(label)) if label.uuid == restored => {
                assert_eq!(tree(&after.open(90)), expected, "state {i}");
                volumes += 1;
            }
            Ok(Some(label)) => {
                assert!(i < 4, "state {i} is still the old volume");
                assert_eq!(label.devices.len(), old.devices.len());
            }
        }
    }
    assert!(volumes > 0 && nothing > 0);
}

#[test]
fn progress_reaches_its_end() {
    let rig = populated(false);
    let last = parking_lot::Mutex::new((0, 0));
    let mut image = Vec::new();
    save(&rig.pm, &mut image, &|what, done, total| {
        assert_eq!(what, "saving");
        assert!(done <= total);
        *last.lock() = (done, total);
    })
    .unwrap();
    let (done, total) = *last.lock();
    assert_eq!(done, total);
    let pm = Pm::anonymous(PM_BYTES);
    restore(&mut &image[..], &pm, &|what, done, total| {
        assert_eq!(what, "restoring");
        assert!(done <= total);
    })
    .unwrap();
}
