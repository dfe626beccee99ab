//! Reading, writing, mapping and locking.

use super::{as_nobody, must_fail, open, rivals, wait_until};
use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom, fallocate, seek};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use terrace_proof::{MIB, Rng, VolumeSpec, proof, run};

/// **P-09** Appends with O_APPEND from several processes never overwrite or split each other.
#[test]
fn appends_of_several_processes() {
    proof(|| {
        let mut volume = VolumeSpec::new("append").mount()?;
        let log = volume.join("log");
        let script = "i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo \"$1 $i\"; done >> \"$0\"";
        rivals(4, |writer| {
            run(Command::new("sh").args(["-c", script]).arg(&log).arg(writer.to_string()))
        })?
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
        volume.check()?;
        let mut next = [1; 4];
        let text = std::fs::read_to_string(&log)?;
        for line in text.lines() {
            let (writer, number) =
                line.split_once(' ').with_context(|| format!("torn line {line:?}"))?;
            let writer: usize = writer.parse()?;
            ensure!(
                number.parse::<u32>()? == next[writer],
                "writer {writer}: {number}, not {}",
                next[writer]
            );
            next[writer] += 1;
        }
        ensure!(next == [501; 4], "lines are missing: {next:?}");
        Ok(())
    });
}

/// **P-10** A file that was removed stays usable as long as it is open or mapped; then its space is
/// free again.
#[test]
fn unlinked_open_file() {
    proof(|| {
        let mut volume = VolumeSpec::new("unlinked").mount()?;
        let path = volume.join("file");
        // So that what the directory itself needs is there already.
        File::create(&path)?;
        let free = |volume: &terrace_proof::TestVolume| {
            Ok::<_, anyhow::Error>(rustix::fs::statvfs(volume.root())?.f_bfree)
        };
        let before = free(&volume)?;
        let file = open(&path, OFlags::RDWR)?;
        file.write_all_at(&[7; 8 << 20], 0)?;
        std::fs::remove_file(&path)?;
        must_fail(File::open(&path), libc::ENOENT)?;
        File::create(&path)?;
        let mut content = vec![0; 8 << 20];
        file.read_exact_at(&mut content, 0)?;
        ensure!(content.iter().all(|b| *b == 7), "the content changed");
        file.write_all_at(b"more", 8 << 20)?;
        let meta = file.metadata()?;
        ensure!(meta.nlink() == 0 && meta.len() == (8 << 20) + 4, "{meta:?}");
        if volume.is_mount() {
            ensure!(free(&volume)? + 2048 <= before, "an open file takes no space");
            drop(file);
            wait_until("the space of the removed file", || Ok(free(&volume)? + 16 >= before))?;
        }
        volume.check()
    });
}

/// **P-11** Shared writable mappings, read(2) and write(2) see each other's changes at once, in all
/// processes of the machine.
#[test]
fn shared_mappings_are_coherent() {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    proof(|| {
        let volume = VolumeSpec::new("mmap").mount()?;
        let path = volume.join("mapped");
        std::fs::write(&path, [b'.'; 8192])?;
        let file = open(&path, OFlags::RDWR)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of two pages of a file that long, unmapped below. Others change
        // its bytes, so it is accessed with volatile loads and stores of single bytes only.
        unsafe {
            let map = mmap(std::ptr::null_mut(), 8192, protection, MapFlags::SHARED, &file, 0)?
                .cast::<u8>();
            map.add(5000).write_volatile(b'M');
            let mut byte = [0];
            file.read_exact_at(&mut byte, 5000)?;
            ensure!(&byte == b"M", "read(2) does not see the store");
            let shown = run(Command::new("dd")
                .args(["bs=1", "skip=5000", "count=1", "status=none"])
                .arg(format!("if={}", path.display())))?;
            ensure!(shown == "M", "another process does not see the store");
            file.write_all_at(b"W", 5001)?;
            ensure!(map.add(5001).read_volatile() == b'W', "the mapping does not see write(2)");
            run(Command::new("sh")
                .args(["-c", "printf P | dd of=\"$0\" bs=1 seek=5002 conv=notrunc status=none"])
                .arg(&path))?;
            ensure!(
                map.add(5002).read_volatile() == b'P',
                "the mapping does not see another process"
            );
            munmap(map.cast(), 8192)?;
        }
        Ok(())
    });
}

