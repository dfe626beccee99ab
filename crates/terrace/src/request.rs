//! A request to mount a volume.

use std::path::PathBuf;

use crate::options::MountOptions;

/// The devices to mount, where and how.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The PM device.
    pub pm: PathBuf,
    /// The directory.
    pub mountpoint: PathBuf,
    /// The options.
    pub options: MountOptions,
    /// Stay in the foreground.
    pub foreground: bool,
    /// Print neither progress nor remarks.
    pub quiet: bool,
}
