//! Saving a PM device to a stream, and putting it back: how a volume in RAM gets across a reboot.
//!
//! Invariants:
//! * Saving stores nothing to PM. Every block that the volume may need is in the image; where
//!   damage leaves open which those are, all of them are.
//! * Restoring stores nothing that it has not checked. The device has no valid superblock from
//!   before its first store until all of the image has been checked and is durable.

use std::io::{Read, Write};
use std::path::Path;

use terrace_layout::{
    BLOCK_BYTES, IMAGE_END, IMAGE_MAGIC, IMAGE_MAJOR, IMAGE_MINOR, IMAGE_RUN_BLOCKS_MAX,
    ImageHeader, ImageRun, ImageTrailer, MediaStruct, SUPERBLOCK_BLOCKS, Superblock,
};
use terrace_media::Pm;
use terrace_store::alloc::{DeviceAlloc, Run};
use terrace_store::checkpoint::{self, Area};
use terrace_store::error::{FsError, FsResult, fence};
use terrace_store::file::BLOCK;
use terrace_store::superblock::{Disks, choose};
use terrace_store::sync::Arc;
use zerocopy::IntoBytes;

use crate::base::options::Progress;
use crate::base::types::Time;
use crate::mount::offline::{Offline, volume_on};
use crate::mount::recovery::scan_threads;
use crate::mount::scan::{Scanned, scan};

/// Writes an image of what is in use of an unmounted PM device, also of one that needs recovery;
/// returns its bytes.
///
/// # Errors
/// PM holds no volume; `out` fails.
pub fn save(pm: &Arc<Pm>, out: &mut dyn Write, progress: Progress<'_>) -> FsResult<u64> {
    let sb = volume_on(pm)?;
    let runs = used_runs(pm, &sb, progress)?;
    let total = runs.iter().map(|run| run.len).sum::<u64>();
    let mut image = ImageWriter { out, crc: 0, bytes: 0, runs: 0, blocks: 0 };
    image.header(&sb)?;
    image.run(pm, Run { start: 0, len: SUPERBLOCK_BLOCKS })?;
    for run in runs {
        let (mut at, end) = (run.start.max(SUPERBLOCK_BLOCKS), run.start + run.len);
        while at < end {
            let len = (end - at).min(IMAGE_RUN_BLOCKS_MAX);
            image.blocks_of(pm, Run { start: at, len })?;
            at += len;
            progress("saving", image.blocks, total);
        }
    }
    image.trailer()
}

/// Runs of PM blocks that the volume may need, in order.
fn used_runs(pm: &Arc<Pm>, sb: &Superblock, progress: Progress<'_>) -> FsResult<Vec<Run>> {
    let everything = vec![Run { start: 0, len: sb.blocks }];
    if let Some(runs) = checkpointed_runs(pm, sb) {
        return Ok(runs);
    }
    let offline = Offline::load(pm, sb);
    if !offline.damage.is_empty() || offline.strange_word(pm).is_some() {
        return Ok(everything);
    }
    // Without the disks: a log of which a part lies there leaves open what it owns.
    let disks = Disks::new();
    let what = Scanned {
        pm,
        disks: &disks,
        sb,
        tables: &offline.tables,
        unfinished: offline.unfinished(),
        heritage: None,
    };
    let found = scan(what, scan_threads(), progress, &|_, _| {})?;
    if !found.problems.is_empty() {
        return Ok(everything);
    }
    let (device, usage) =
        (&sb.devices()[0], found.usage.into_iter().next().expect("PM is device 0"));
    Ok(runs_of(&DeviceAlloc::from_bitmap(
        device.blocks,
        u64::from(device.group_blocks),
        1,
        usage.into_words(),
    )))
}

/// What the checkpoint calls used; `None` if there is none, or damage.
fn checkpointed_runs(pm: &Arc<Pm>, sb: &Superblock) -> Option<Vec<Run>> {
    let header = checkpoint::usable_header(pm, sb)?;
    let area = Area::Pm(pm.clone());
    let alloc =
        checkpoint::load_device(area, sb.devices()[0], &header.devices[0], sb.shards.into())
            .ok()?;
    let runs = runs_of(&alloc);
    (!alloc.is_damaged()).then_some(runs)
}

fn runs_of(alloc: &DeviceAlloc) -> Vec<Run> {
    let mut runs = Vec::new();
    alloc.visit_used(|run| runs.push(run));
    runs
}

/// The image on its way out.
struct ImageWriter<'a> {
    out: &'a mut dyn Write,
    crc: u32,
    bytes: u64,
    runs: u64,
    blocks: u64,
}