/// **P-12** O_DIRECT works, needs no alignment, and agrees with buffered reads and writes and with
/// mappings, also where it is asynchronous (libaio, io_uring).
///
/// Synchronous here; `async_direct` has the rest.
#[test]
fn direct_io_is_coherent() {
    proof(|| {
        let volume = VolumeSpec::new("direct").pm_mib(32).mount()?;
        if !volume.is_mount() {
            return Ok(()); // The host's file system may ask for alignment.
        }
        let path = volume.join("file");
        let mut expected = Rng::new(7).bytes(3 * MIB as usize);
        std::fs::write(&path, &expected)?;
        let direct = open(&path, OFlags::RDWR | OFlags::DIRECT)?;
        let buffered = open(&path, OFlags::RDWR)?;
        let mut rng = Rng::new(8);
        for round in 0..200 {
            let offset = rng.below(2 * MIB) as usize;
            let len = 1 + rng.below(100_000) as usize;
            let (writer, reader) =
                if round % 2 == 0 { (&direct, &buffered) } else { (&buffered, &direct) };
            let bytes = rng.bytes(len);
            writer.write_all_at(&bytes, offset as u64)?;
            expected[offset..offset + len].copy_from_slice(&bytes);
            let (start, end) =
                (offset.saturating_sub(777), (offset + len + 777).min(expected.len()));
            let mut seen = vec![0; end - start];
            reader.read_exact_at(&mut seen, start as u64)?;
            ensure!(seen == expected[start..end], "round {round}: {len} bytes at {offset}");
        }
        ensure!(std::fs::read(&path)? == expected);
        Ok(())
    });
}

/// **P-13** A file may be sparse and up to 2^63 − 1 bytes long, far beyond PM and all disks. A hole
/// reads as zeros and takes no space.
#[test]
fn sparse_files_beyond_all_devices() {
    proof(|| {
        let mut volume = VolumeSpec::new("sparse").mount()?;
        let far = if volume.is_mount() { 1 << 62 } else { 1 << 40 };
        let file = open(&volume.join("sparse"), OFlags::RDWR | OFlags::CREATE)?;
        for offset in [1 << 30, (16 << 40) - 4096, far] {
            if volume.is_mount() || offset <= far {
                file.write_all_at(b"island", offset)?;
            }
        }
        if volume.is_mount() {
            file.set_len(i64::MAX as u64)?;
        }
        drop(file);
        volume.check()?;
        let file = File::open(volume.join("sparse"))?;
        let mut around = [1; 12];
        file.read_exact_at(&mut around, far - 6)?;
        ensure!(&around == b"\0\0\0\0\0\0island", "{around:?}");
        let meta = file.metadata()?;
        ensure!(!volume.is_mount() || meta.len() == i64::MAX as u64, "{meta:?}");
        ensure!(meta.blocks() < 1000, "a hole takes space: {} blocks of 512 bytes", meta.blocks());
        Ok(())
    });
}

/// **P-14** SEEK_HOLE and SEEK_DATA never call data a hole. From the end of the file on, both fail
/// with ENXIO.
#[test]
fn seeking_holes() {
    proof(|| {
        let mut volume = VolumeSpec::new("seek").pm_mib(32).mount()?;
        let path = volume.join("file");
        let file = open(&path, OFlags::RDWR | OFlags::CREATE)?;
        let mut rng = Rng::new(9);
        for _ in 0..40 {
            let len = 1 + rng.below(40_000) as usize;
            file.write_all_at(&rng.bytes(len), rng.below(40 * MIB))?;
            terrace_proof::check_holes(&path)?;
        }
        must_fail(seek(&file, SeekFrom::Data(file.metadata()?.len())), libc::ENXIO)?;
        must_fail(seek(&file, SeekFrom::Hole(100 * MIB)), libc::ENXIO)?;
        drop(file);
        volume.check()?;
        terrace_proof::check_holes(&path)
    });
}

