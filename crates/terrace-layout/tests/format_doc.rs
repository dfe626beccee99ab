//! `docs/FORMAT.md` says what the code does: its tables are compared with the structures and
//! constants, both ways.

use std::collections::BTreeMap;

use terrace_layout as layout;
use terrace_layout::EntryType;

const DOC: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md"));

/// Offset, size, name.
type Row = (usize, usize, String);

/// The cells of a table's row, without the backquotes around names.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
}

/// The rows of every table with this header, with the nearest heading before it.
fn tables<'a>(doc: &'a str, header: &[&str]) -> Vec<(&'a str, Vec<Vec<&'a str>>)> {
    let mut found = Vec::new();
    let mut heading = "";
    let mut lines = doc.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        }
        if cells(line).is_none_or(|cells| cells != header) {
            continue;
        }
        let rule = lines.next().and_then(cells).expect("a rule under the header");
        assert!(rule.iter().all(|cell| *cell == "---"), "{heading}: no rule under the header");
        let rows: Vec<_> = lines.by_ref().map_while(cells).collect();
        assert!(
            rows.iter().all(|row| row.len() == header.len()),
            "{heading}: a row has lost a cell"
        );
        found.push((heading, rows));
    }
    found
}

/// Name and size from a heading such as "`Superblock` (4096 bytes)".
fn structure(heading: &str) -> Option<(String, usize)> {
    let (name, size) = heading.strip_prefix('`')?.split_once("` (")?;
    Some((name.to_owned(), size.strip_suffix(" bytes)")?.parse().ok()?))
}

fn documented_structures(doc: &str) -> BTreeMap<String, (usize, Vec<Row>)> {
    let mut structures = BTreeMap::new();
    for (heading, rows) in tables(doc, &["offset", "size", "field", "meaning"]) {
        let (name, size) = structure(heading)
            .unwrap_or_else(|| panic!("the table under {heading:?} belongs to no structure"));
        let number =
            |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{name}: {cell:?} is no number"));
        let rows = rows.iter().map(|r| (number(r[0]), number(r[1]), r[2].to_owned())).collect();
        let twice = structures.insert(name.clone(), (size, rows)).is_some();
        assert!(!twice, "{name} is documented twice");
    }
    structures
}

fn coded_structures() -> BTreeMap<String, (usize, Vec<Row>)> {
    let row = |field: &layout::Field| (field.offset, field.size, field.name.to_owned());
    layout::all_structures()
        .into_iter()
        .map(|(name, size, fields)| (name.to_owned(), (size, fields.iter().map(row).collect())))
        .collect()
}

#[test]
fn the_tables_are_the_structures() {
    let documented = documented_structures(DOC);
    let coded = coded_structures();
    for (name, coded) in &coded {
        let documented = documented.get(name).unwrap_or_else(|| panic!("{name} is not documented"));
        assert_eq!(documented, coded, "{name}: documented on the left, in the code on the right");
    }
    for name in documented.keys() {
        assert!(coded.contains_key(name), "{name} is documented, but not in the code");
    }
    assert_eq!(coded.len(), layout::all_structures().len(), "a structure is listed twice");
    let headings = DOC.lines().filter_map(|line| structure(line.trim_start_matches('#').trim()));
    assert_eq!(headings.count(), coded.len(), "a structure's heading has no table");
}

#[test]
fn fields_leave_no_gaps() {
    for (name, (size, rows)) in coded_structures() {
        let end = rows.iter().fold(0, |end, (offset, size, field)| {
            assert_eq!(*offset, end, "{name}.{field}");
            end + size
        });
        assert_eq!(end, size, "{name}");
    }
}

#[test]
fn the_version_is_the_codes() {
    let version = format!("{}.{}", layout::FORMAT_MAJOR, layout::FORMAT_MINOR);
    assert!(DOC.contains(&format!("\nFormat version: **{version}**\n")), "not version {version}");
    let (_, changes) = DOC.split_once("### Version changes").expect("a section on version changes");
    assert!(
        changes.contains(&format!("* **{version}**:")),
        "version {version} is not in the list of changes"
    );
}

/// Name and value of each constant that the page gives.
macro_rules! constants {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), u64::try_from(layout::$name).expect("not negative"))),*]
    };
}

