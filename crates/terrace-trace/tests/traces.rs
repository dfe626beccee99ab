//! Whole traces: what is written is read, whatever it is; what is damaged says where.

use proptest::prelude::*;
use terrace_trace::{
    BlockEncoder, Ending, FORMAT_MAJOR, Facts, Operation, Reader, Record, Summary, TierFacts,
    TraceError, Writer,
};

fn facts() -> Facts {
    Facts {
        program: "0.1.0".into(),
        started_unix_ns: 1_700_000_000_000_000_000,
        tiers: vec![
            TierFacts { tier: 0, capacity_bytes: 4 << 30, used_bytes: 1 << 30 },
            TierFacts { tier: 1, capacity_bytes: 100 << 30, used_bytes: 0 },
            TierFacts { tier: 2, capacity_bytes: 1 << 40, used_bytes: 5 },
        ],
        cache_bytes: 256 << 20,
        pm_full_percent: 90,
        writeback_seconds: 5,
        durable: true,
    }
}

fn read(bytes: &[u8]) -> Result<(Vec<Record>, Summary), TraceError> {
    let mut reader = Reader::new(bytes)?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block)? {
        all.extend_from_slice(&block);
    }
    assert!(
        !reader.next_block(&mut block)? && block.is_empty(),
        "after the last block there is none"
    );
    Ok((all, reader.summary()))
}

fn written(records: &[Record], ending: Ending) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
    records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish(ending, 3).unwrap()
}

/// As `terrace record` writes it: blocks come from the daemon. Returns where each block begins,
/// too.
fn in_small_blocks(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
    let mut encoder = BlockEncoder::new(100);
    let mut starts = Vec::new();
    for record in records {
        if !encoder.push(record) {
            starts.push(writer.written_bytes() as usize);
            writer.append_block(&encoder.finish(0)).unwrap();
            assert!(encoder.push(record));
        }
    }
    starts.push(writer.written_bytes() as usize);
    writer.append_block(&encoder.finish(0)).unwrap();
    starts.push(writer.written_bytes() as usize);
    assert_eq!(writer.records(), records.len() as u64);
    (writer.finish(Ending::Asked, 0).unwrap(), starts)
}

fn writes(n: u64) -> Vec<Record> {
    (0..n)
        .map(|at| Record {
            time_us: at * at,
            took_ns: at * 700,
            caller: at % 3,
            operation: Operation::Write,
            durable: at % 3 == 0,
            ino: 5 + at % 7,
            offset: at * 1000,
            len: 100 + at,
        })
        .collect()
}

fn record() -> impl Strategy<Value = Record> {
    let number = || prop_oneof![0..10u64, (0..1u64 << 20).prop_map(|n| n * 4096), any::<u64>()];
    let operation = prop::sample::select(Operation::ALL.to_vec());
    let times = (0..1u64 << 40, number(), number());
    (times, operation, any::<bool>(), number(), number(), number()).prop_map(
        |((time_us, took_ns, caller), operation, durable, ino, offset, len)| {
            let has_len = matches!(
                operation,
                Operation::Read | Operation::Write | Operation::Allocate | Operation::Deallocate
            );
            let has_offset = has_len || operation == Operation::Truncate;
            let (offset, len) =
                (if has_offset { offset } else { 0 }, if has_len { len } else { 0 });
            Record { time_us, took_ns, caller, operation, durable, ino, offset, len }
        },
    )
}

