//! How wide lines are, and how long modules.

use std::path::Path;

/// Columns of a line of code, as in rustfmt.toml; comments and strings too.
pub const CODE_COLUMNS_MAX: usize = 100;
/// Columns of a line of prose, of a script or of a makefile.
pub const TEXT_COLUMNS_MAX: usize = 120;
/// Lines of a module without a reason to be longer.
pub const MODULE_LINES_MAX: usize = 600;
/// What begins the line that gives that reason, in the comment at the top of a module.
pub const REASON: &str = "//! Longer than 600 lines: ";

/// Lines of the file that are too wide. Addresses and, in prose, tables and code have the width
/// that they need.
pub fn too_wide(path: &Path, text: &str) -> Vec<String> {
    let is_code = path.extension().is_some_and(|e| e == "rs");
    let is_prose = path.extension().is_some_and(|e| e == "md");
    let columns_max = if is_code { CODE_COLUMNS_MAX } else { TEXT_COLUMNS_MAX };
    let mut is_fenced = false;
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        is_fenced ^= is_prose && line.trim_start().starts_with("```");
        let is_free = line.contains("://") || is_prose && (is_fenced || line.starts_with('|'));
        let columns = line.chars().count();
        if columns > columns_max && !is_free {
            let place = format!("{}:{}", path.display(), number + 1);
            findings.push(format!("{place}: {columns} columns, {columns_max} are allowed"));
        }
    }
    findings
}

/// A module that is too long, unless the comment at its top gives a reason.
pub fn too_long(path: &Path, text: &str) -> Option<String> {
    let mut top = text.lines().take_while(|line| line.starts_with("//!"));
    let has_reason = top.any(|line| line.len() > REASON.len() && line.starts_with(REASON));
    let lines = text.lines().count();
    (lines > MODULE_LINES_MAX && !has_reason)
        .then(|| format!("{}: {lines} lines and no reason for so many", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_found() {
        let wide = |file: &str, columns: usize| {
            let text = format!("short\n{}", "ä".repeat(columns));
            too_wide(Path::new(file), &text)
        };
        assert_eq!(wide("a.rs", 100), [""; 0]);
        assert_eq!(wide("a.rs", 101), ["a.rs:2: 101 columns, 100 are allowed"]);
        assert_eq!(wide("Makefile", 120), [""; 0]);
        assert_eq!(wide("a.sh", 121), ["a.sh:2: 121 columns, 120 are allowed"]);
    }

    #[test]
    fn tables_addresses_and_code_in_prose_may_be_wide() {
        let wide = "x".repeat(121);
        let text = format!("| {wide} |\nhttps://{wide}\n```text\n{wide}\n```\n{wide}\n");
        assert_eq!(too_wide(Path::new("a.md"), &text).len(), 1);
        assert_eq!(too_wide(Path::new("a.sh"), &text).len(), 3);
    }

    #[test]
    fn long_modules_need_a_reason() {
        let module = |top: &str| format!("//! A module.\n{top}\nfn f() {{}}{}", "\n//".repeat(600));
        let is_found = |text: &str| too_long(Path::new("a.rs"), text).is_some();
        assert!(is_found(&module("//!")));
        assert!(is_found(&module("//! Longer than 600 lines: ")));
        assert!(is_found(&module("\n//! Longer than 600 lines: too late.")));
        assert!(!is_found(&module("//! Longer than 600 lines: one table.")));
        assert!(!is_found("fn f() {}\n"));
    }
}
