//! Block devices, through a loop device. Needs root and losetup; elsewhere it says that it did not
//! run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use terrace_media::{
    AlignedBuf, DeviceContents, DiskOpenOptions, IoEngine, MediaError, Pm, PmOpenOptions,
    create_disk_file, device_len, open_disk, probe_device,
};

const LEN: u64 = 32 << 20;

/// A loop device over a file, detached when dropped.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let device = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        (output.status.success() && device.exists()).then_some(LoopDevice(device))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        assert!(
            detached.is_ok_and(|status| status.success()),
            "{} stays attached",
            self.0.display()
        );
    }
}

#[test]
fn a_block_device_serves_as_a_disk_and_is_claimed() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("backing");
    create_disk_file(&file, LEN).unwrap();
    let Some(device) = LoopDevice::over(&file) else {
        eprintln!("not run: no loop device to be had");
        return;
    };
    let path = device.0.as_path();
    assert_eq!(device_len(path).unwrap(), LEN);
    assert_eq!(probe_device(path).unwrap(), DeviceContents::Empty);
    let refused = Pm::open(path, &PmOpenOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("is a block device"), "{refused}");

    for engine in [IoEngine::Auto, IoEngine::Sync] {
        let disk = open_disk(path, &DiskOpenOptions { engine, ..Default::default() }).unwrap();
        assert_eq!(disk.len(), LEN);
        let in_use = open_disk(path, &DiskOpenOptions::default()).unwrap_err();
        assert_eq!(in_use, MediaError::InUse { path: path.to_owned() });

        let mut data = AlignedBuf::new(5 << 20);
        data.fill(0x5a);
        disk.write_at(4096, &data).unwrap();
        disk.flush().unwrap();
        let mut seen = AlignedBuf::new(data.len());
        disk.read_at(4096, &mut seen).unwrap();
        assert!(seen[..] == data[..]);

        let before = fs::metadata(&file).unwrap().blocks();
        disk.discard(1 << 20, 4 << 20).unwrap();
        disk.flush().unwrap();
        let after = fs::metadata(&file).unwrap().blocks();
        // A loop device hands a discard on to its file.
        assert!(after + (2 << 20) / 512 < before, "{before} blocks before, {after} after");
        disk.write_at(LEN, &data).unwrap_err();
    }
    assert_eq!(probe_device(path).unwrap(), DeviceContents::Data);
}
