//! One contiguous device run and the buffers it is read into or gathered from, cut into pieces.
//!
//! Invariants: the pieces cover the run in order without gaps; no buffer part belongs to two
//! pieces; a piece has at most [`PIECE_BYTES`] bytes and [`IOV_MAX`] buffer parts. The lifetime
//! keeps the buffers borrowed while the kernel may touch them.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;

use libc::iovec;

use crate::buffer::IO_ALIGN_BYTES;
use crate::error::IoOp;

/// The longest piece: large enough for a disk's full bandwidth, small enough to keep several in
/// flight.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// The most buffers that the kernel takes in one operation.
pub(super) const IOV_MAX: usize = 1024;

/// A part of a run that one system operation reads or writes; it shrinks from the front as the
/// operation advances.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) left_bytes: usize,
    /// Its remaining buffer parts, as a range of the run's.
    first: usize,
    end: usize,
}

/// A run of bytes on a device, to be read or written.
pub(super) struct Run<'a> {
    pub(super) op: IoOp,
    pub(super) offset: u64,
    pub(super) len_bytes: usize,
    parts: Vec<iovec>,
    pub(super) pieces: Vec<Piece>,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> Run<'a> {
    pub(super) fn read(offset: u64, bufs: &'a mut [IoSliceMut<'_>]) -> Self {
        let buffers = bufs.iter_mut().map(|buf| (buf.as_mut_ptr(), buf.len()));
        Self::new(IoOp::Read, offset, buffers)
    }

    pub(super) fn write(offset: u64, bufs: &'a [IoSlice<'_>]) -> Self {
        // The kernel only reads from the buffers of a write; iovec has no const form.
        let buffers = bufs.iter().map(|buf| (buf.as_ptr().cast_mut(), buf.len()));
        Self::new(IoOp::Write, offset, buffers)
    }

    fn new(op: IoOp, offset: u64, buffers: impl Iterator<Item = (*mut u8, usize)>) -> Self {
        let mut run = Run {
            op,
            offset,
            len_bytes: 0,
            parts: Vec::new(),
            pieces: Vec::new(),
            buffers: PhantomData,
        };
        for (start, len) in buffers {
            let mut taken = 0;
            while taken < len {
                taken += run.take(start.wrapping_add(taken), len - taken);
            }
        }
        run
    }

    /// Appends as much of a buffer as the last piece has room for; opens a new piece when it has
    /// none.
    fn take(&mut self, start: *mut u8, len: usize) -> usize {
        let has_room =
            |piece: &Piece| piece.left_bytes < PIECE_BYTES && piece.end - piece.first < IOV_MAX;
        if !self.pieces.last().is_some_and(has_room) {
            let offset = self.offset + self.len_bytes as u64;
            self.pieces.push(Piece {
                offset,
                left_bytes: 0,
                first: self.parts.len(),
                end: self.parts.len(),
            });
        }
        let piece = self.pieces.last_mut().expect("one was pushed if there was none");
        let taken = len.min(PIECE_BYTES - piece.left_bytes);
        match self.parts.get_mut(piece.first..piece.end).and_then(|parts| parts.last_mut()) {
            // The kernel does less for one long buffer than for many that touch.
            Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == start.cast() => {
                last.iov_len += taken
            }
            _ => {
                self.parts.push(iovec { iov_base: start.cast(), iov_len: taken });
                piece.end += 1;
            }
        }
        piece.left_bytes += taken;
        self.len_bytes += taken;
        taken
    }

    /// Whether O_DIRECT takes every buffer as it is.
    pub(super) fn buffers_aligned(&self) -> bool {
        self.parts.iter().all(|part| (part.iov_base as usize).is_multiple_of(IO_ALIGN_BYTES))
    }

    /// The buffer parts that a piece has still to read or write.
    pub(super) fn parts(&self, piece: usize) -> &[iovec] {
        let piece = &self.pieces[piece];
        &self.parts[piece.first..piece.end]
    }

    /// Notes that the first `done_bytes` of what was left of a piece are through.
    pub(super) fn advance(&mut self, piece: usize, done_bytes: usize) {
        let piece = &mut self.pieces[piece];
        assert!(done_bytes <= piece.left_bytes, "the kernel does not do more than it was asked");
        piece.offset += done_bytes as u64;
        piece.left_bytes -= done_bytes;
        let mut left = done_bytes;
        while left > 0 {
            let part = &mut self.parts[piece.first];
            let step = left.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(step);
            part.iov_len -= step;
            left -= step;
            if part.iov_len == 0 {
                piece.first += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(run: &Run<'_>) -> Vec<(u64, usize, usize)> {
        run.pieces
            .iter()
            .enumerate()
            .map(|(at, piece)| (piece.offset, piece.left_bytes, run.parts(at).len()))
            .collect()
    }

    #[test]
    fn pieces_are_cut_at_their_longest_and_at_the_most_buffers() {
        let long = vec![0; PIECE_BYTES * 2 + 4096];
        let short = vec![0; 512];
        let bufs = [IoSlice::new(&short), IoSlice::new(&long)];
        let run = Run::write(4096, &bufs);
        let second = 4096 + PIECE_BYTES as u64;
        let expected = [
            (4096, PIECE_BYTES, 2),
            (second, PIECE_BYTES, 1),
            (second + PIECE_BYTES as u64, 4608, 1),
        ];
        assert_eq!(layout(&run), expected);
        assert_eq!(run.len_bytes, long.len() + short.len());

        let halves: Vec<_> = long[..8192].chunks(4096).map(IoSlice::new).collect();
        assert_eq!(layout(&Run::write(0, &halves)), [(0, 8192, 1)], "buffers that touch are one");

        let many: Vec<_> = (0..IOV_MAX + 1).map(|_| IoSlice::new(&short)).collect();
        let run = Run::write(0, &many);
        assert_eq!(layout(&run), [(0, IOV_MAX * 512, IOV_MAX), (IOV_MAX as u64 * 512, 512, 1)]);
    }

    #[test]
    fn a_piece_advances_through_its_buffers() {
        let (first, second) = (vec![0; 1000], vec![0; 500]);
        let bufs = [IoSlice::new(&first), IoSlice::new(&[]), IoSlice::new(&second)];
        let mut run = Run::write(0, &bufs);
        run.advance(0, 400);
        assert_eq!(layout(&run), [(400, 1100, 2)]);
        assert_eq!(run.parts(0)[0].iov_base as usize, first.as_ptr() as usize + 400);
        run.advance(0, 700);
        assert_eq!(layout(&run), [(1100, 400, 1)]);
        assert_eq!(run.parts(0)[0].iov_base as usize, second.as_ptr() as usize + 100);
        run.advance(0, 400);
        assert_eq!(layout(&run), [(1500, 0, 0)]);
    }
}
