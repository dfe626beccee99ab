//! A live daemon and people who mean it no good: any ioctl with any bytes, from any user, and
//! anything on its socket for metrics. `TERRACE_SEED` chooses other bytes; with TERRACE_LONG there
//! are a hundred times as many.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use terrace_damage::targets::{Command, commands, is_for_all};
use terrace_proof::{Rng, Scratch, TestVolume, VolumeSpec, proof, run};

const NOBODY: u32 = 65534;
/// More than any ioctl's code can say that it carries.
const ARGUMENT_BYTES: usize = 1 << 14;

fn seed() -> u64 {
    std::env::var("TERRACE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn rounds() -> u64 {
    if std::env::var_os("TERRACE_LONG").is_some() { 20_000 } else { 200 }
}

/// Lets this thread act as another user on file systems, which only root can.
fn act_as(uid: u32) {
    // SAFETY: setfsgid(2) and setfsuid(2) take any number and change nothing but this thread's
    // identity on file systems.
    unsafe {
        libc::setfsgid(uid);
        libc::setfsuid(uid);
    }
}

/// One ioctl; its error, if it fails.
fn ioctl(file: &File, command: &Command) -> Option<i32> {
    let mut argument = command.page.clone();
    argument.resize(ARGUMENT_BYTES, 0);
    // SAFETY: `argument` is ours alone and as long as any code can say, and no code of other file
    // systems that this descriptor may understand takes more.
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), command.opcode.into(), argument.as_mut_ptr()) };
    (result < 0).then(|| std::io::Error::last_os_error().raw_os_error().unwrap_or_default())
}

/// Sends commands as a user; those that are not for everybody are refused to strangers.
fn command_as(uid: u32, files: &[File], mut rng: Rng) -> Result<()> {
    let is_stranger = uid != 0 && uid != rustix::process::geteuid().as_raw();
    act_as(uid);
    for round in 0..rounds() {
        let len = 1 + rng.below(200) as usize;
        for command in commands(&rng.bytes(len)) {
            let error = ioctl(&files[usize::from(command.file) % files.len()], &command);
            let may_pass = !is_stranger || is_for_all(command.opcode) || error == Some(libc::EPERM);
            ensure!(may_pass, "round {round}: {command:?}: {error:?}");
        }
    }
    Ok(())
}

/// Says something on the socket, in pieces, and goes without a word, or listens first.
fn speak(socket: &Path, rng: &mut Rng) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let mut said = match rng.below(4) {
        0 => rng.bytes(40),
        1 => b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        2 => vec![b'A'; 20_000],
        _ => b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(),
    };
    for _ in 0..rng.below(3) {
        let at = rng.below(said.len() as u64) as usize;
        said[at] = rng.next_u64() as u8;
    }
    said.truncate(1 + rng.below(said.len() as u64) as usize);
    for piece in said.chunks(1 + rng.below(said.len() as u64) as usize) {
        // It may have been answered, or have made room for others.
        let _ = stream.write_all(piece);
    }
    if rng.one_in(2) {
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    Ok(())
}

fn metrics(socket: &Path) -> Result<String> {
    let mut answer = String::new();
    // Later clients take the place of earlier ones: among so many, a client has to ask again.
    while answer.is_empty() {
        let mut stream = UnixStream::connect(socket)?;
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
    }
    Ok(answer)
}

/// A file of many extents, and one that nobody but its owner reads.
fn fill(volume: &TestVolume) -> Result<Vec<u8>> {
    let data = Rng::new(7).bytes(300_000);
    fs::write(volume.join("kept"), &data)?;
    let pieces = File::create(volume.join("pieces"))?;
    pieces.set_permissions(Permissions::from_mode(0o666))?;
    (0..500).try_for_each(|piece| pieces.write_all_at(&[7; 4096], piece * 8192))?;
    Ok(data)
}

#[test]
fn a_daemon_bears_whatever_it_is_told() {
    proof(|| {
        let is_root = rustix::process::geteuid().is_root();
        let place = Scratch::new("strangers")?;
        let socket = place.path().join("socket");
        let spec = VolumeSpec::new("strangers").options(&format!("metrics={}", socket.display()));
        let mut volume = if is_root { spec.shared() } else { spec }.mount()?;
        let data = fill(&volume)?;
        let open = |name: &str| File::open(volume.join(name)).context("opening");
        let files =
            || [open(""), open("kept"), open("pieces")].into_iter().collect::<Result<Vec<File>>>();
        let mine = rustix::process::geteuid().as_raw();
        let users = if is_root { vec![0, NOBODY, 4321] } else { vec![mine] };
        thread::scope(|scope| -> Result<()> {
            let mut attacks = Vec::new();
            for (n, uid) in (1..).zip(users) {
                let (files, rng) = (files()?, Rng::new(seed() << 8 | n));
                attacks.push(scope.spawn(move || command_as(uid, &files, rng)));
            }
            let mut rng = Rng::new(seed());
            (0..rounds()).try_for_each(|_| speak(&socket, &mut rng))?;
            ensure!(metrics(&socket)?.contains("\nterrace_volume_info{"), "no metrics");
            attacks
                .into_iter()
                .try_for_each(|attack| attack.join().expect("an attack does not panic"))
        })?;
        ensure!(fs::read(volume.join("kept"))? == data, "a file has changed");
        let status = run(volume.terrace("status")?.arg(volume.root()))?;
        ensure!(!status.contains("READ-ONLY"), "{status}");
        ensure!(!volume.daemon_log().contains("panicked"), "{}", volume.daemon_log());
        volume.check()
    });
}
