//! The one error type of the engine: an errno for the program, a sentence for the person.
//!
//! Errors of the everyday kind (no such file, not empty, …) carry only their errno, so that
//! producing one allocates nothing. Errors that a person has to act on carry a message that names
//! the device or file and the remedy; they are built where they happen and logged once, by the
//! front end.

use std::fmt;

use terrace_layout::LayoutError;
use terrace_media::{MediaError, Pm};

use crate::sync::switch;

/// Result of an engine operation.
pub type FsResult<T> = Result<T, FsError>;

/// An engine error: what `errno` a program sees and, where there is more to say, the whole story.
#[derive(Debug)]
pub struct FsError {
    errno: i32,
    fatal: bool,
    message: Option<Box<str>>,
    /// The disk whose damage it tells of, and the byte there.
    on_disk: Option<(u16, u64)>,
}

impl FsError {
    /// An error that its errno describes completely.
    #[inline]
    pub const fn new(errno: i32) -> Self {
        Self { errno, fatal: false, message: None, on_disk: None }
    }

    /// An error with a message that names what happened, to which file or device, and what to do.
    pub fn with_message(errno: i32, message: impl Into<String>) -> Self {
        Self { message: Some(message.into().into_boxed_str()), ..Self::new(errno) }
    }

    /// Damage found on media: `EIO` with the place.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::with_message(libc::EIO, message)
    }

    /// It tells of damage at this byte of a disk.
    pub fn at(self, device: u16, byte: u64) -> Self {
        Self { on_disk: Some((device, byte)), ..self }
    }

    /// The disk whose damage it tells of, and the byte there; `None`: PM, or no damage.
    pub fn on_disk(&self) -> Option<(u16, u64)> {
        self.on_disk
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

    /// The message for people, if the errno alone does not say it all.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => f.write_str(message),
            None => write!(f, "{}", std::io::Error::from_raw_os_error(self.errno)),
        }
    }
}

impl std::error::Error for FsError {}

impl From<MediaError> for FsError {
    fn from(error: MediaError) -> Self {
        Self::with_message(error.errno(), error.to_string())
    }
}

impl From<std::io::Error> for FsError {
    fn from(error: std::io::Error) -> Self {
        Self::with_message(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
}

impl From<LayoutError> for FsError {
    fn from(error: LayoutError) -> Self {
        Self::corrupt(error.to_string())
    }
}

/// A fence that must succeed.
#[inline]
pub fn fence(pm: &Pm) -> FsResult<()> {
    switch();
    pm.fence().map_err(FsError::fatal)
}

/// What to do about an inode that cannot be read.
pub fn advice(pm: &Pm) -> String {
    let path = pm.path().display();
    format!(
        "run `terrace check {path}`; where nothing else helps, `terrace check --repair --give-up \
         {path}`, unmounted, gives up what cannot be read"
    )
}

/// The text of an error without the advice to run a check.
pub fn without_advice(what: &str) -> &str {
    what.split(": run `terrace check").next().unwrap_or_default()
}

/// Shorthand for `Err(FsError::new(errno))`.
#[inline]
pub fn fail<T>(errno: i32) -> FsResult<T> {
    Err(FsError::new(errno))
}
