//! Sizes as people write them, and as people read them.
//!
//! `K`, `M`, `G`, `T` (and `KiB`, `MiB`, …) are powers of 1024; `kB`, `MB`, `GB`, `TB` are powers
//! of 1000; a bare number, or one with `B`, is bytes. Case does not matter and fractions are
//! allowed: `4G`, `1.5G`, `512MiB`, `10GB`.

use crate::output::quoted;

/// What the help texts say about sizes.
pub const HELP: &str = "\
Sizes: 4G, 1.5G, 512MiB, 4096. K, M, G, T and KiB, MiB, GiB, TiB are powers of
1024; kB, MB, GB, TB are powers of 1000; a bare number is bytes.";

const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// Parses a size into bytes; a fraction of a byte is cut off.
///
/// # Errors
/// A sentence that quotes the text and says what is wrong with it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let complain = |why: &str| Err(format!("{} is not a size: {why}", quoted(text)));
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return complain("it must begin with a number, as in 4G or 512MiB");
    }
    if fraction.contains('.') {
        return complain("it has more than one decimal point");
    }
    let unit = unit.trim().to_ascii_lowercase();
    let Some(&(_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return complain(
            "the units are K, M, G, T (KiB, …: powers of 1024) and kB, MB, GB, TB (powers of 1000)",
        );
    };
    match scaled(whole, fraction, factor) {
        Some(bytes) => Ok(bytes),
        None => complain("it is too large"),
    }
}

/// `whole.fraction * factor`, exactly, rounded down; `None` where it does not fit.
fn scaled(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    let number = |digits: &str| {
        if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() }
    };
    // Digits beyond the 18th after the point are worth less than a byte in any unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let whole_bytes = number(whole)?.checked_mul(u128::from(factor))?;
    let fraction_bytes = number(fraction)? * u128::from(factor) / 10u128.pow(fraction.len() as u32);
    u64::try_from(whole_bytes.checked_add(fraction_bytes)?).ok()
}

/// Splits `PATH:SIZE` at its last colon. The size is `None` where there is no colon or what follows
/// it is part of the path (it has a `/` or does not begin with a digit), and an error where it is
/// meant as a size but is none.
pub fn split_path_size(text: &str) -> (&str, Option<Result<u64, String>>) {
    match text.rsplit_once(':') {
        Some((path, tail))
            if !path.is_empty()
                && !tail.contains('/')
                && tail.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            (path, Some(parse_size(tail)))
        }
        _ => (text, None),
    }
}

/// A size for people: three significant digits and a binary unit.
pub fn format_size(bytes: u64) -> String {
    const NAMES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut name = 0;
    // 1023.5 and more would be printed as 1024.
    while value >= 1023.5 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    let decimals = match value {
        v if v.fract() < 0.005 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", NAMES[name])
}

/// `part` of `whole` in percent, rounded down, so that 100 % means full; 0 of nothing is 0.
pub fn percent(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0", 0),
            ("12B", 12),
            ("4G", 4 << 30),
            ("4g", 4 << 30),
            ("4GiB", 4 << 30),
            ("4 GiB", 4 << 30),
            ("512MiB", 512 << 20),
            ("1.5G", 3 << 29),
            (".5K", 512),
            ("2.K", 2048),
            ("10GB", 10_000_000_000),
            ("10kB", 10_000),
            ("10KB", 10_000),
            ("10K", 10_240),
            ("1T", 1 << 40),
            ("1TB", 1_000_000_000_000),
            ("0.1K", 102),
            ("16777215.99999999999999999999T", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_quoted_and_explained() {
        for (text, why) in [
            ("", "begin with a number"),
            ("G", "begin with a number"),
            (".", "begin with a number"),
            ("-1", "begin with a number"),
            ("1.2.3G", "more than one decimal point"),
            ("4X", "the units are"),
            ("4GG", "the units are"),
            ("0x10", "the units are"),
            ("16777216T", "too large"),
            ("99999999999999999999999999999999999999999999", "too large"),
        ] {
            let message = parse_size(text).unwrap_err();
            assert!(
                message.contains(why) && message.contains(&format!("{text:?}")),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn only_a_tail_that_looks_like_a_size_is_one() {
        assert_eq!(split_path_size("/dev/pmem0"), ("/dev/pmem0", None));
        assert_eq!(split_path_size("/dev/shm/pm:4G"), ("/dev/shm/pm", Some(Ok(4 << 30))));
        assert_eq!(split_path_size("/a:b/c:1:512M"), ("/a:b/c:1", Some(Ok(512 << 20))));
        assert_eq!(split_path_size("/a:b"), ("/a:b", None));
        assert_eq!(split_path_size("/a:4/b"), ("/a:4/b", None));
        assert_eq!(split_path_size(":4G"), (":4G", None));
        let (path, size) = split_path_size("/dev/shm/pm:4X");
        assert_eq!(path, "/dev/shm/pm");
        assert!(size.unwrap().unwrap_err().contains("4X"));
    }

    #[test]
    fn sizes_as_people_read_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (15 << 19, "7.50 MiB"),
            (256 << 20, "256 MiB"),
            (12_900_000, "12.3 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn percentages_round_down_and_bear_nothing() {
        assert_eq!(percent(0, 0), 0);
        assert_eq!(percent(999, 1000), 99);
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
    }
}
