//! A page of a request or of an answer, as the ioctl carries it.

/// Size of a page, both ways; 14 bits of an ioctl's code hold it.
pub(super) const PAGE_BYTES: usize = 16 * 1024 - 64;
const _: () = assert!(PAGE_BYTES < 1 << 14);

/// First bytes of every page: tells a Terrace daemon from another that happens to know the ioctl's
/// code.
const MAGIC: [u8; 8] = *b"TERRACE\x01";
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const DATA_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

/// The fixed part of a page. On the wire: magic, then the three numbers in native order, then data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Which answer; 0 in the request that starts one.
    pub(super) answer: u64,
    /// Where in the answer the page's data begins.
    pub(super) offset_bytes: u64,
    /// Length of the whole answer; in a request, of what the command needs to know.
    pub(super) total_bytes: u64,
}

impl Header {
    pub(super) fn encode(self, page: &mut [u8]) {
        page[..8].copy_from_slice(&MAGIC);
        for (field, value) in page[8..HEADER_BYTES].chunks_exact_mut(8).zip([
            self.answer,
            self.offset_bytes,
            self.total_bytes,
        ]) {
            field.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// `None` if it is none.
    pub(super) fn decode(page: &[u8]) -> Option<Header> {
        if page.len() < HEADER_BYTES || page[..8] != MAGIC {
            return None;
        }
        let field = |at: usize| page[at..at + 8].try_into().map(u64::from_ne_bytes).ok();
        Some(Header { answer: field(8)?, offset_bytes: field(16)?, total_bytes: field(24)? })
    }
}
