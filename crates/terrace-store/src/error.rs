//! The one error type of the engine: an errno for the program, a sentence for the person.
//!
//! Errors of the everyday kind (no such file, not empty, …) carry only their errno, so that
//! producing one allocates nothing. Errors that a person has to act on carry a message that names
//! the device or file and the remedy; they are built where they happen and logged once, by the
//! front end.

use std::fmt;
use std::path::{Path, PathBuf};

use terrace_media::{MediaError, Pm};

use crate::damage::{Damage, DamageKind, Structure};
use crate::sync::switch;
use crate::types::Ino;

/// Result of an engine operation.
pub type FsResult<T> = Result<T, FsError>;

/// An engine error: what `errno` a program sees and, where there is more to say, the whole story.
#[derive(Clone, Debug)]
pub struct FsError {
    errno: i32,
    fatal: bool,
    cause: Option<Box<Cause>>,
}

/// What there is to say beside the errno.
#[derive(Clone, Debug)]
enum Cause {
    /// What happened, to which file, and what to do.
    Message(String),
    /// The device at this path, and what is the matter with it.
    Device(PathBuf, String),
    /// A device failed.
    Media(MediaError),
    /// Something on media is not as it must be.
    Damage(Damage),
}

impl FsError {
    /// An error that its errno describes completely.
    #[inline]
    pub const fn new(errno: i32) -> Self {
        Self { errno, fatal: false, cause: None }
    }

    /// An error with a message that names what happened, to which file or device, and what to do.
    pub fn with_message(errno: i32, message: impl Into<String>) -> Self {
        Self::because(errno, Cause::Message(message.into()))
    }

    /// An error about a device; the message goes on after its path.
    pub fn about(device: &Path, errno: i32, message: impl Into<String>) -> Self {
        Self::because(errno, Cause::Device(device.to_owned(), message.into()))
    }

    /// The same, about the device at `path`, unless it names that one already.
    #[must_use]
    pub fn naming(self, path: &Path) -> Self {
        match self.device() == Some(path) {
            true => self,
            false => Self { fatal: self.fatal, ..Self::about(path, self.errno, self.to_string()) },
        }
    }

    fn because(errno: i32, cause: Cause) -> Self {
        Self { cause: Some(Box::new(cause)), ..Self::new(errno) }
    }

    /// The damage that it tells of.
    pub fn damage(&self) -> Option<&Damage> {
        match self.cause.as_deref() {
            Some(Cause::Damage(damage)) => Some(damage),
            _ => None,
        }
    }

    /// The same as damage to a structure of device `device`, which has been read.
    pub fn into_damage(self, device: u16, structure: Structure, ino: Option<Ino>) -> Damage {
        let (path, byte, kind) = match self.cause.map(|cause| *cause) {
            Some(Cause::Damage(damage)) => return damage,
            Some(Cause::Media(error)) => {
                let kind = DamageKind::Unreadable(error.errno());
                (error.path().to_owned(), error.offset(), kind)
            }
            Some(Cause::Device(path, what)) => (path, None, DamageKind::Wrong(what.into())),
            Some(Cause::Message(what)) => (PathBuf::new(), None, DamageKind::Wrong(what.into())),
            None => (PathBuf::new(), None, DamageKind::Unreadable(self.errno)),
        };
        Damage { device, path, byte, structure, ino, kind }
    }

    /// The device that it names.
    pub fn device(&self) -> Option<&Path> {
        match self.cause.as_deref()? {
            Cause::Message(_) => None,
            Cause::Device(path, _) => Some(path),
            Cause::Media(error) => Some(error.path()),
            Cause::Damage(damage) => Some(&damage.path),
        }
    }

    /// Acknowledged data is at risk: the volume must not be written again.
    pub fn fatal(error: MediaError) -> Self {
        Self { fatal: true, ..Self::from(error) }
    }

    /// There was no room, and nothing has changed. PM that cannot be synced says `ENOSPC`, too, and
    /// that is fatal.
    #[inline]
    pub fn is_no_room(&self) -> bool {
        !self.fatal && self.errno == libc::ENOSPC
    }

    /// See [`Self::fatal`].
    #[inline]
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// The errno that a program sees.
    #[inline]
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Whether there is more to say than the errno does.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.cause.is_some()
    }

    /// The message for people, if the errno alone does not say it all.
    pub fn message(&self) -> Option<String> {
        self.cause.as_deref().map(Cause::to_string)
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{cause}"),
            None => write!(f, "{}", std::io::Error::from_raw_os_error(self.errno)),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Message(message) => f.write_str(message),
            Cause::Device(path, message) => write!(f, "{}: {message}", path.display()),
            Cause::Media(error) => write!(f, "{error}"),
            Cause::Damage(damage) => write!(f, "{damage}"),
        }
    }
}

impl std::error::Error for FsError {}

impl From<MediaError> for FsError {
    fn from(error: MediaError) -> Self {
        Self::because(error.errno(), Cause::Media(error))
    }
}

/// Damage found on media: `EIO` with the place.
impl From<Damage> for FsError {
    fn from(damage: Damage) -> Self {
        Self::because(libc::EIO, Cause::Damage(damage))
    }
}

impl From<std::io::Error> for FsError {
    fn from(error: std::io::Error) -> Self {
        Self::with_message(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
}

/// A fence that must succeed.
#[inline]
pub fn fence(pm: &Pm) -> FsResult<()> {
    switch();
    pm.fence().map_err(FsError::fatal)
}

/// Shorthand for `Err(FsError::new(errno))`.
#[inline]
pub fn fail<T>(errno: i32) -> FsResult<T> {
    Err(FsError::new(errno))
}
