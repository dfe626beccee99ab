//! Kinds of files that are alike. Files of one directory are of one kind if their names follow one
//! pattern; and so are files of all directories.

/// A kind of files: a directory and a pattern of names, hashed. 0 is no kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind(pub u64);

/// The kinds of one file: in its directory, and anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds([Kind; 2]);

impl Kinds {
    /// The kinds of a file of this name.
    pub fn of(directory: u64, name: &[u8]) -> Self {
        let hash = |directory: u64| {
            let start = directory.to_le_bytes().into_iter().fold(FNV_START, fnv);
            let mut hash = start;
            each_of_pattern(name, |byte| hash = fnv(hash, byte));
            Kind(hash.max(1))
        };
        Self([hash(directory), hash(0)])
    }

    /// Of a file that has no siblings.
    pub fn none() -> Self {
        Self::default()
    }

    /// Both.
    pub(crate) fn each(self) -> [Kind; 2] {
        self.0
    }

    /// Both, as numbers: first the one of its directory.
    pub fn to_numbers(self) -> [u64; 2] {
        self.0.map(|kind| kind.0)
    }

    /// The kinds of these numbers.
    pub fn from_numbers(numbers: [u64; 2]) -> Self {
        Self(numbers.map(Kind))
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// A step of the hash FNV-1a, which stays the same across mounts.
fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Shows the bytes of a name's pattern: of its suffix if it has one, else of all of it. A digit
/// stands for a number, and for each other run of letters and digits that has a digit.
fn each_of_pattern(name: &[u8], mut show: impl FnMut(u8)) {
    let dot = name.iter().rposition(|&byte| byte == b'.');
    let suffix = dot.filter(|&dot| dot > 0 && dot + 1 < name.len()).map_or(name, |at| &name[at..]);
    let is_of_run = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
    for run in suffix.chunk_by(|a, b| is_of_run(a) && is_of_run(b)) {
        let word = run.iter().position(u8::is_ascii_digit).unwrap_or(run.len());
        let (word, number) = run.split_at(word);
        if number.iter().all(u8::is_ascii_digit) {
            word.iter().for_each(|&byte| show(byte));
        }
        if !number.is_empty() {
            show(b'0');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(name: &str) -> String {
        let mut pattern = Vec::new();
        each_of_pattern(name.as_bytes(), |byte| pattern.push(byte));
        String::from_utf8(pattern).unwrap()
    }

    #[test]
    fn names_of_one_pattern_are_of_one_kind() {
        let patterns = [
            ("000012.sst", ".sst"),
            ("main.c", ".c"),
            ("song.mp3", ".mp0"),
            ("table17", "table0"),
            ("MANIFEST-000005", "MANIFEST-0"),
            ("000000010000000A", "0"),
            ("db-journal", "db-journal"),
            ("tmpX7ab-q", "0-q"),
            (".hidden", ".hidden"),
            ("dot.", "dot."),
            ("1700000000.M12P34.host", ".host"),
            ("", ""),
            ("größe7", "größe0"),
        ];
        for (name, expected) in patterns {
            assert_eq!(pattern(name), expected, "{name}");
        }
        assert_eq!(Kinds::of(1, b"a.c").0[1], Kinds::of(2, b"b.c").0[1]);
        assert_ne!(Kinds::of(1, b"a.c").0[0], Kinds::of(2, b"a.c").0[0]);
        assert_ne!(Kinds::of(1, b"a.c"), Kinds::of(1, b"a.h"));
        // They are kept across mounts.
        let numbers = [0x4de4_c35e_d743_6048, 0x7c46_4b16_0242_4281];
        assert_eq!(Kinds::of(1, b"7.sst").to_numbers(), numbers);
    }
}