/// **P-15** fallocate(2) allocates, with and without FALLOC_FL_KEEP_SIZE, punches holes and zeroes
/// ranges. Allocated, punched and zeroed ranges read as zeros, also after a crash, and a punched
/// hole gives its space back.
#[test]
fn fallocate_modes() {
    proof(|| {
        let mut volume = VolumeSpec::new("fallocate").mount()?;
        let path = volume.join("file");
        let file = open(&path, OFlags::RDWR | OFlags::CREATE)?;
        fallocate(&file, FallocateFlags::empty(), 0, MIB)?;
        ensure!(file.metadata()?.len() == MIB);
        fallocate(&file, FallocateFlags::KEEP_SIZE, MIB, MIB)?;
        ensure!(file.metadata()?.len() == MIB, "KEEP_SIZE did not keep it");
        file.write_all_at(&[9; 2 << 20], 0)?;
        let full = file.metadata()?.blocks();
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096 + 100, MIB)?;
        ensure!(file.metadata()?.blocks() + 2000 < full, "the hole kept its space");
        fallocate(&file, FallocateFlags::ZERO_RANGE, 2 * MIB - 50, 100)?;
        fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 2 * MIB, MIB)?;
        let mut expected = vec![9; 2 * MIB as usize + 50];
        expected[4196..4196 + MIB as usize].fill(0);
        expected[2 * MIB as usize - 50..].fill(0);
        ensure!(std::fs::read(&path)? == expected, "wrong content");
        file.sync_all()?;
        volume.power_cut()?;
        volume.remount()?;
        ensure!(std::fs::read(&path)? == expected, "wrong content after a power cut");
        must_fail(fallocate(&File::open(&path)?, FallocateFlags::empty(), 0, 1), libc::EBADF)?;
        volume.check()
    });
}

/// **P-16** flock(2) locks, fcntl(2) record locks and open file description locks hold among all
/// processes of the machine and end with their holder.
#[test]
fn locks() {
    proof(|| {
        let volume = VolumeSpec::new("locks").mount()?;
        let path = volume.join("file");
        std::fs::write(&path, "lock me")?;
        let file = open(&path, OFlags::RDWR)?;
        let other = open(&path, OFlags::RDWR)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        must_fail(
            rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive),
            libc::EWOULDBLOCK,
        )?;
        let try_flock = "flock --nonblock --conflict-exit-code 7 \"$0\" true; echo $?";
        let attempt = || run(Command::new("sh").args(["-c", try_flock]).arg(&path));
        ensure!(attempt()?.trim() == "7", "another process got a flock that is held");
        drop(file);
        // A process that another test starts has a copy of the descriptor between its fork and its
        // exec.
        wait_until("the flock ends with its descriptor", || Ok(attempt()?.trim() == "0"))?;
        record_lock_of_a_process(&path)?;
        description_locks(&path)
    });
}

