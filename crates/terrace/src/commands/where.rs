//! `terrace where`

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use terrace_fuse::control;

use super::failures::Failures;
use crate::cli::WhereArgs;
use crate::{output, report};

/// Prints where files are.
///
/// # Errors
/// Standard output fails, or the daemon is of a version that answers otherwise.
pub fn run(args: &WhereArgs) -> Result<ExitCode> {
    let (mut failures, mut maps) = (Failures::default(), Vec::with_capacity(args.files.len()));
    for path in &args.files {
        let Some(mut map) = failures.unless(map_of(path)) else {
            continue;
        };
        if !args.extents {
            map.get_mut("extents").and_then(Value::as_array_mut).into_iter().for_each(join);
        }
        if args.json {
            maps.push(map);
        } else {
            output::print(&report::file_map(path, &serde_json::from_value(map)?))?;
        }
    }
    if !maps.is_empty() {
        output::print_json(&maps)?;
    }
    Ok(failures.exit_code())
}

/// A file's map as the daemon answers it, and which file it is.
fn map_of(path: &Path) -> Result<Value> {
    let mut map = control::file_map(path)?;
    map.insert("path".to_owned(), path.to_string_lossy().into());
    Ok(map.into())
}

/// Makes one extent of those that go on where the one before ends, in the file and on the device.
fn join(extents: &mut Vec<Value>) {
    let end = |extent: &Value, start: &str| {
        Some(extent[start].as_u64()?.saturating_add(extent["len_bytes"].as_u64()?))
    };
    let goes_on = |last: &Value, next: &Value| {
        let touches = |start| end(last, start).is_some_and(|end| next[start] == end);
        let is_like = |what| last[what] == next[what];
        ["tier", "device", "unwritten"].into_iter().all(is_like)
            && ["offset_bytes", "device_offset_bytes"].into_iter().all(touches)
    };
    let number = |extent: &Value, what: &str| extent[what].as_u64().unwrap_or_default();
    extents.dedup_by(|next, last| {
        let joins = goes_on(last, next);
        if joins {
            for what in ["len_bytes", "cached_bytes"] {
                last[what] = number(last, what).saturating_add(number(next, what)).into();
            }
            last["write_counter"] =
                number(last, "write_counter").max(number(next, "write_counter")).into();
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_goes_on_in_the_file_and_on_the_device_is_one_extent() {
        let extent = |at: u64,
                      len: u64,
                      device_at: u64,
                      tier: &str,
                      unwritten: bool,
                      cached: u64,
                      counter: u64| {
            json!({
                "offset_bytes": at, "len_bytes": len, "device_offset_bytes": device_at,
                "tier": tier, "device": tier,
                "unwritten": unwritten, "cached_bytes": cached, "write_counter": counter,
            })
        };
        let mut extents = vec![
            extent(0, 4096, 8192, "disk1", false, 4096, 2),
            extent(4096, 8192, 12288, "disk1", false, 8192, 3),
            extent(12288, 4096, 20480, "disk1", false, 0, 0),
            // Elsewhere on the device; elsewhere in the file; reserved; on another device.
            extent(16384, 4096, 40960, "disk1", false, 0, 0),
            extent(24576, 4096, 45056, "disk1", false, 0, 0),
            extent(28672, 4096, 49152, "disk1", true, 0, 0),
            extent(32768, 4096, 53248, "disk2", true, 0, 0),
        ];
        let expected =
            [&[extent(0, 16384, 8192, "disk1", false, 12288, 3)], &extents[3..]].concat();
        join(&mut extents);
        assert_eq!(extents, expected);
        // Other words, of a daemon of another version, stay as they are.
        let mut strange = vec![json!({ "at": 0 }), json!(null), json!([])];
        let before = strange.clone();
        join(&mut strange);
        assert_eq!(strange, before);
    }
}
