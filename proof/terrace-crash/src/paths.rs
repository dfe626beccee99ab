//! The paths that actions work on.
//!
//! Every volume to start from has the same names (`catalog` makes them), so that every action means
//! something on each:
//!
//! ```text
//! /a        5,000 bytes, one entry in its log     /dir0/a   9,000 bytes, two attributes, one long
//! /b        100 bytes, set-user-ID, two names     /dir0/b   the other name of /b
//! /c        nothing                               /dir0/c   an empty directory
//!                                                 /dir1/a   a symbolic link
//!                                                 /dir1/c   an empty directory
//! ```

use crate::op::Path;

pub(crate) const A: Path = (None, 0);
pub(crate) const B: Path = (None, 1);
pub(crate) const C: Path = (None, 2);
pub(crate) const LONG: Path = (None, 3);
pub(crate) const D0A: Path = (Some(0), 0);
pub(crate) const D0B: Path = (Some(0), 1);
pub(crate) const D0C: Path = (Some(0), 2);
pub(crate) const D0L: Path = (Some(0), 3);
pub(crate) const D1A: Path = (Some(1), 0);
pub(crate) const D1B: Path = (Some(1), 1);
pub(crate) const D1C: Path = (Some(1), 2);
/// A file that takes what would be in the way.
pub(crate) const BALLAST: Path = (Some(1), 10);
