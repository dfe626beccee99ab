//! A volume whose files are lent to this process.

use std::sync::Arc;

use terrace_direct::{Borrowed, Reason, Refusal};
use terrace_engine::{
    CheckOptions, FileKind, FormatOptions, Ino, Lent, LoanStats, NewInode, OpenOptions, Volume,
    check, format,
};
use terrace_media::{AlignedBuf, Disk, Pm, PmSim, memory_disk};
use terrace_store::delegation::Segment;

pub const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 1, gid: 2, rdev: 0 };
/// A process that lives as long as the test.
pub const ME: u64 = 1;
const PM_BYTES: u64 = 4 << 20;
const DISK_BYTES: u64 = 4 << 20;
pub const BLOCK_BYTES: u64 = 4096;
pub const ENDED: Refusal = Refusal::Mount(Reason::Ended);
pub const NOTHING: LoanStats = LoanStats { files: 0, processes: 0, quarantined_bytes: 0 };

pub struct Rig {
    pub pm: Arc<Pm>,
    pub disk: Arc<dyn Disk>,
    pub segment: Arc<Segment>,
}

impl Rig {
    pub fn new() -> Self {
        Self::over(Pm::anonymous(PM_BYTES))
    }

    /// One whose PM knows what is durable.
    pub fn simulated() -> (Self, Arc<PmSim>) {
        let (pm, sim) = Pm::simulated(PM_BYTES);
        (Self::over(pm), sim)
    }

    fn over(pm: Arc<Pm>) -> Self {
        let rig =
            Rig { pm, disk: memory_disk(DISK_BYTES), segment: Arc::new(Segment::new(4).unwrap()) };
        let options = FormatOptions { shards: Some(2), ..Default::default() };
        format(&rig.pm, std::slice::from_ref(&rig.disk), &options).unwrap();
        rig
    }

    pub fn open(&self) -> Arc<Volume> {
        let options = OpenOptions {
            cache_bytes: 8 << 20,
            loans: Some(self.segment.clone()),
            pm_full_percent: 100,
            workers: false,
            ..Default::default()
        };
        Volume::open(self.pm.clone(), vec![self.disk.clone()], options, &|_, _, _| {}).unwrap()
    }

    /// Leaves the volume as a killed daemon would and opens it again.
    pub fn crash(&self, volume: Arc<Volume>) -> Arc<Volume> {
        volume.abandon();
        drop(volume);
        self.open()
    }

    /// Shows the volumes that a power cut may leave now: the one that lost all that it could, and
    /// some that lost parts. They must be sound.
    pub fn cut_power(&self, sim: &PmSim, look: &dyn Fn(&Volume)) {
        let some = (0..3).map(|seed| sim.crash_image_random(seed));
        for image in std::iter::once(sim.durable_image()).chain(some) {
            let (disk, segment) = (self.copy_of_disk(), Arc::new(Segment::new(4).unwrap()));
            let cut = Rig { pm: Pm::simulated_from(image).0, disk, segment };
            let volume = cut.open();
            look(&volume);
            volume.close().unwrap();
            cut.assert_sound();
        }
    }

    fn copy_of_disk(&self) -> Arc<dyn Disk> {
        let mut bytes = AlignedBuf::new(DISK_BYTES as usize);
        self.disk.read_at(0, &mut bytes).unwrap();
        let copy = memory_disk(DISK_BYTES);
        copy.write_at(0, &bytes).unwrap();
        copy
    }

    pub fn borrowed(&self, lent: Lent) -> Borrowed {
        let (pm, segment) = (self.pm.clone(), self.segment.clone());
        Borrowed::new(pm, segment, lent.page, lent.generation, ME as u32).unwrap()
    }

    pub fn borrow(&self, volume: &Volume, ino: Ino) -> Borrowed {
        self.borrowed(volume.lend(ino, ME, 64).unwrap().unwrap())
    }

    pub fn assert_sound(&self) {
        let options = CheckOptions { data: true, ..CheckOptions::default() };
        let report =
            check(&self.pm, std::slice::from_ref(&self.disk), &options, &|_, _, _| {}).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

pub fn create(volume: &Volume, name: &[u8]) -> Ino {
    volume.create(Ino::ROOT, name, &FILE).unwrap().ino
}

pub fn contents(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; volume.getattr(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

pub fn read(file: &Borrowed, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let n = file.read_at(offset, len, &mut |at, piece| {
        assert_eq!(at, bytes.len());
        bytes.resize(at + piece.len(), 0);
        piece.copy_to(&mut bytes[at..]);
        Ok(())
    })?;
    assert_eq!(n, bytes.len());
    Ok(bytes)
}
