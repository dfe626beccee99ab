//! The functions that fuzzers call: one per decoder, one for images of PM, one for whole volumes,
//! three for what a daemon is told. None may panic, hang or take much memory, whatever it is given.
//!
//! What stands behind a checksum is reached because each decoder sees its input twice: as it is,
//! and sealed.

mod control;
mod decoders;
mod http;
mod message;
mod recover;
mod saved;

pub use control::{Command, commands, control, is_for_all};
pub use decoders::{
    checkpoint, chunk_header, inode_record, journal, log_entry, log_page, shard_page, superblock,
    words,
};
pub use http::http;
pub use message::message;
pub use recover::{Edit, recover};
pub use saved::saved;

/// A target: its name and the function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by name.
pub const ALL: [Target; 14] = [
    ("superblock", superblock),
    ("shard_page", shard_page),
    ("journal", journal),
    ("checkpoint", checkpoint),
    ("chunk_header", chunk_header),
    ("inode_record", inode_record),
    ("log_page", log_page),
    ("log_entry", log_entry),
    ("words", words),
    ("saved", saved),
    ("recover", recover),
    ("control", control),
    ("http", http),
    ("message", message),
];

/// Real inputs for a target, for a fuzzer to start from.
///
/// # Panics
/// If there is no target with this name.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "saved" => saved::seeds(),
        "recover" => recover::seeds(),
        "control" => control::seeds(),
        "http" => http::seeds(),
        "message" => message::seeds(),
        "words" => vec![vec![0; 8], terrace_layout::Tail::new(4096, 3).0.to_le_bytes().to_vec()],
        decoder => decoders::seeds(decoder),
    }
}
