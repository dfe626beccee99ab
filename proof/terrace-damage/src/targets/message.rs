//! Messages of the kernel, as `/dev/fuse` gives them.

use terrace_transport::{Message, Operation, decode, split};

/// All decoded bytes lie within the message, and names are names.
pub fn message(data: &[u8]) {
    // Messages are aligned; the length in the header is the one that the kernel would have sent.
    let mut words = vec![0_u64; data.len().div_ceil(8)];
    for (word, bytes) in words.iter_mut().zip(data.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    if let Some(first) = words.first_mut() {
        *first = *first & !0xffff_ffff | data.len() as u64;
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    for message in [data, &bytes[..data.len()]] {
        let Ok((header, body)) = split(message) else {
            continue;
        };
        if let Ok(request) = decode(header, body) {
            let inside = message.as_ptr_range();
            for part in parts(&request.operation) {
                let part = part.as_ptr_range();
                assert!(inside.start <= part.start && part.end <= inside.end, "{request:?}");
            }
            for name in names(&request.operation) {
                let is_name = !name.is_empty() && !name.contains(&b'/') && !name.contains(&0);
                assert!(is_name, "{request:?}");
            }
        }
    }
}

/// The names of files in a message.
fn names<'a>(operation: &Operation<'a>) -> Vec<&'a [u8]> {
    match *operation {
        Operation::Lookup { name }
        | Operation::Symlink { name, .. }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. } => vec![name],
        Operation::Rename { name, new_name, .. } => vec![name, new_name],
        _ => Vec::new(),
    }
}

/// All bytes of a message that are handed on.
fn parts<'a>(operation: &Operation<'a>) -> Vec<&'a [u8]> {
    let mut parts = names(operation);
    match *operation {
        Operation::Symlink { target, .. } => parts.push(target),
        Operation::Write(_, data) | Operation::Ioctl(_, data) => parts.push(data),
        Operation::Setxattr { name, value, .. } => parts.extend([name, value]),
        Operation::Getxattr { name, .. } | Operation::Removexattr { name } => parts.push(name),
        _ => {}
    }
    parts
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let message = |(kind, zeros): (&Message, usize)| {
        let mut bytes = vec![0; 40 + zeros];
        bytes[4..8].copy_from_slice(&kind.opcode().to_ne_bytes());
        bytes.extend(b"name\0other\0");
        bytes
    };
    let lengths = [0, 8, 16, 24, 32, 40, 48, 56, 64, 88];
    Message::ALL.iter().flat_map(|kind| lengths.map(|zeros| (kind, zeros))).map(message).collect()
}
