//! Whose programs may read and write files in PM by themselves: the option `lend=`.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::str::FromStr;

use crate::output::quoted;

/// See the module. Root's programs are among them, unless nobody's are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lend {
    /// Nobody's.
    #[default]
    Off,
    /// Those of the user who mounts.
    Owner,
    /// Those of the user who mounts, and of the members of a group.
    Group {
        /// As it was given: a name or a number.
        name: String,
        /// Its number.
        gid: u32,
    },
}

/// As much as the longest entry of a group that is read, with the names of its members.
const ENTRY_BYTES_MAX: usize = 1 << 24;

impl FromStr for Lend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "owner" => Ok(Self::Owner),
            _ => match text.strip_prefix("group=") {
                Some(name) => Ok(Self::Group { name: name.to_owned(), gid: group(name)? }),
                None => Err(format!("{} is none of off, owner and group=NAME", quoted(text))),
            },
        }
    }
}

impl fmt::Display for Lend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Owner => f.write_str("owner"),
            Self::Group { name, .. } => write!(f, "group={name}"),
        }
    }
}

/// The number of a group, of which the name or the number is given.
fn group(text: &str) -> Result<u32, String> {
    let unknown = || format!("there is no group {}; `getent group` lists them", quoted(text));
    let name = CString::new(text).map_err(|_| unknown())?;
    match number_of(&name).map_err(|error| format!("group {}: {error}", quoted(text)))? {
        Some(gid) => Ok(gid),
        // The highest number stands for none.
        None => text.parse().ok().filter(|&gid| gid != u32::MAX).ok_or_else(unknown),
    }
}

/// What the system's databases say; `None`: they do not know the name.
fn number_of(name: &std::ffi::CStr) -> io::Result<Option<u32>> {
    let mut bytes = vec![0_u8; 4096];
    loop {
        let mut entry = MaybeUninit::<libc::group>::zeroed();
        let mut found = std::ptr::null_mut();
        let (into, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the name ends with a zero byte, `entry` and `found` have room for one each, and
        // `bytes` has room for as many as `len` says. All of them outlive the call.
        let failure =
            unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), into, len, &mut found) };
        match failure {
            0 if found.is_null() => return Ok(None),
            // SAFETY: it refers to `entry`, which the call has filled.
            0 => return Ok(Some(unsafe { (*found).gr_gid })),
            libc::ERANGE if len < ENTRY_BYTES_MAX => bytes.resize(4 * len, 0),
            // Some databases say so of names that they do not know.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            libc::EINTR => {}
            failure => return Err(io::Error::from_raw_os_error(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_known_by_name_and_by_number() {
        let group = |name: &str, gid| Lend::Group { name: name.to_owned(), gid };
        for (text, expected) in [
            ("off", Lend::Off),
            ("owner", Lend::Owner),
            ("group=root", group("root", 0)),
            ("group=70123", group("70123", 70_123)),
        ] {
            let lend: Lend = text.parse().unwrap();
            assert_eq!((lend.to_string().as_str(), lend), (text, expected));
        }
    }

    #[test]
    fn others_are_refused_by_name() {
        for (text, why) in [
            ("on", "\"on\" is none of off, owner and group=NAME"),
            ("group=", r#"there is no group ""; `getent group` lists them"#),
            ("group=no-such", r#"there is no group "no-such"; `getent group` lists them"#),
            ("group=-1", r#"there is no group "-1"; `getent group` lists them"#),
            ("group=4294967295", r#"there is no group "4294967295"; `getent group` lists them"#),
            ("group=a\0b", r#"there is no group "a\0b"; `getent group` lists them"#),
        ] {
            assert_eq!(text.parse::<Lend>(), Err(why.to_owned()));
        }
    }
}
