//! The backend of this build.

use crate::backend::Files;

/// The backend that maps files of tmpfs, for tests.
#[cfg(feature = "mapped")]
pub(crate) fn files() -> &'static dyn Files {
    &crate::mapped::Mapped
}

/// The backend of Terrace mounts.
#[cfg(not(feature = "mapped"))]
pub(crate) fn files() -> &'static dyn Files {
    &crate::lent::Lent
}
