//! The version of the format that this crate writes.

/// A reader refuses a greater major version.
pub const FORMAT_MAJOR: u16 = 3;
/// A reader takes any minor version: facts that it does not know are passed over.
pub const FORMAT_MINOR: u16 = 0;
