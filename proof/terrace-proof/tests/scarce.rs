//! A daemon that may use little of something: memory, shared memory, descriptors. It goes on, loses
//! nothing that was written, and says what it lacks.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use terrace_proof::{MIB, Rng, Scratch, TestVolume, VolumeSpec, proof, run, skip};

/// A cgroup, removed when dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    /// One that allows so much memory.
    ///
    /// # Errors
    /// A skip where this machine has none, or lets us make none.
    fn of_memory(name: &str, bytes: u64) -> Result<Cgroup> {
        let (cgroup, is_version_1) = Cgroup::new(name, "memory")?;
        // Not everywhere is swap accounted for.
        if is_version_1 {
            fs::write(cgroup.0.join("memory.limit_in_bytes"), bytes.to_string())?;
            let _ = fs::write(cgroup.0.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        } else {
            fs::write(cgroup.0.join("memory.max"), bytes.to_string())?;
            let _ = fs::write(cgroup.0.join("memory.swap.max"), "0");
        }
        Ok(cgroup)
    }

    /// One that allows so many threads.
    ///
    /// # Errors
    /// As [`Self::of_memory`].
    fn of_threads(name: &str, count: u64) -> Result<Cgroup> {
        let (cgroup, _) = Cgroup::new(name, "pids")?;
        fs::write(cgroup.0.join("pids.max"), count.to_string())?;
        Ok(cgroup)
    }

    /// One of a controller, and whether that is of version 1.
    fn new(name: &str, controller: &str) -> Result<(Cgroup, bool)> {
        let root = Path::new("/sys/fs/cgroup");
        let version_1 = root.join(controller);
        let version_2 = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let is_version_1 = version_1.join("cgroup.procs").exists();
        let parent = match is_version_1 {
            true => version_1,
            false if version_2.split_whitespace().any(|known| known == controller) => {
                root.to_owned()
            }
            false => return Err(skip(format!("no cgroup here has the controller {controller}"))),
        };
        let dir = parent.join(format!("terrace-proof-{name}-{}", std::process::id()));
        fs::create_dir(&dir).map_err(|error| {
            skip(format!("no cgroup can be made in {}: {error}", parent.display()))
        })?;
        Ok((Cgroup(dir), is_version_1))
    }

    /// Has the shell that runs it enter the cgroup.
    fn enter(&self) -> String {
        format!("echo $$ >'{}'", self.0.join("cgroup.procs").display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The daemon was waited for; the kernel needs a moment to take it out.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{} is left over", self.0.display());
    }
}

/// A small file system in memory, unmounted when dropped.
struct SmallMemory(Scratch);

impl SmallMemory {
    /// # Errors
    /// A skip for who may not mount.
    fn new(name: &str, kib: u64) -> Result<SmallMemory> {
        let scratch = Scratch::new_in(Path::new("/var/tmp"), name)?;
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k,mode=700"), "tmpfs"])
            .arg(scratch.path());
        run(&mut mount).map_err(|error| skip(format!("no tmpfs can be mounted: {error:#}")))?;
        Ok(SmallMemory(scratch))
    }

    fn option(&self) -> String {
        format!("cache_dir={}", self.0.path().display())
    }

    /// Takes all room that is left.
    fn fill(&self) -> Result<()> {
        let mut file = File::create(self.0.join("filler"))?;
        let piece = [1; 4096];
        loop {
            match file.write_all(&piece) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Ok(()),
                written => written?,
            }
        }
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg("-l").arg(self.0.path())) {
            eprintln!("{error:#}");
        }
    }
}

/// Files as they must be.
type Files = HashMap<String, Vec<u8>>;

