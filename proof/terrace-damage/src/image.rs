//! The bytes of a volume's devices, and devices that take them over and over.

use std::sync::Arc;

use terrace_engine::{CheckOptions, CheckReport, FsResult, OpenOptions, Volume, check};
use terrace_media::{AlignedBuf, Disk, Pm, memory_disk};

/// Bytes of a block.
pub(crate) const BLOCK: usize = terrace_layout::BLOCK_BYTES as usize;
/// Bytes that are compared at a time: they stay in the processor's cache.
const CHUNK: usize = 16 * BLOCK;

/// The bytes of all devices, PM first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub Vec<Vec<u8>>);

/// Devices in memory that hold an image.
#[derive(Debug)]
pub struct Devices {
    /// PM.
    pub pm: Arc<Pm>,
    /// Disks, in order of device index.
    pub disks: Vec<Arc<dyn Disk>>,
}

impl Devices {
    /// Devices with the contents of `image`.
    pub fn new(image: &Image) -> Devices {
        let devices = Devices {
            pm: Pm::anonymous(image.0[0].len() as u64),
            disks: image.0[1..].iter().map(|bytes| memory_disk(bytes.len() as u64)).collect(),
        };
        devices.load(image);
        devices
    }

    /// Makes the contents those of `image`, which has devices of the same sizes. Blocks that hold
    /// them already are not stored to.
    pub fn load(&self, image: &Image) {
        self.compare(image, |device, at, block| self.store(device, at, block));
    }

    /// Whether the contents are those of `image`.
    pub fn hold(&self, image: &Image) -> bool {
        let mut same = true;
        self.compare(image, |_, _, _| same = false);
        same
    }

    /// Visits every block of `image` that the devices do not hold.
    fn compare(&self, image: &Image, mut differs: impl FnMut(usize, u64, &[u8])) {
        let mut now = AlignedBuf::new(CHUNK);
        for (device, bytes) in image.0.iter().enumerate() {
            for (chunk, bytes) in bytes.chunks(CHUNK).enumerate() {
                let at = (chunk * CHUNK) as u64;
                self.read(device, at, &mut now[..bytes.len()]);
                if now[..bytes.len()] == *bytes {
                    continue;
                }
                for (block, (old, new)) in now.chunks(BLOCK).zip(bytes.chunks(BLOCK)).enumerate() {
                    if old != new {
                        differs(device, at + (block * BLOCK) as u64, new);
                    }
                }
            }
        }
    }

    /// The contents.
    pub fn image(&self) -> Image {
        let device = |device, len| {
            let mut bytes = vec![0; len as usize];
            self.read(device, 0, &mut bytes);
            bytes
        };
        let disks = self.disks.iter().enumerate().map(|(i, disk)| device(i + 1, disk.len()));
        Image(std::iter::once(device(0, self.pm.len())).chain(disks).collect())
    }

    /// Reads whole blocks.
    pub(crate) fn read(&self, device: usize, at: u64, buf: &mut [u8]) {
        match device.checked_sub(1) {
            None => self.pm.read(at, buf),
            Some(disk) => self.disks[disk].read_at(at, buf).expect("memory can be read"),
        }
    }

    fn store(&self, device: usize, at: u64, block: &[u8]) {
        match device.checked_sub(1) {
            None => self.pm.write(at, block),
            Some(disk) => {
                self.disks[disk].write_at(at, block).expect("memory can be written");
            }
        }
    }

    /// Opens the volume. `pm_full_percent` 0: all data goes to disks.
    ///
    /// # Errors
    /// What [`Volume::open`] says.
    pub fn open(&self, pm_full_percent: u8) -> FsResult<Arc<Volume>> {
        let options = OpenOptions { cache_bytes: 1 << 20, pm_full_percent, ..Default::default() };
        Volume::open(self.pm.clone(), self.disks.clone(), options, &|_, _, _| {})
    }

    /// Checks the volume.
    ///
    /// # Errors
    /// What [`check`] says.
    pub fn check(&self, repair: bool) -> FsResult<CheckReport> {
        check(
            &self.pm,
            &self.disks,
            &CheckOptions { repair, data: true, ..CheckOptions::default() },
            &|_, _, _| {},
        )
    }

    /// Path of a device.
    pub fn path(&self, device: usize) -> String {
        let path =
            device.checked_sub(1).map_or_else(|| self.pm.path(), |disk| self.disks[disk].path());
        path.display().to_string()
    }
}
