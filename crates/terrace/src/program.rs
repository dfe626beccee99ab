//! Looks at a program before it is run: whether a library can be preloaded into it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A script's interpreter may be a script. The kernel follows so many.
const INTERPRETERS_MAX: usize = 4;
/// Segments of an ELF file.
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;

/// Where a program is, as `execvp` looks for it.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|path| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Why the library has no effect in a program, if that can be seen.
pub fn stays_on_the_mount(path: &Path) -> Option<&'static str> {
    let mut path = path.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        let mut file = File::open(&path).ok()?;
        let mut start = [0; 256];
        let len = file.read(&mut start).ok()?;
        match interpreter(start.get(..len)?) {
            Some(next) => path = next,
            None => return of_elf(&file, start.get(..len)?),
        }
    }
    None
}

/// The interpreter of a script. `env` runs another one.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = OsStr::from_bytes(words.next()?);
    match (Path::new(first).file_name()?.as_bytes(), words.next()) {
        (b"env", Some(name)) => find(OsStr::from_bytes(name)),
        _ => Some(first.into()),
    }
}

/// Why the library has no effect in an ELF program of 64 bits. The rest is the loader's to tell.
fn of_elf(file: &File, start: &[u8]) -> Option<&'static str> {
    if start.get(..5)? != b"\x7fELF\x02" {
        return start.starts_with(b"\x7fELF").then_some("has not 64 bits");
    }
    if file.metadata().is_ok_and(|file| file.mode() & 0o6000 != 0 && file.uid() != own_user()) {
        return Some("runs as another user");
    }
    let word = |at: usize, len: usize| {
        let bytes = start.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (table, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    let mut has_interpreter = false;
    for number in 0..count {
        let mut header = [0; 56];
        file.read_exact_at(&mut header, table.checked_add(number.checked_mul(size)?)?).ok()?;
        let field = |at: usize| header.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        match u32::from_le_bytes(header.get(..4)?.try_into().ok()?) {
            PT_INTERP => has_interpreter = true,
            PT_NOTE if is_of_go(file, field(8)?) => return Some("is a Go program"),
            _ => {}
        }
    }
    (!has_interpreter).then_some("is statically linked")
}

/// Whether the note at an offset is that of Go's linker.
fn is_of_go(file: &File, at: u64) -> bool {
    let mut note = [0; 16];
    file.read_exact_at(&mut note, at).is_ok() && note.ends_with(b"Go\0\0")
}

fn own_user() -> u32 {
    rustix::process::getuid().as_raw()
}
