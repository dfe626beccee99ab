//! Standard output, remarks and errors. A reader that has read enough (`terrace status | head -1`)
//! is no error.
//!
//! Invariant: what a file is called, a label says or a user has typed reaches neither a terminal
//! nor a file as a control character. Everything is written here, and names that stand in longer
//! texts go through [`in_a_line`] before: what a line has of them is harmless, and stays one line.

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;

/// Characters of a text that is shown whole although it is not known to make sense.
const SHORT_MAX: usize = 100;

/// Writes text to standard output.
///
/// # Errors
/// Standard output fails, other than because its reader is gone.
pub fn print(text: &str) -> Result<()> {
    offer(text).map(drop)
}

/// Writes text to standard output; false if its reader is gone.
///
/// # Errors
/// As [`print()`].
pub fn offer(text: &str) -> Result<bool> {
    let text = escaped(text, |c| is_control(c) && c != '\n' && c != '\t');
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.context("cannot write to standard output").map(|()| true),
    }
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Tells the user something that is neither a result nor an error, unless asked to be quiet.
pub fn remark(quiet: bool, text: &str) {
    if !quiet {
        // There is nobody to tell if standard error is gone.
        let _ = writeln!(io::stderr(), "{}", in_a_line(text));
    }
}

/// Tells the user of an error.
pub fn error(text: &str) {
    remark(false, &format!("terrace: {text}"));
}

/// Text that is to stand in a line: control characters as JSON writes them, `\n`, `\u001b`.
pub fn in_a_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_control)
}

/// What a user has typed, in quotes and not too long, to be shown in an error.
pub fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// The beginning of a text that is long.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHORT_MAX) {
        None => text.into(),
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()).into(),
    }
}

/// What a terminal obeys instead of showing it: control characters, and those that turn the
/// direction of others.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !is_unsafe(c) => safe.push(c),
            '\n' => safe += "\\n",
            '\r' => safe += "\\r",
            '\t' => safe += "\\t",
            _ => safe += &format!("\\u{:04x}", u32::from(c)),
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_and_harms_no_terminal() {
        for (text, shown) in [
            ("/mnt/plain ä", "/mnt/plain ä"),
            ("a\nb\rc\td", r"a\nb\rc\td"),
            ("\u{1b}[31m\u{7}\0\u{7f}", r"\u001b[31m\u0007\u0000\u007f"),
            ("\u{9b}2J \u{202e}txt", r"\u009b2J \u202etxt"),
        ] {
            assert_eq!(in_a_line(text), shown);
            assert_eq!(in_a_line(shown), shown, "what is safe stays");
        }
        assert!(
            (0..=0x10_ffff)
                .filter_map(char::from_u32)
                .all(|c| !in_a_line(&c.to_string()).contains(is_control))
        );
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let name = "\u{9b}2J\u{7f}\u{202e}\n\"\\";
        let json = serde_json::to_string_pretty(&[name]).unwrap();
        let safe = escaped(&json, |c| is_control(c) && c != '\n');
        assert_eq!(serde_json::from_str::<[String; 1]>(&safe).unwrap(), [name]);
    }

    #[test]
    fn what_is_quoted_is_not_too_long() {
        assert_eq!(quoted("no\nsuch"), r#""no\nsuch""#);
        let long = quoted(&"ä".repeat(100_000));
        assert!(
            long.starts_with("\"ää")
                && long.ends_with("ä… (100000 characters)\"")
                && long.len() < 300,
            "{long}"
        );
    }
}
