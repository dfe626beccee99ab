//! The backend of this build.

use crate::backend::Files;

/// The backend that maps files of tmpfs, for tests.
#[cfg(feature = "mapped")]
pub(crate) fn files() -> &'static dyn Files {
    &crate::mapped::Mapped
}

/// No backend: everything takes the mount.
#[cfg(not(feature = "mapped"))]
pub(crate) fn files() -> &'static dyn Files {
    &Nothing
}

#[cfg(not(feature = "mapped"))]
struct Nothing;

#[cfg(not(feature = "mapped"))]
impl Files for Nothing {
    fn adopt(
        &self,
        _: std::os::fd::RawFd,
    ) -> Result<&'static dyn crate::backend::File, crate::backend::Reason> {
        Err(crate::backend::Reason::NotOurs)
    }
}
