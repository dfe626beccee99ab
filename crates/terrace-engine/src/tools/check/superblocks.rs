//! Both copies of every device's superblock.

use terrace_layout::{BLOCK_BYTES, MediaStruct, SUPERBLOCK_BLOCKS, Superblock};
use terrace_media::AlignedBuf;
use terrace_store::damage::{Damage, Structure};
use terrace_store::error::FsResult;
use terrace_store::file::BLOCK;
use terrace_store::superblock::{damage_to_copy, differs_by_a_write, read_disk_superblock};

use super::{Check, Finding, Remedy};

impl Check<'_> {
    pub(super) fn superblocks(&self) -> FsResult<()> {
        self.copies(0, &self.sb)?;
        for (&index, disk) in &self.disks {
            let device = usize::from(index);
            let Some(good) = read_disk_superblock(disk.as_ref())? else {
                continue;
            };
            let known = self.sb.devices[device].blocks;
            if good.blocks != known {
                let what = format!(
                    "its superblock says {} blocks, the volume's device table {known}",
                    good.blocks
                );
                self.found(Finding::flaw(device, None, what, Remedy::Nothing));
            }
            self.copies(device, &good)?;
        }
        Ok(())
    }

    /// Compares both copies of a device with the one that counts.
    fn copies(&self, device: usize, good: &Superblock) -> FsResult<()> {
        for copy in 0..SUPERBLOCK_BLOCKS {
            let mut bytes = AlignedBuf::new(BLOCK);
            if device == 0 {
                // What cannot be read is zeros, and so no superblock.
                self.pm.read(copy * BLOCK_BYTES, &mut bytes);
            } else {
                self.disks[&(device as u16)].read_at(copy * BLOCK_BYTES, &mut bytes)?;
            }
            let found = Superblock::from_bytes(&bytes);
            // A copy that a mount was writing when it crashed is no damage.
            let interrupted = !self.clean && differs_by_a_write(found, good);
            if found == *good || interrupted {
                continue;
            }
            let kind = damage_to_copy(&bytes, Some(good));
            let remedy = Remedy::Superblock { device, copy, good: Box::new(*good) };
            let (index, path) = (device as u16, self.device_path(device));
            let damage = Damage::new(index, &path, Structure::Superblock(copy), kind);
            self.found(Finding::flaw(device, None, damage.at(copy * BLOCK_BYTES), remedy));
        }
        Ok(())
    }
}
