//! The image of a PM device: what `terrace save` writes and `terrace restore` reads, a stream of
//! bytes.
//!
//! A header, runs of blocks in ascending order, a trailer. Every part carries its own checksum, so
//! that a reader need not believe anything before it has checked it, and the trailer one over all
//! of them, so that nothing can be missing, exchanged or repeated.

use crate::crc::{crc_append, crc_with_hole};
use crate::field::media_struct;
use crate::{BLOCK_BYTES, DEVICE_BLOCKS_MAX, LayoutError, MediaStruct, SUPERBLOCK_BLOCKS};
use zerocopy::IntoBytes;

/// First word of an image.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"TERSAVED");
/// Image format that this code writes: a reader of another major refuses it.
pub const IMAGE_MAJOR: u16 = 1;
/// Minor image format.
pub const IMAGE_MINOR: u16 = 0;
/// Blocks that a run with contents has at most.
pub const IMAGE_RUN_BLOCKS_MAX: u64 = 256;

/// Run whose contents follow.
pub const IMAGE_DATA: u32 = 1;
/// Run of blocks of zeros: nothing follows.
pub const IMAGE_ZEROS: u32 = 2;
/// The trailer.
pub const IMAGE_END: u32 = 3;

media_struct! {
    /// Start of an image.
    pub struct ImageHeader [64] {
        /// [`IMAGE_MAGIC`].
        pub magic: u64,
        /// [`IMAGE_MAJOR`] of the writer.
        pub major: u16,
        /// [`IMAGE_MINOR`] of the writer.
        pub minor: u16,
        /// CRC32C of the header, this field taken as zero.
        pub crc: u32,
        /// The volume.
        pub uuid: [u8; 16],
        /// Blocks of the PM device.
        pub blocks: u64,
        /// When the image was made, nanoseconds since the epoch.
        pub saved_ns: i64,
        /// Zero.
        pub reserved: [u8; 16],
    }
}

media_struct! {
    /// A run of blocks; its contents follow it, unless they are zeros.
    pub struct ImageRun [32] {
        /// [`IMAGE_DATA`] or [`IMAGE_ZEROS`].
        pub kind: u32,
        /// CRC32C of this structure, this field taken as zero, and of the contents.
        pub crc: u32,
        /// First block.
        pub start: u64,
        /// Blocks.
        pub blocks: u64,
        /// Zero.
        pub reserved: u64,
    }
}

media_struct! {
    /// End of an image.
    pub struct ImageTrailer [32] {
        /// [`IMAGE_END`].
        pub kind: u32,
        /// CRC32C of the trailer, this field taken as zero.
        pub crc: u32,
        /// Runs in the image.
        pub runs: u64,
        /// Blocks in them.
        pub blocks: u64,
        /// CRC32C of all bytes before the trailer.
        pub stream_crc: u32,
        /// Zero.
        pub reserved: u32,
    }
}

const CRC_OFFSET: usize = core::mem::offset_of!(ImageHeader, crc);
const RUN_CRC_OFFSET: usize = core::mem::offset_of!(ImageRun, crc);

impl ImageHeader {
    /// Sets the checksum.
    pub fn seal(&mut self) {
        self.crc = crc_with_hole(0, self.as_bytes(), CRC_OFFSET);
    }

    /// Reads the header of an image.
    ///
    /// # Errors
    /// If it is none, of another major format, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<ImageHeader, LayoutError> {
        let header = ImageHeader::from_bytes(bytes);
        let wrong = |what: String| Err(LayoutError(what));
        if header.magic != IMAGE_MAGIC {
            return wrong("no image of a PM device".into());
        }
        if header.major != IMAGE_MAJOR {
            return wrong(format!(
                "image format {}.{} is not supported (this program reads {IMAGE_MAJOR}.x): use a \
                 matching version of terrace",
                header.major, header.minor
            ));
        }
        if header.crc != crc_with_hole(0, header.as_bytes(), CRC_OFFSET) {
            return wrong("image header: its checksum does not match".into());
        }
        if header.blocks <= SUPERBLOCK_BLOCKS || header.blocks >= DEVICE_BLOCKS_MAX {
            return wrong("image header: size out of range".into());
        }
        Ok(header)
    }
}

impl ImageRun {
    /// A run of blocks of zeros, or the one whose contents are given.
    pub fn new(start: u64, blocks: u64, contents: Option<&[u8]>) -> ImageRun {
        let kind = if contents.is_some() { IMAGE_DATA } else { IMAGE_ZEROS };
        let mut run = ImageRun { kind, crc: 0, start, blocks, reserved: 0 };
        run.crc = run.checksum(contents.unwrap_or_default());
        run
    }

    /// Bytes of contents that follow; of a run that is not possible, any number.
    pub fn content_bytes(&self) -> u64 {
        if self.kind == IMAGE_DATA { self.blocks.saturating_mul(BLOCK_BYTES) } else { 0 }
    }

    /// Whether the run lies in `from..device_blocks` and has a length that it may have.
    pub fn is_possible(&self, from: u64, device_blocks: u64) -> bool {
        let longest = match self.kind {
            IMAGE_DATA => IMAGE_RUN_BLOCKS_MAX,
            IMAGE_ZEROS => device_blocks,
            _ => 0,
        };
        (1..=longest).contains(&self.blocks)
            && self.start >= from
            && self.start.checked_add(self.blocks).is_some_and(|end| end <= device_blocks)
    }

    /// Whether the run is as it was written, with these contents.
    pub fn is_sound(&self, contents: &[u8]) -> bool {
        self.crc == self.checksum(contents)
    }

    fn checksum(&self, contents: &[u8]) -> u32 {
        crc_append(crc_with_hole(0, self.as_bytes(), RUN_CRC_OFFSET), contents)
    }
}

impl ImageTrailer {
    /// The trailer of an image of `runs` runs with `blocks` blocks.
    pub fn new(runs: u64, blocks: u64, stream_crc: u32) -> ImageTrailer {
        let mut trailer =
            ImageTrailer { kind: IMAGE_END, crc: 0, runs, blocks, stream_crc, reserved: 0 };
        trailer.crc = crc_with_hole(0, trailer.as_bytes(), RUN_CRC_OFFSET);
        trailer
    }
}
