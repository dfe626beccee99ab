//! Patterns of the user: which paths may go direct, and which not.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use crate::environment::variable;
use crate::{raw, room};

/// A list of patterns with colons between them, copied from the environment.
struct List {
    at: AtomicPtr<u8>,
    len: AtomicUsize,
}

static ONLY: List = List::new();
static NOT: List = List::new();

impl List {
    const fn new() -> Self {
        Self { at: AtomicPtr::new(std::ptr::null_mut()), len: AtomicUsize::new(0) }
    }

    /// Copies a variable: the program may change its environment.
    fn copy(&self, value: Option<&[u8]>) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        let Some(at) = room::map(value.len()) else { return };
        // SAFETY: The mapping is new, and as long as the value.
        unsafe { at.copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        self.len.store(value.len(), Relaxed);
        self.at.store(at, Relaxed);
    }

    fn get(&self) -> Option<&'static [u8]> {
        let at = self.at.load(Relaxed);
        // SAFETY: `copy` has set both before the program began, and the memory stays.
        (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, self.len.load(Relaxed)) })
    }
}

/// Reads the patterns.
pub(crate) fn start() {
    ONLY.copy(variable(c"TERRACE_DIRECT"));
    NOT.copy(variable(c"TERRACE_DIRECT_NOT"));
}

/// Whether there are patterns.
#[inline]
pub(crate) fn any() -> bool {
    ONLY.get().is_some() || NOT.get().is_some()
}

/// Whether the patterns keep a descriptor on the mount.
pub(crate) fn excluded(fd: RawFd) -> bool {
    if !any() {
        return false;
    }
    let (only, not) = (ONLY.get(), NOT.get());
    let mut buffer = [0; 4096];
    match path(fd, &mut buffer) {
        Some(path) => {
            only.is_some_and(|only| !any_matches(only, path))
                || not.is_some_and(|not| any_matches(not, path))
        }
        None => only.is_some(),
    }
}

/// The path of an open file.
pub(crate) fn path(fd: RawFd, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut link = [0; 32];
    let rest = &mut link.as_mut_slice();
    std::io::Write::write_fmt(rest, format_args!("/proc/self/fd/{fd}\0")).ok()?;
    raw::readlink(std::ffi::CStr::from_bytes_until_nul(&link).ok()?, buffer)
}

/// Whether one of the patterns matches. A pattern without a slash is for the last part of a path.
fn any_matches(patterns: &[u8], path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    patterns
        .split(|&byte| byte == b':')
        .filter(|pattern| !pattern.is_empty())
        .any(|pattern| matches(pattern, if pattern.contains(&b'/') { path } else { name }))
}

/// `*` stands for any bytes, `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The place behind the last star, and how far it has reached.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, from));
            }
            Some(&byte) if byte == b'?' || byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((behind, reached)) = star else { return false };
                star = Some((behind, reached + 1));
                (at, from) = (behind, reached + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text) in [
            ("*", ""),
            ("a*c", "abc"),
            ("a*c", "ac"),
            ("*.db", "x.db"),
            ("a?c", "abc"),
            ("*a*b*", "xxaybz"),
            ("/m/*.sst", "/m/deep/1.sst"),
            ("a*bc", "abbc"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a?", "a"), ("*.db", "x.db2"), ("a*c", "ab")] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn a_list_matches_names_and_paths() {
        assert!(any_matches(b"*.log:*.db", b"/mnt/a.db"));
        assert!(any_matches(b"::/mnt/*", b"/mnt/a.db"));
        assert!(!any_matches(b"mnt:/a.db", b"/mnt/a.db"));
    }
}
