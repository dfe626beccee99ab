//! The bytes of a volume's devices, and a hash of them that follows changes.
//!
//! Invariant: equal images have equal hashes however they came about, since the hash is a sum over
//! their words.

use std::ops::Range;
use std::sync::Arc;

const WORD: usize = 8;
const BLOCK: usize = 4096;

/// The bytes of all devices: PM, then the disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub Vec<Vec<u8>>);

/// Bytes that differ from an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// 0 is PM.
    pub device: usize,
    /// Where (bytes).
    pub offset: usize,
    /// What is there.
    pub bytes: Box<[u8]>,
}

/// An image on the way to another: what was changed can be taken back.
#[derive(Debug)]
pub struct Scratch {
    image: Image,
    hash: u64,
    undo: Vec<Change>,
}

/// A word's part of the hash.
fn mix(device: usize, word: usize, value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let place = ((device as u64) << 48 | word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut x = value ^ place.rotate_left(31);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).wrapping_add(place)
}

fn hash_of(device: usize, bytes: &[u8], words: Range<usize>) -> u64 {
    words.fold(0u64, |sum, word| {
        let value =
            u64::from_le_bytes(bytes[word * WORD..][..WORD].try_into().expect("eight bytes"));
        sum.wrapping_add(mix(device, word, value))
    })
}

impl Image {
    /// What of `now`, device `device`, differs, block by block.
    pub fn changes<'a>(
        &'a self,
        device: usize,
        now: &'a [u8],
    ) -> impl Iterator<Item = Change> + 'a {
        let blocks = self.0[device].chunks(BLOCK).zip(now.chunks(BLOCK)).enumerate();
        blocks.filter(|(_, (was, is))| was != is).map(move |(i, (_, is))| Change {
            device,
            offset: i * BLOCK,
            bytes: is.into(),
        })
    }
}

impl Scratch {
    /// Starts from an image.
    pub fn new(image: &Arc<Image>) -> Self {
        let image = Image::clone(image);
        let hashes =
            image.0.iter().enumerate().map(|(i, bytes)| hash_of(i, bytes, 0..bytes.len() / WORD));
        let hash = hashes.fold(0, u64::wrapping_add);
        Scratch { image, hash, undo: Vec::new() }
    }

    /// The image as it is now.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Its hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Stores bytes.
    pub fn store(&mut self, device: usize, offset: usize, bytes: &[u8]) {
        let target = &mut self.image.0[device];
        let words = offset / WORD..(offset + bytes.len()).div_ceil(WORD);
        let before = hash_of(device, target, words.clone());
        self.undo.push(Change {
            device,
            offset,
            bytes: target[offset..offset + bytes.len()].into(),
        });
        target[offset..offset + bytes.len()].copy_from_slice(bytes);
        let after = hash_of(device, target, words);
        self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
    }

    /// What there is to take back by now.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Takes back what was stored since `mark`.
    pub fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let change = self.undo.pop().expect("longer than the mark");
            self.store(change.device, change.offset, &change.bytes);
            self.undo.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_back_and_the_hash_follows() {
        let image = Arc::new(Image(vec![vec![0; 8192], vec![7; 4096]]));
        let mut scratch = Scratch::new(&image);
        let start = scratch.hash();
        scratch.store(0, 13, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mark = scratch.mark();
        let once = scratch.hash();
        scratch.store(1, 0, &[7; 100]);
        assert_eq!(scratch.hash(), once, "the same bytes");
        scratch.store(0, 15, &[1; 20]);
        assert_ne!(scratch.hash(), once);
        scratch.back_to(mark);
        assert_eq!(scratch.hash(), once);
        assert_eq!(scratch.hash(), Scratch::new(&Arc::new(scratch.image().clone())).hash());
        scratch.back_to(0);
        assert_eq!((scratch.hash(), scratch.image()), (start, &*image));
    }

    #[test]
    fn what_differs_is_found_by_block() {
        let image = Image(vec![vec![0; 4 * BLOCK]]);
        let mut now = image.0[0].clone();
        now[BLOCK + 5] = 1;
        let found: Vec<_> = image.changes(0, &now).collect();
        assert_eq!(
            found,
            [Change { device: 0, offset: BLOCK, bytes: now[BLOCK..2 * BLOCK].into() }]
        );
    }
}