proptest! {
    #[test]
    fn every_record_comes_back(mut records in prop::collection::vec(record(), 0..300)) {
        records.sort_by_key(|record| record.time_us);
        let (found, summary) = read(&written(&records, Ending::Unmounted)).unwrap();
        prop_assert_eq!(&found, &records);
        prop_assert_eq!((summary.records, summary.lost), (records.len() as u64, 3));
        prop_assert_eq!(summary.ending, Ending::Unmounted);
        let (found, _) = read(&in_small_blocks(&records).0).unwrap();
        prop_assert_eq!(found, records, "wherever blocks begin");
    }

    #[test]
    fn a_cut_anywhere_leaves_the_whole_blocks(n in 1u64..60, cut in any::<prop::sample::Index>()) {
        let records = writes(n);
        let (bytes, starts) = in_small_blocks(&records);
        let cut = cut.index(bytes.len());
        match read(&bytes[..cut]) {
            Ok((found, summary)) => {
                prop_assert_eq!(summary.ending, Ending::Torn);
                prop_assert_eq!(&found[..], &records[..found.len()]);
                let whole = starts.iter().rev().find(|&&start| start <= cut).copied();
                let read = Some(summary.whole_bytes as usize);
                prop_assert_eq!(read, whole, "the whole blocks and no more");
            }
            Err(TraceError::NoHeader { bytes }) => {
                prop_assert!(bytes as usize == cut && cut < starts[0])
            }
            Err(TraceError::Foreign) => prop_assert_eq!(cut, 0),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn a_changed_bit_is_never_believed(
        n in 1u64..60,
        at in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let records = writes(n);
        let (mut bytes, starts) = in_small_blocks(&records);
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        match read(&bytes) {
            Ok((found, summary)) => {
                prop_assert!(at >= *starts.last().unwrap(), "only the end may be taken for torn, \
                    not byte {}", at);
                prop_assert_eq!(summary.ending, Ending::Torn);
                prop_assert_eq!(found, records);
            }
            Err(TraceError::Damaged { offset, .. }) => {
                let start = starts.iter().rev().find(|&&start| start <= at).copied().unwrap_or(0);
                prop_assert!(offset as usize >= start && offset as usize <= at, "{} for {}",
                    offset, at);
            }
            Err(TraceError::NoHeader { .. } | TraceError::Foreign | TraceError::Newer { .. }) => {
                prop_assert!(at < starts[0]);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(matches!(read(&bytes), Err(TraceError::Foreign)));
    }
}

#[test]
fn facts_come_back_and_add_up() {
    let bytes = written(&[], Ending::Asked);
    let reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(*reader.facts(), facts());
    assert_eq!(
        (reader.facts().pm_bytes(), reader.facts().disk_bytes()),
        (4 << 30, (100 << 30) + (1 << 40))
    );
}

#[test]
fn a_newer_format_is_named_and_so_is_what_is_no_trace() {
    let mut bytes = written(&writes(3), Ending::Asked);
    bytes[8..10].copy_from_slice(&(FORMAT_MAJOR + 1).to_le_bytes());
    let newer = read(&bytes).unwrap_err().to_string();
    assert!(
        newer.contains(&format!("format {}", FORMAT_MAJOR + 1)) && newer.contains("newer terrace"),
        "{newer}"
    );
    assert_eq!(
        read(b"#!/bin/sh\necho hello").unwrap_err().to_string(),
        "this is no trace of `terrace record`"
    );
    assert!(matches!(read(b""), Err(TraceError::Foreign)));
    let short = read(&written(&[], Ending::Asked)[..20]).unwrap_err().to_string();
    assert!(short.contains("20 bytes") && short.contains("record it again"), "{short}");
}

#[test]
fn facts_of_later_programs_are_passed_over() {
    let json = br#"{"cache_bytes": 7, "of_the_future": [1, {"a": 2}]}"#;
    let mut bytes = b"TERRTRC\n".to_vec();
    bytes.extend_from_slice(&FORMAT_MAJOR.to_le_bytes());
    bytes.extend_from_slice(&9u16.to_le_bytes());
    bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
    bytes.extend_from_slice(json);
    bytes.extend_from_slice(
        &(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32).to_le_bytes(),
    );
    assert_eq!(
        *Reader::new(&bytes[..]).unwrap().facts(),
        Facts { cache_bytes: 7, ..Facts::default() }
    );
}

#[test]
fn a_zeroed_end_is_a_torn_one_and_zeros_in_the_middle_are_damage() {
    let records = writes(50);
    let (bytes, starts) = in_small_blocks(&records);
    let mut torn = bytes[..starts[2]].to_vec();
    torn.resize(torn.len() + 8192, 0);
    let (found, summary) = read(&torn).unwrap();
    assert_eq!((summary.ending, summary.whole_bytes), (Ending::Torn, starts[2] as u64));
    assert_eq!(found[..], records[..found.len()]);
    let mut damaged = bytes.clone();
    damaged[starts[1]..starts[2]].fill(0);
    let error = read(&damaged).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {}", starts[1])), "{error}");
}

#[test]
fn blocks_come_in_their_order_and_nothing_after_the_end() {
    let (bytes, starts) = in_small_blocks(&writes(50));
    let mut doubled = bytes[..starts[1]].to_vec();
    doubled.extend_from_slice(&bytes[starts[0]..]);
    let error = read(&doubled).unwrap_err().to_string();
    assert!(error.contains("block 0 stands where 1 comes next"), "{error}");
    let mut longer = bytes.clone();
    longer.push(1);
    let error = read(&longer).unwrap_err().to_string();
    assert!(
        error.contains(&format!("byte {}", bytes.len())) && error.contains("follows the end"),
        "{error}"
    );
    let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
    let second = &bytes[starts[1]..starts[2]];
    assert!(writer.append_block(second).unwrap_err().to_string().contains("where 0 comes next"));
    assert!(writer.append_block(&bytes[starts[0]..starts[1] - 1]).is_err());
}

#[test]
fn many_records_take_a_few_bytes_each() {
    let mut at = 1u64;
    let records: Vec<Record> = (0..200_000)
        .map(|number| {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let operation = if at >> 63 == 0 { Operation::Read } else { Operation::Write };
            let (ino, block) = (2 + (at >> 40) % 50, (at >> 33) % 25_000);
            Record {
                time_us: number * 25,
                took_ns: 1500 + at % 4000,
                caller: 1 + at % 8,
                operation,
                durable: false,
                ino,
                offset: block * 4096,
                len: 4096,
            }
        })
        .collect();
    let bytes = written(&records, Ending::Asked);
    assert!(bytes.len() < records.len() * 11, "{} bytes", bytes.len());
    assert_eq!(read(&bytes).unwrap().0, records);
}

#[test]
fn times_never_go_back() {
    let mut records = writes(3);
    (records[0].time_us, records[1].time_us, records[2].time_us) = (10, 4, 12);
    let times: Vec<u64> = read(&written(&records, Ending::Asked))
        .unwrap()
        .0
        .iter()
        .map(|record| record.time_us)
        .collect();
    assert_eq!(times, [10, 10, 12]);
}

#[test]
fn a_trace_of_before_has_all_but_durations_and_callers() {
    let records: Vec<Record> =
        writes(50).into_iter().map(|record| Record { took_ns: 0, caller: 0, ..record }).collect();
    let (found, summary) = read(include_bytes!("golden/2.0.trace")).unwrap();
    assert_eq!(found, records);
    assert_eq!((summary.ending, summary.lost), (Ending::Asked, 0));
}
