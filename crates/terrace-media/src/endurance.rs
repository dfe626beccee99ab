//! How worn a device is, as far as it tells: NVMe by its SMART log page, eMMC and UFS by sysfs.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How worn a device says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endurance {
    /// How much of the life that its maker vouches for is used, in percent; it may exceed 100. Of
    /// eMMC and UFS, which tell tenths, the upper end.
    pub used_percent: u8,
    /// Bytes written to it in its life, by whomever, if it tells.
    pub written_bytes: Option<u64>,
}

/// Bytes of the SMART log page.
const SMART_BYTES: usize = 512;
/// A unit of data is a thousand blocks of 512 bytes.
const NVME_UNIT_BYTES: u128 = 512_000;

impl Endurance {
    /// What a SMART log page of an NVMe device says (NVM Express base specification, "SMART /
    /// Health Information", log identifier 2). A page of zeros, as some devices behind adapters
    /// return, says nothing.
    pub fn of_nvme(page: &[u8; SMART_BYTES]) -> Option<Self> {
        let units = u128::from_le_bytes(page[48..64].try_into().expect("sixteen bytes"));
        let written = u64::try_from(units.saturating_mul(NVME_UNIT_BYTES)).unwrap_or(u64::MAX);
        let says_something = page.iter().any(|&byte| byte != 0);
        says_something.then_some(Self { used_percent: page[5], written_bytes: Some(written) })
    }

    /// What the life times of an eMMC or UFS device say, as sysfs has them: `0x01` is up to a tenth
    /// used, `0x0a` all of it, `0x0b` more than that. The worst of several counts.
    pub fn of_life_times(text: &str) -> Option<Self> {
        let tenths = text.split_whitespace().filter_map(|word| {
            u8::from_str_radix(word.trim_start_matches("0x"), 16)
                .ok()
                .filter(|tenths| (1..=11).contains(tenths))
        });
        tenths.max().map(|tenths| Self { used_percent: tenths * 10, written_bytes: None })
    }
}

/// How worn a block device is; `None` if it does not tell, or does not tell this caller.
pub fn endurance(path: &Path) -> Option<Endurance> {
    let meta = fs::metadata(path).ok().filter(|meta| meta.file_type().is_block_device())?;
    let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
    let sysfs = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    if sysfs.file_name()?.to_str()?.starts_with("nvme") {
        return Endurance::of_nvme(&smart_page(path).ok()?);
    }
    life_times(&sysfs).and_then(|text| Endurance::of_life_times(&text))
}

/// What sysfs says of the life times of a device, or of the one that it is a part of.
fn life_times(sysfs: &Path) -> Option<String> {
    let read = |path: PathBuf| fs::read_to_string(path).ok();
    sysfs.ancestors().take_while(|dir| *dir != Path::new("/sys")).find_map(|dir| {
        let of_ufs = dir.join("health_descriptor");
        read(dir.join("device/life_time")).or_else(|| {
            let a = read(of_ufs.join("life_time_estimation_a"))?;
            Some(a + " " + &read(of_ufs.join("life_time_estimation_b"))?)
        })
    })
}

/// `struct nvme_admin_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<AdminCommand>() == 72);

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`
const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xc048_4e41;
const GET_LOG_PAGE: u8 = 2;
const SMART_LOG: u32 = 2;
const ALL_NAMESPACES: u32 = u32::MAX;
/// A device that does not answer must not keep a command for long.
const TIMEOUT_MS: u32 = 2000;

fn smart_page(path: &Path) -> io::Result<[u8; SMART_BYTES]> {
    let device = File::open(path)?;
    let mut page = [0; SMART_BYTES];
    let words_less_one = (SMART_BYTES / 4 - 1) as u32;
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        namespace: ALL_NAMESPACES,
        address: page.as_mut_ptr() as u64,
        data_bytes: SMART_BYTES as u32,
        words_10_15: [words_less_one << 16 | SMART_LOG, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..AdminCommand::default()
    };
    // SAFETY: the descriptor is open; the command is as long as the kernel expects, and the page
    // that it has the device write to is exclusive, and as long as it says.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ADMIN_CMD, &raw mut command) };
    match status {
        0 => Ok(page),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::other("the device refused to tell")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smart_page_tells_percent_and_bytes() {
        let mut page = [0; SMART_BYTES];
        assert_eq!(Endurance::of_nvme(&page), None);
        (page[3], page[5]) = (100, 7);
        page[48..56].copy_from_slice(&2_000_000u64.to_le_bytes());
        let told = Endurance { used_percent: 7, written_bytes: Some(1_024_000_000_000) };
        assert_eq!(Endurance::of_nvme(&page), Some(told));
        (page[5], page[63]) = (255, 255);
        let worn = Endurance { used_percent: 255, written_bytes: Some(u64::MAX) };
        assert_eq!(Endurance::of_nvme(&page), Some(worn));
    }

    #[test]
    fn life_times_are_tenths_and_the_worst_counts() {
        let used = |text| Endurance::of_life_times(text).map(|told| told.used_percent);
        assert_eq!(used("0x01 0x02\n"), Some(20));
        assert_eq!(used("0x0B\n 0x03\n"), Some(110));
        assert_eq!(used("0x00 0x00"), None, "not defined");
        assert_eq!(used("0xff what"), None);
        assert_eq!(used(""), None);
    }

    #[test]
    fn sysfs_is_looked_up_from_a_partition_upwards() {
        let root = tempfile::tempdir().unwrap();
        let (mmc, ufs) = (root.path().join("mmc/block/mmcblk0"), root.path().join("ufshc"));
        fs::create_dir_all(mmc.join("mmcblk0p1")).unwrap();
        fs::create_dir_all(mmc.join("device")).unwrap();
        fs::write(mmc.join("device/life_time"), "0x02 0x01\n").unwrap();
        assert_eq!(life_times(&mmc.join("mmcblk0p1")).as_deref(), Some("0x02 0x01\n"));
        fs::create_dir_all(ufs.join("host0/block/sda")).unwrap();
        fs::create_dir_all(ufs.join("health_descriptor")).unwrap();
        fs::write(ufs.join("health_descriptor/life_time_estimation_a"), "0x03\n").unwrap();
        fs::write(ufs.join("health_descriptor/life_time_estimation_b"), "0x00\n").unwrap();
        assert_eq!(life_times(&ufs.join("host0/block/sda")).as_deref(), Some("0x03\n 0x00\n"));
        assert_eq!(life_times(root.path()), None);
    }

    #[test]
    fn what_is_no_device_tells_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(endurance(file.path()), None);
        assert_eq!(endurance(Path::new("/dev/null")), None);
        assert_eq!(endurance(Path::new("/nowhere")), None);
    }
}
