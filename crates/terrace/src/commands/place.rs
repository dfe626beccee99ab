//! `terrace evict` and `terrace warm`: files to a tier, by hand.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use terrace_engine::FileMoved;
use terrace_fuse::control::{self, MoveRange};

use super::failures::Failures;
use crate::cli::{EvictArgs, WarmArgs};
use crate::output;
use crate::progress::Progress;
use crate::size::format_size;

/// What one request moves, about, so that the daemon's threads are not kept for long.
const PIECE_BYTES: u64 = 64 << 20;

/// Moves files to a disk tier.
pub fn evict(args: &EvictArgs, quiet: bool) -> ExitCode {
    place_all(&args.files, args.tier, quiet)
}

/// Moves files to PM.
pub fn warm(args: &WarmArgs, quiet: bool) -> ExitCode {
    place_all(&args.files, 0, quiet)
}

fn place_all(files: &[PathBuf], tier: u8, quiet: bool) -> ExitCode {
    let mut failures = Failures::default();
    for path in files {
        failures.unless(place(path, tier, quiet));
    }
    failures.exit_code()
}

fn place(path: &Path, tier: u8, quiet: bool) -> Result<()> {
    let total = move_file(path, tier, &Progress::new(quiet))?;
    let (place, moved) = (path.display(), format_size(total.moved_bytes));
    if total.left_bytes > 0 {
        let left = format_size(total.left_bytes);
        bail!(
            "{place}: {moved} moved, {left} left where they were: there is no room for more, or they are being written"
        );
    }
    let below = match total.below_bytes {
        0 => String::new(),
        bytes => format!(", {} on a tier below: tier {tier} has no room for more", format_size(bytes)),
    };
    output::remark(quiet, &format!("{place}: {moved} moved{below}"));
    Ok(())
}

/// Moves a file to a tier, a piece at a time.
///
/// # Errors
/// It is no file of a mounted volume, or what kept data from moving.
pub fn move_file(path: &Path, tier: u8, progress: &Progress) -> Result<FileMoved> {
    let file = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    let mut total = FileMoved::default();
    for piece in pieces(file.len(), file.blocks() * 512) {
        progress.update("moving", piece.start, file.len().max(1));
        let (offset_bytes, len_bytes) = (piece.start, piece.end - piece.start);
        total += control::move_range(path, MoveRange { tier, offset_bytes, len_bytes })?;
    }
    Ok(total)
}

/// The pieces of a file, all but the last of one length: [`PIECE_BYTES`], and more where there is little in it. With the last
/// one goes what is reserved beyond the end.
fn pieces(size_bytes: u64, allocated_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let most = allocated_bytes / PIECE_BYTES + 1;
    let piece_bytes = size_bytes.div_ceil(most).next_multiple_of(PIECE_BYTES).max(PIECE_BYTES);
    let count = size_bytes.div_ceil(piece_bytes).max(1);
    (0..count).map(move |i| {
        let end = if i + 1 < count { (i + 1) * piece_bytes } else { u64::MAX };
        i * piece_bytes..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_file_of_any_length_and_are_not_more_than_its_data_need() {
        let around = |n: u64| [n - 1, n, n + 1];
        let sizes = [1, 4096, PIECE_BYTES, 2 * PIECE_BYTES, 10 * PIECE_BYTES, 1 << 62, i64::MAX as u64];
        for size in sizes.into_iter().flat_map(around).filter(|&size| size <= i64::MAX as u64) {
            for allocated in [0, 4096, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES, 100 * PIECE_BYTES] {
                let pieces: Vec<_> = pieces(size, allocated).collect();
                assert!(pieces.len() as u64 <= allocated / PIECE_BYTES + 1, "{size} bytes, {allocated} allocated");
                assert_eq!((pieces[0].start, pieces.last().unwrap().end), (0, u64::MAX));
                assert!(pieces.windows(2).all(|two| two[0].end == two[1].start));
                assert!(
                    pieces.iter().all(|piece| !piece.is_empty() && piece.start <= size),
                    "{size} bytes: {pieces:?}"
                );
            }
            // What is dense goes in pieces of their full length.
            let dense = pieces(size.min(1 << 40), size.min(1 << 40));
            assert!(dense.take(100).all(|piece| piece.end - piece.start == PIECE_BYTES || piece.end == u64::MAX));
        }
    }
}