/// Long files written in a stream by several threads, then written over here and there; and short
/// files.
fn load(volume: &TestVolume, seed: u64, long_mib: u64) -> Result<Files> {
    const THREADS: u64 = 3;
    let write = |thread: u64| -> Result<Files> {
        let mut rng = Rng::new(seed * THREADS + thread);
        let mut files = Files::new();
        let name = format!("long-{seed}-{thread}");
        let mut long = rng.bytes((long_mib * MIB / THREADS) as usize);
        let file = File::create_new(volume.join(&name))?;
        for (at, piece) in (0..).step_by(MIB as usize).zip(long.chunks(MIB as usize)) {
            file.write_all_at(piece, at)?;
        }
        for _ in 0..300 {
            let piece = rng.bytes(1 + rng.clone().below(20_000) as usize);
            let at = rng.below((long.len() - piece.len()) as u64);
            file.write_all_at(&piece, at)?;
            long[at as usize..][..piece.len()].copy_from_slice(&piece);
        }
        files.insert(name, long);
        for i in 0..200 {
            let bytes = rng.bytes(1 + rng.clone().below(9000) as usize);
            let name = format!("short-{seed}-{thread}-{i}");
            fs::write(volume.join(&name), &bytes)?;
            files.insert(name, bytes);
        }
        Ok(files)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        let files = threads.into_iter().map(|thread| thread.join().expect("writers do not panic"));
        Ok(files.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

fn compare(volume: &TestVolume, files: &Files) -> Result<()> {
    for (name, expected) in files {
        let found = fs::read(volume.join(name)).with_context(|| name.clone())?;
        let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
        ensure!(
            found == *expected,
            "{name}: {} of {} bytes, wrong from byte {same} on",
            found.len(),
            expected.len()
        );
    }
    Ok(())
}

fn status(volume: &TestVolume) -> Result<String> {
    run(volume.terrace("status")?.arg(volume.root()))
}

/// All of it is there, also after SIGKILL, and the volume is sound.
fn survives(mut volume: TestVolume, files: &Files) -> Result<()> {
    compare(&volume, files)?;
    volume.kill()?;
    volume.remount()?;
    compare(&volume, files)?;
    volume.check()?;
    compare(&volume, files)
}

#[test]
fn a_cgroup_of_256_mib() {
    proof(|| {
        let cgroup = Cgroup::of_memory("memory", 256 * MIB)?;
        let volume = VolumeSpec::new("scarce-memory").prepared_by(&cgroup.enter()).mount()?;
        let files = load(&volume, 1, 330)?;
        ensure!(
            status(&volume)?.contains("of 32 MiB"),
            "the cache is an eighth: {}",
            status(&volume)?
        );
        for (verb, file) in [
            ("evict", "long-1-0"),
            ("evict", "short-1-0-7"),
            ("warm", "short-1-0-7"),
            ("scrub", ""),
        ] {
            run(volume.terrace(verb)?.arg(volume.join(file)))?;
        }
        survives(volume, &files)
    });
}

#[test]
fn a_cache_that_is_chosen_too_large_for_the_cgroup() {
    proof(|| {
        let cgroup = Cgroup::of_memory("chosen", 256 * MIB)?;
        let volume = VolumeSpec::new("scarce-chosen")
            .options("cache=1G")
            .prepared_by(&cgroup.enter())
            .mount()?;
        let files = load(&volume, 1, 330)?;
        ensure!(volume.daemon_log().contains("cgroup allows 256 MiB"), "{}", volume.daemon_log());
        survives(volume, &files)
    });
}

/// Queues over io_uring want more threads; `/dev/fuse` does with these.
#[test]
fn forty_threads() {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    proof(|| {
        let cgroup = Cgroup::of_threads("threads", 40)?;
        let volume = VolumeSpec::new("scarce-threads")
            .options("transport=auto")
            .prepared_by(&cgroup.enter())
            .mount()?;
        let is_offered = fs::read_to_string(SWITCH).is_ok_and(|state| state.trim() == "Y");
        let reason = if is_offered { "queues over io_uring failed" } else { "as " };
        let log = volume.daemon_log();
        ensure!(log.contains("messages come over /dev/fuse") && log.contains(reason), "{log}");
        ensure!(status(&volume)?.contains("transport: /dev/fuse"), "{}", status(&volume)?);
        let files = load(&volume, 1, 90)?;
        survives(volume, &files)
    });
}

/// Without any room for the cache's file, the volume does without one.
#[test]
fn shared_memory_that_is_full_at_mount() {
    proof(|| {
        let memory = SmallMemory::new("full", 1024)?;
        memory.fill()?;
        let volume = VolumeSpec::new("scarce-full").options(&memory.option()).mount()?;
        ensure!(status(&volume)?.contains("no room"), "{}", status(&volume)?);
        ensure!(volume.daemon_log().contains("no room"), "{}", volume.daemon_log());
        let files = load(&volume, 1, 90)?;
        survives(volume, &files)
    });
}

#[test]
fn shared_memory_that_fills_up_under_load() {
    proof(|| {
        for kib in [3600, 8 << 10, 40 << 10] {
            let memory = SmallMemory::new("fills", kib)?;
            let volume = VolumeSpec::new("scarce-fills")
                .options("cache=64M")
                .options(&memory.option())
                .mount()?;
            let mut files = load(&volume, 1, 9)?;
            memory.fill()?;
            files.extend(load(&volume, 2, 60)?);
            ensure!(status(&volume)?.contains("its file system is full"), "{}", status(&volume)?);
            survives(volume, &files)?;
        }
        Ok(())
    });
}

/// Connections that take all descriptors of the daemon keep neither files nor, once they are gone,
/// metrics from working.
#[test]
fn sixty_four_descriptors() {
    proof(|| {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let options = format!("metrics={address},threads=4");
        let spec = VolumeSpec::new("scarce-files").options(&options).prepared_by("ulimit -n 64");
        let mut volume = spec.mount()?;
        let held: Vec<TcpStream> =
            (0..100).filter_map(|_| TcpStream::connect(address).ok()).collect();
        let open: Vec<File> = (0..200)
            .map(|i| File::create(volume.join(&format!("open-{i}"))))
            .collect::<std::io::Result<_>>()?;
        let mut files = load(&volume, 1, 90)?;
        for (i, file) in open.iter().enumerate() {
            file.write_all_at(&[i as u8; 5000], 0)?;
            files.insert(format!("open-{i}"), vec![i as u8; 5000]);
        }
        run(volume.terrace("sync")?.arg(volume.root()))?;
        run(volume.terrace("evict")?.arg(volume.join("short-1-0-7")))?;
        drop((held, open));
        let answer = metrics(address)?;
        ensure!(answer.contains("terrace_"), "{answer}");
        volume.check()?;
        compare(&volume, &files)
    });
}

/// The answer to a scrape, which a server that is still busy with earlier connections may refuse at
/// first.
fn metrics(address: SocketAddr) -> Result<String> {
    for _ in 0..600 {
        let scrape = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(
                b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        match scrape() {
            Ok(answer) if answer.contains("200 OK") => return Ok(answer),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    bail!("{address} does not answer")
}
