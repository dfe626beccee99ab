//! The policy's thresholds in words: as mount options, for `terrace set`, and in help texts. Pure.

use terrace_policy::{Param, TUNABLES, Tunable, Unit};

use crate::output::quoted;
use crate::size::{format_size, parse_size};

/// How a threshold is given: `group=SIZE`.
pub fn form(tunable: &Tunable) -> String {
    let value = match tunable.unit {
        Unit::Blocks => "BLOCKS",
        Unit::Count | Unit::Factor => "N",
        Unit::Percent => "PERCENT",
        Unit::Seconds => "SECONDS",
        Unit::Bytes => "SIZE",
        Unit::BytesPerSecond => "SIZE/S",
        Unit::Switch => "0|1",
    };
    format!("{}={value}", tunable.name)
}

/// The value of a threshold as text.
pub fn value_text(tunable: &Tunable, value: u64) -> String {
    match tunable.unit {
        Unit::BytesPerSecond if value == 0 => "no limit".into(),
        Unit::Bytes => format_size(value),
        Unit::BytesPerSecond => format!("{}/s", format_size(value)),
        Unit::Percent => format!("{value} %"),
        Unit::Blocks | Unit::Seconds => format!("{value} {}", tunable.unit.name()),
        Unit::Count | Unit::Factor | Unit::Switch => value.to_string(),
    }
}

/// Reads `text` as the value of a threshold.
///
/// # Errors
/// A sentence that names the threshold, its range and its unit.
pub fn parse_value(param: Param, text: &str) -> Result<u64, String> {
    let tunable = param.tunable();
    let value = match tunable.unit {
        Unit::Bytes | Unit::BytesPerSecond => parse_size(text).ok(),
        _ => text.parse().ok(),
    };
    let form = form(tunable);
    let value = value
        .ok_or_else(|| format!("{form}: {} is not a value; {}", quoted(text), range(tunable)))?;
    tunable
        .check(value)
        .map_err(|_| format!("{form}: {} is out of range; {}", quoted(text), range(tunable)))?;
    Ok(value)
}

/// The range of a threshold in words.
pub fn range(tunable: &Tunable) -> String {
    let [min, max, default] =
        [tunable.min, tunable.max, tunable.default].map(|value| value_text(tunable, value));
    format!("it may be from {min} to {max}, by default {default}")
}

/// Reads `NAME=VALUE`.
///
/// # Errors
/// As [`parse_value`]; a name that there is not.
pub fn parse_setting(text: &str) -> Result<(Param, u64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{}: give a threshold as NAME=VALUE", quoted(text)))?;
    let param = Param::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = TUNABLES.iter().map(|tunable| tunable.name).collect();
        format!("there is no threshold {}; there are: {}", quoted(name), names.join(", "))
    })?;
    Ok((param, parse_value(param, value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_reads_what_it_prints_of_its_default_and_refuses_what_lies_outside() {
        for tunable in &TUNABLES {
            let text = match tunable.unit {
                Unit::Bytes | Unit::BytesPerSecond if tunable.default > 0 => {
                    format_size(tunable.default).replace(' ', "")
                }
                _ => tunable.default.to_string(),
            };
            assert_eq!(
                parse_setting(&format!("{}={text}", tunable.name)),
                Ok((tunable.param, tunable.default))
            );
            let error = parse_value(tunable.param, &(tunable.max + 1).to_string()).unwrap_err();
            assert!(error.contains(tunable.name) && error.contains("by default"), "{error}");
            assert!(parse_value(tunable.param, "many").is_err());
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parse_setting("group").unwrap_err().contains("NAME=VALUE"));
        let error = parse_setting("grope=1M").unwrap_err();
        assert!(error.contains("\"grope\"") && error.contains("group"), "{error}");
        assert!(parse_setting("migrate_at=101").unwrap_err().contains("from 1 % to 100 %"));
    }
}