#[test]
fn the_constants_are_the_codes() {
    let coded: BTreeMap<&str, u64> = BTreeMap::from(constants![
        BLOCK_BYTES,
        SLOT_BYTES,
        PAGE_SLOTS,
        INODE_BYTES,
        INLINE_SLOTS,
        INLINE_OFFSET,
        SUPERBLOCK_BLOCKS,
        JOURNAL_OFFSET,
        JOURNAL_WORDS_MAX,
        WEAR_OFFSET,
        WEAR_SLOT_BYTES,
        WEAR_SLOTS,
        CHUNK_RECORDS_MIN,
        CHUNK_RECORDS_MAX,
        CRCS_PER_BLOCK,
        CRC_SLOTS_BLOCKS_MAX,
        DEVICES_MAX,
        DEVICE_BLOCKS_MAX,
        SHARDS_MAX,
        NAME_BYTES_MAX,
        COOKIE_MIN,
        COOKIE_MAX,
        LOG_SEQUENCE_MAX,
        EPOCH_MAX,
        SIBLING_ROWS_MAX,
        ARCHIVE_SLOTS_MAX,
        PATCH_BYTES_MAX,
        XATTR_NAME_BYTES_MAX,
        XATTR_VALUE_BYTES_MAX,
        FILE_BYTES_MAX,
        DEVICE_PATH_BYTES_MAX,
        INODE_FREE,
        INODE_USED,
        ROLE_PM,
        ROLE_DISK,
        ROLE_ABSENT,
        WRITE_UNWRITTEN,
        SET_SIZE_TRUNCATES,
        CRC_NONE,
        CRC_ENTRY,
        CRC_SLOTS,
        CRC_BLOCKS,
        CRC_COMMIT,
        INCOMPAT_PM_DATA_CRC,
        INCOMPAT_MOVES,
        INCOMPAT_ABSENT,
        INCOMPAT_ARCHIVES,
        INCOMPAT_GAPS,
        IMAGE_RUN_BLOCKS_MAX,
        IMAGE_DATA,
        IMAGE_ZEROS,
        IMAGE_END,
    ]);
    let [(_, rows)] = &tables(DOC, &["constant", "value", "meaning"])[..] else {
        panic!("there is one table of constants");
    };
    let documented: BTreeMap<&str, u64> =
        rows.iter().map(|row| (row[0], row[1].parse().expect("a number"))).collect();
    assert_eq!(documented, coded, "documented on the left, in the code on the right");
    for magic in [
        layout::SHARD_MAGIC,
        layout::CHUNK_MAGIC,
        layout::JOURNAL_COMMITTED,
        layout::WEAR_MAGIC,
        layout::CHECKPOINT_VALID,
        layout::IMAGE_MAGIC,
        u64::from(layout::LOG_PAGE_MAGIC),
    ] {
        let bytes = magic.to_le_bytes();
        let text = std::str::from_utf8(&bytes).expect("ASCII").trim_end_matches('\0');
        assert!(DOC.contains(&format!("`{text}`")), "magic {text} is not documented");
    }
    assert_eq!(&layout::MAGIC, b"TERRACE\x1a");
    assert!(DOC.contains("superblock `TERRACE` and 0x1a"));
}

#[test]
fn the_entry_types_are_the_codes() {
    use EntryType::*;
    let coded = [
        (Write, "WriteEntry"),
        (Append, "AppendEntry"),
        (Patch, "PatchEntry"),
        (SetSize, "SetSizeEntry"),
        (Hole, "HoleEntry"),
        (Attr, "AttrEntry"),
        (XattrSet, "XattrEntry"),
        (XattrRemove, "XattrEntry"),
        (DentryAdd, "DentryAddEntry"),
        (DentryRemove, "DentryRemoveEntry"),
        (Target, "TargetEntry"),
        (Pad, "PadEntry"),
        (Move, "WriteEntry"),
        (Archive, "ArchiveEntry"),
    ];
    let coded: Vec<_> = coded.iter().map(|&(kind, name)| (kind as u8, name)).collect();
    let [(_, rows)] = &tables(DOC, &["type", "structure", "in the log of"])[..] else {
        panic!("there is one table of entry types");
    };
    let name = |cell: &'static str| cell.split('`').next().expect("a name");
    let documented: Vec<_> =
        rows.iter().map(|row| (row[0].parse().expect("a number"), name(row[1]))).collect();
    assert_eq!(documented, coded);
}

/// The checks themselves notice a page that is wrong.
#[test]
fn a_wrong_page_is_noticed() {
    let coded = coded_structures();
    let changes = [
        ("| 8 | 8 | `ino` | inode number |", "| 8 | 4 | `ino` | inode number |"),
        ("| 56 | 8 | `tail` |", "| 48 | 8 | `tail` |"),
        ("| `cookie` | position", "| `position` | position"),
        ("### `PadEntry` (64 bytes)", "### `PadEntry` (32 bytes)"),
        ("| 24 | 40 | `reserved1` | zero |\n", ""),
    ];
    for (from, to) in changes {
        assert!(DOC.contains(from), "the page has changed: {from:?}");
        assert_ne!(
            documented_structures(&DOC.replacen(from, to, 1)),
            coded,
            "{from:?} became {to:?}"
        );
    }
    assert_eq!(documented_structures(DOC), coded);
}
