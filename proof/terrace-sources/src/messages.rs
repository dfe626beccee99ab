//! Whether code reads the messages that it makes itself.

use std::path::Path;

use crate::lexer::Token;
use crate::parse::product_tokens;

/// Methods that look into a text.
const LOOKS: &[&str] = &[
    "contains",
    "starts_with",
    "ends_with",
    "find",
    "split",
    "split_once",
    "strip_prefix",
    "strip_suffix",
    "trim_start_matches",
    "trim_end_matches",
];

/// Places of a file that make a text and look into it at once. Errors are told apart by type, so
/// tests alone may do that.
pub fn read_back(path: &Path, text: &str) -> Vec<String> {
    let tokens = product_tokens(text);
    let looks = tokens.windows(2).enumerate().filter(|(at, pair)| {
        pair[0].text == "." && LOOKS.contains(&pair[1].text) && is_text_made(&tokens[..*at])
    });
    let place = |(_, pair): (usize, &[Token<'_>])| {
        let (file, line) = (path.display(), pair[1].line);
        format!("{file}:{line}: `{}` looks into a text that was just made", pair[1].text)
    };
    looks.map(place).collect()
}

/// Whether the tokens end with `.to_string()` or `format!(…)`.
fn is_text_made(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0;
    let opening = tokens.iter().rposition(|token| {
        depth += i32::from(token.text == ")") - i32::from(token.text == "(");
        depth <= 0
    });
    match opening.filter(|&at| tokens[at].text == "(").map(|at| &tokens[..at]) {
        Some([.., dot, name]) => {
            dot.text == "." && name.text == "to_string" || dot.text == "format" && name.text == "!"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_made_and_looked_into_are_found() {
        let source = "fn f(e: E) -> bool {\n\
            e.to_string().contains(\"busy\") || format!(\"{e:#}\", (1)).starts_with(\"no\")\n\
            || e.to_string()\n.find('x').is_some()\n\
            }";
        let expected = [(2, "contains"), (2, "starts_with"), (4, "find")].map(|(line, look)| {
            format!("a.rs:{line}: `{look}` looks into a text that was just made")
        });
        assert_eq!(read_back(Path::new("a.rs"), source), expected);
    }

    #[test]
    fn other_texts_and_tests_may_be_looked_into() {
        let source = "fn f(line: &str, e: E) { line.contains(\"x\"); g(e.to_string()).find(1);\n\
            e.to_string().len(); (\"a\").contains(\"b\"); }\n\
            #[cfg(test)]\nmod tests { fn g(e: E) { e.to_string().contains(\"busy\"); } }\n";
        assert_eq!(read_back(Path::new("a.rs"), source), [""; 0]);
    }
}