impl ImageWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> FsResult<()> {
        self.out.write_all(bytes).map_err(|e| stream_error("the image cannot be written", &e))?;
        self.crc = terrace_layout::crc_append(self.crc, bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn header(&mut self, sb: &Superblock) -> FsResult<()> {
        let mut header = ImageHeader {
            magic: IMAGE_MAGIC,
            major: IMAGE_MAJOR,
            minor: IMAGE_MINOR,
            crc: 0,
            uuid: sb.uuid,
            blocks: sb.blocks,
            saved_ns: Time::now().0,
            reserved: [0; 16],
        };
        header.seal();
        self.put(header.as_bytes())
    }

    /// Up to [`IMAGE_RUN_BLOCKS_MAX`] blocks, cut where contents turn to zeros or back.
    fn blocks_of(&mut self, pm: &Pm, run: Run) -> FsResult<()> {
        let mut contents = vec![0u8; run.len as usize * BLOCK];
        pm.try_read(run.start * BLOCK_BYTES, &mut contents)?;
        let zeros: Vec<bool> =
            contents.chunks(BLOCK).map(|block| block.iter().all(|&b| b == 0)).collect();
        let mut done = 0;
        for same in zeros.chunk_by(|a, b| a == b) {
            let piece = &contents[done * BLOCK..(done + same.len()) * BLOCK];
            self.piece(run.start + done as u64, same.len() as u64, (!same[0]).then_some(piece))?;
            done += same.len();
        }
        Ok(())
    }

    /// Blocks with their contents, whatever those are.
    fn run(&mut self, pm: &Pm, run: Run) -> FsResult<()> {
        let mut contents = vec![0u8; run.len as usize * BLOCK];
        pm.try_read(run.start * BLOCK_BYTES, &mut contents)?;
        self.piece(run.start, run.len, Some(&contents))
    }

    fn piece(&mut self, start: u64, blocks: u64, contents: Option<&[u8]>) -> FsResult<()> {
        self.runs += 1;
        self.blocks += blocks;
        self.put(ImageRun::new(start, blocks, contents).as_bytes())?;
        self.put(contents.unwrap_or_default())
    }

    fn trailer(mut self) -> FsResult<u64> {
        self.put(ImageTrailer::new(self.runs, self.blocks, self.crc).as_bytes())?;
        self.out.flush().map_err(|e| stream_error("the image cannot be written", &e))?;
        Ok(self.bytes)
    }
}

fn stream_error(what: &str, error: &std::io::Error) -> FsError {
    FsError::with_message(error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
}

/// Reads the header of an image, and nothing beyond it: bytes that a PM device needs to take the
/// contents.
///
/// # Errors
/// `input` is no image, of another format, damaged, or fails.
pub fn saved_pm_len(input: &mut dyn Read) -> FsResult<u64> {
    Ok(ImageReader { input, crc: 0 }.header()?.blocks * BLOCK_BYTES)
}

/// Reads a whole image and compares every checksum in it: whether [`restore`] can take it.
///
/// # Errors
/// It is none, of another format, damaged, or cut short; `input` fails.
pub fn verify_image(input: &mut dyn Read, progress: Progress<'_>) -> FsResult<()> {
    let mut image = ImageReader { input, crc: 0 };
    let header = image.header()?;
    image.superblocks(&header)?;
    image.runs(&header, &mut |run, _| progress("verifying", run.start + run.blocks, header.blocks))
}

/// Puts an image on a PM device, which may be larger than the one that was saved. The device's old
/// contents are gone.
///
/// # Errors
/// The image is none, damaged, cut short, or too large for the device; `input` or PM fails. The
/// device then is as it was, if that could be seen from the first MiB, or holds no volume.
pub fn restore(input: &mut dyn Read, pm: &Arc<Pm>, progress: Progress<'_>) -> FsResult<()> {
    let mut image = ImageReader { input, crc: 0 };
    let header = image.header()?;
    if header.blocks * BLOCK_BYTES > pm.len() {
        return Err(FsError::about(
            pm.path(),
            libc::ENOSPC,
            format!(
                "{} bytes are too few: the image needs {}",
                pm.len(),
                header.blocks * BLOCK_BYTES
            ),
        ));
    }
    let superblocks = image.superblocks(&header)?;
    pm.zero_nt(0, SUPERBLOCK_BLOCKS * BLOCK_BYTES);
    fence(pm)?;
    image.runs(&header, &mut |run, contents| {
        let at = run.start * BLOCK_BYTES;
        match contents {
            [] => pm.zero_nt(at, run.blocks * BLOCK_BYTES),
            contents => pm.write_nt(at, contents),
        }
        progress("restoring", run.start + run.blocks, header.blocks);
    })?;
    fence(pm)?;
    for copy in (0..SUPERBLOCK_BLOCKS).rev() {
        pm.write_nt(copy * BLOCK_BYTES, &superblocks[copy as usize * BLOCK..][..BLOCK]);
        fence(pm)?;
    }
    Ok(())
}

/// The image on its way in.
struct ImageReader<'a> {
    input: &'a mut dyn Read,
    crc: u32,
}

enum Part {
    Run(ImageRun),
    Trailer(ImageTrailer),
}

fn damaged(what: &str) -> FsError {
    FsError::with_message(
        libc::EIO,
        format!("the image is damaged: {what}: use another copy of it"),
    )
}

impl ImageReader<'_> {
    fn get(&mut self, bytes: &mut [u8]) -> FsResult<()> {
        self.input.read_exact(bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
            _ => stream_error("the image cannot be read", &e),
        })?;
        self.crc = terrace_layout::crc_append(self.crc, bytes);
        Ok(())
    }

    fn header(&mut self) -> FsResult<ImageHeader> {
        let mut bytes = [0u8; size_of::<ImageHeader>()];
        self.get(&mut bytes)?;
        ImageHeader::decode(&bytes)
            .map_err(|error| FsError::with_message(libc::EIO, error.to_string()))
    }

    fn part(&mut self) -> FsResult<Part> {
        let mut bytes = [0u8; size_of::<ImageRun>()];
        self.get(&mut bytes)?;
        let run = ImageRun::from_bytes(&bytes);
        Ok(if run.kind == IMAGE_END {
            Part::Trailer(ImageTrailer::from_bytes(&bytes))
        } else {
            Part::Run(run)
        })
    }

    /// Reads the first run: the superblocks, of which one belongs to the volume that the header
    /// names.
    fn superblocks(&mut self, header: &ImageHeader) -> FsResult<Vec<u8>> {
        let bytes = (SUPERBLOCK_BLOCKS * BLOCK_BYTES) as usize;
        let Part::Run(run) = self.part()? else {
            return Err(damaged("it holds no superblocks"));
        };
        if run.start != 0 || run.content_bytes() != bytes as u64 {
            return Err(damaged("it does not begin with superblocks"));
        }
        let mut contents = vec![0u8; bytes];
        self.contents(&run, &mut contents)?;
        match choose(Path::new("the image"), &contents)? {
            Some(sb)
                if sb.device_index == 0 && sb.uuid == header.uuid && sb.blocks == header.blocks =>
            {
                Ok(contents)
            }
            _ => Err(damaged("its superblocks are not of the volume that its header names")),
        }
    }

    fn contents(&mut self, run: &ImageRun, contents: &mut [u8]) -> FsResult<()> {
        self.get(contents)?;
        if run.is_sound(contents) {
            return Ok(());
        }
        Err(damaged(&format!(
            "the checksum of blocks {} to {} does not match",
            run.start,
            run.start + run.blocks - 1
        )))
    }

    /// Reads all that follows the superblocks, to its end, and hands each run with its contents
    /// (none: zeros) on.
    fn runs(
        &mut self,
        header: &ImageHeader,
        visit: &mut dyn FnMut(&ImageRun, &[u8]),
    ) -> FsResult<()> {
        let (mut runs, mut blocks, mut at) = (1, SUPERBLOCK_BLOCKS, SUPERBLOCK_BLOCKS);
        loop {
            let before = self.crc;
            match self.part()? {
                Part::Run(run) if !run.is_possible(at, header.blocks) => {
                    return Err(damaged("a run of blocks is not where one can be"));
                }
                Part::Run(run) => {
                    let mut contents = vec![0u8; run.content_bytes() as usize];
                    self.contents(&run, &mut contents)?;
                    visit(&run, &contents);
                    at = run.start + run.blocks;
                    (runs, blocks) = (runs + 1, blocks + run.blocks);
                }
                Part::Trailer(trailer) if trailer == ImageTrailer::new(runs, blocks, before) => {
                    return self.end();
                }
                Part::Trailer(_) => return Err(damaged("parts of it are missing or changed")),
            }
        }
    }

    fn end(&mut self) -> FsResult<()> {
        let mut rest = Vec::new();
        match (&mut *self.input).take(1).read_to_end(&mut rest) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged("something follows its end")),
            Err(e) => Err(stream_error("the image cannot be read", &e)),
        }
    }
}