/// A process takes a record lock, waits for its input to close, and exits.
fn record_lock_of_a_process(path: &Path) -> Result<()> {
    use std::process::Stdio;
    let file = open(path, OFlags::RDWR)?;
    // SQLite takes fcntl locks; holding a transaction open holds one.
    let script = ".timeout 0\nBEGIN EXCLUSIVE;\nSELECT 'held';\n";
    let mut holder = Command::new("stdbuf")
        .args(["-oL", "sqlite3"])
        .arg(path.with_file_name("locked.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = holder.stdin.take().context("no stdin")?;
    stdin.write_all(script.as_bytes())?;
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(holder.stdout.take().context("no stdout")?),
        &mut line,
    )?;
    ensure!(line.trim() == "held", "sqlite3 says {line}");
    let database = path.with_file_name("locked.db");
    let rival =
        run(Command::new("sqlite3").arg(&database).arg(".timeout 0").arg("CREATE TABLE t(x);"));
    ensure!(
        rival.is_err_and(|e| format!("{e:#}").contains("locked")),
        "a rival got the record lock"
    );
    holder.kill()?;
    holder.wait()?;
    drop(stdin);
    run(Command::new("sqlite3").arg(&database).arg("CREATE TABLE t(x);"))?;
    drop(file);
    Ok(())
}

/// F_OFD_SETLK through libc, which has no safe wrapper.
fn description_locks(path: &Path) -> Result<()> {
    use std::os::fd::AsRawFd;
    let lock = |file: &File, kind: i32| -> std::io::Result<()> {
        let range = libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: 10,
            l_len: 5,
            l_pid: 0,
        };
        // SAFETY: a valid descriptor and a flock structure that lives until the call returns.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    let (one, two) = (open(path, OFlags::RDWR)?, open(path, OFlags::RDWR)?);
    lock(&one, libc::F_RDLCK)?;
    lock(&two, libc::F_RDLCK)?;
    must_fail(lock(&two, libc::F_WRLCK), libc::EAGAIN)?;
    drop(one);
    // As with flock(2), another test may have a copy for a moment.
    wait_until("the lock ends with its description", || Ok(lock(&two, libc::F_WRLCK).is_ok()))
}

/// **P-17** copy_file_range(2), sendfile(2) and splice(2) work as on other file systems.
#[test]
fn copies_in_the_kernel() {
    proof(|| {
        let mut volume = VolumeSpec::new("copy").pm_mib(32).mount()?;
        let content = Rng::new(10).bytes(40 * MIB as usize);
        std::fs::write(volume.join("from"), &content)?;
        let from = File::open(volume.join("from"))?;
        let to = open(&volume.join("to"), OFlags::RDWR | OFlags::CREATE)?;
        let (mut from_at, mut to_at) = (1000, 5000);
        while from_at < content.len() as u64 {
            let len = content.len() - from_at as usize;
            let copied =
                rustix::fs::copy_file_range(&from, Some(&mut from_at), &to, Some(&mut to_at), len)?;
            ensure!(copied > 0, "copy_file_range stopped at {from_at}");
        }
        let sent = open(&volume.join("sent"), OFlags::RDWR | OFlags::CREATE)?;
        let mut at = 0;
        while at < content.len() as u64 {
            rustix::fs::sendfile(&sent, &from, Some(&mut at), content.len())?;
        }
        // cat(1) between pipes and files splices where it can.
        let script = "cat \"$0\" | cat > \"$1\"";
        run(Command::new("sh")
            .args(["-c", script])
            .arg(volume.join("from"))
            .arg(volume.join("piped")))?;
        drop((from, to, sent));
        volume.check()?;
        let copy = std::fs::read(volume.join("to"))?;
        ensure!(
            copy[..5000].iter().all(|b| *b == 0) && copy[5000..] == content[1000..],
            "copy_file_range"
        );
        ensure!(std::fs::read(volume.join("sent"))? == content, "sendfile");
        ensure!(std::fs::read(volume.join("piped"))? == content, "pipe");
        Ok(())
    });
}

/// **P-18** A write, a truncation, a fallocate or a change of owner by a user without privilege
/// clears the set-user-ID bit, and the set-group-ID bit if the group may execute the file or the
/// user is not in the group.
#[test]
fn set_id_bits_are_cleared() {
    proof(|| set_id_bits_on(VolumeSpec::new("set-id").shared()));
}

/// So they are where files may be lent, and appends go past the kernel's cache.
#[test]
fn set_id_bits_are_cleared_on_a_mount_that_lends() {
    proof(|| set_id_bits_on(VolumeSpec::new("set-id-lent").shared().options("lend=owner")));
}

fn set_id_bits_on(volume: VolumeSpec) -> Result<()> {
    let volume = volume.mount()?;
    let mode =
        |name: &str| Ok::<_, anyhow::Error>(std::fs::metadata(volume.join(name))?.mode() & 0o7777);
    for (name, script) in [
        ("written", "echo more >> \"$f\""),
        ("truncated", ": > \"$f\""),
        ("shortened", "truncate --size 1 \"$f\""),
        ("allocated", "fallocate --length 5000 \"$f\""),
        ("given", "chgrp 65534 \"$f\""),
    ] {
        let path = volume.join(name);
        std::fs::write(&path, "content")?;
        let modes = [(0o6777, 0o777), (0o4766, 0o766), (0o2770, 0o770)]
            .map(|(before, after)| (65534, before, after));
        for (group, before, after) in
            modes.into_iter().chain([(65534, 0o2766, 0o2766), (0, 0o2766, 0o766)])
        {
            std::os::unix::fs::chown(&path, Some(65534), Some(group))?;
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(before))?;
            // Reads make the kernel remember what it knows of the file.
            ensure!(mode(name)? == before);
            as_nobody(&format!("f='{}'; {script}", path.display()))?;
            ensure!(
                mode(name)? == after,
                "{name}: {before:o} became {:o}, not {after:o}",
                mode(name)?
            );
        }
    }
    Ok(())
}
