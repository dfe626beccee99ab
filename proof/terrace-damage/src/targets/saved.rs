//! Images of a PM device, as `terrace save` makes them.

use std::mem::offset_of;
use std::sync::LazyLock;

use terrace_engine::{restore, save, saved_pm_len};
use terrace_layout::{IMAGE_END, ImageHeader, ImageRun, ImageTrailer, MediaStruct};
use terrace_media::Pm;

use crate::image::Devices;
use crate::specimen::{Contents, Left, Plan, Specimen};

/// An image.
static SAVED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let plan =
        Plan { contents: Contents::Few, left: Left::Clean, disks: 1, pm_data_checksums: false };
    let devices = Devices::new(&Specimen::new(plan).image);
    let mut image = Vec::new();
    save(&devices.pm, &mut image, &|_, _, _| {}).expect("it is whole");
    image
});

/// Bytes of the PM device that images are restored to.
const PM_BYTES: u64 = 1280 << 10;
/// A piece of an input: where in the image, as a fraction of its headers and runs, and eight bytes.
const PIECE: usize = 12;

/// Restores an image. The first byte says how it comes: 0 the input itself; 1 a real image with
/// eight bytes stored at some places; 2 the same, with all checksums made right.
pub fn saved(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else {
        return;
    };
    let image = match how % 3 {
        0 => rest.to_vec(),
        how => {
            let mut image = SAVED.clone();
            for piece in rest.chunks_exact(PIECE) {
                let at = u32::from_le_bytes(piece[..4].try_into().expect("four bytes")) as usize
                    % (image.len() - 7);
                image[at..at + 8].copy_from_slice(&piece[4..]);
            }
            if how == 2 {
                seal_image(&mut image);
            }
            image
        }
    };
    let _ = saved_pm_len(&mut &image[..]);
    let pm = Pm::anonymous(PM_BYTES);
    let restored = restore(&mut &image[..], &pm, &|_, _, _| {});
    let label = terrace_engine::read_pm_label(&pm);
    match restored {
        Ok(()) => assert!(label.is_ok_and(|l| l.is_some()), "restored, but no volume"),
        Err(_) => assert!(label.is_ok_and(|l| l.is_none()), "not restored, but a volume"),
    }
}

fn store(image: &mut [u8], at: usize, crc: u32) {
    image[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn crc_of(image: &mut [u8], from: usize, to: usize, field: usize) {
    store(image, from + field, 0);
    let crc = terrace_layout::data_crc(&image[from..to]);
    store(image, from + field, crc);
}

/// Makes the checksums of an image right, as far as its runs can be followed.
fn seal_image(image: &mut [u8]) {
    let (header, run, trailer) =
        (size_of::<ImageHeader>(), size_of::<ImageRun>(), size_of::<ImageTrailer>());
    crc_of(image, 0, header, offset_of!(ImageHeader, crc));
    let mut at = header;
    while at + run <= image.len() {
        let said = ImageRun::from_bytes(&image[at..]);
        if said.kind == IMAGE_END {
            if at + trailer <= image.len() {
                let sum = terrace_layout::data_crc(&image[..at]);
                store(image, at + offset_of!(ImageTrailer, stream_crc), sum);
                crc_of(image, at, at + trailer, offset_of!(ImageTrailer, crc));
            }
            return;
        }
        let end = usize::try_from(said.content_bytes()).ok().and_then(|n| n.checked_add(at + run));
        let Some(end) = end.filter(|&end| end <= image.len()) else {
            return;
        };
        crc_of(image, at, end, offset_of!(ImageRun, crc));
        at = end;
    }
}

/// A real image, and edits of its header, of a run and of its end.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![[&[0], &SAVED[..64 + 32]].concat()];
    for at in [0usize, 32, 64, SAVED.len() - size_of::<ImageTrailer>()] {
        for how in [1, 2] {
            let mut seed = vec![how];
            seed.extend_from_slice(&(at as u32).to_le_bytes());
            seed.extend_from_slice(&SAVED[at..at + 8]);
            seeds.push(seed);
        }
    }
    seeds
}
