//! The words and signs of a Rust file, each with its line. Comments and the contents of literals
//! are left out.

/// A word, a sign, or a literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    /// An identifier or keyword, one sign (`::` is one), or `"..."` with the text of a string.
    pub text: &'a str,
    /// Its line, from 1.
    pub line: usize,
}

impl Token<'_> {
    /// Whether it is an identifier or a keyword.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(is_word_start)
    }
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The tokens of a source text.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let (len, is_token) = next_len(rest, first);
        let (text, after) = rest.split_at(len);
        if is_token {
            // The name of a raw identifier is what follows `r#`.
            let is_raw = text.starts_with("r#") && text[2..].starts_with(is_word_start);
            tokens.push(Token { text: if is_raw { &text[2..] } else { text }, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// How many bytes belong to what `rest` begins with, and whether that is a token.
fn next_len(rest: &str, first: char) -> (usize, bool) {
    if first.is_whitespace() {
        (first.len_utf8(), false)
    } else if rest.starts_with("//") {
        (rest.find('\n').unwrap_or(rest.len()), false)
    } else if rest.starts_with("/*") {
        (block_comment_len(rest), false)
    } else if let Some(len) = literal_len(rest) {
        (len, true)
    } else if is_word_part(first) {
        (rest.find(|c| !is_word_part(c)).unwrap_or(rest.len()), true)
    } else if rest.starts_with("::") {
        (2, true)
    } else {
        (first.len_utf8(), true)
    }
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if rest[at..].starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                break;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the string, character, lifetime or raw identifier that `rest` begins with.
fn literal_len(rest: &str) -> Option<usize> {
    if rest.starts_with('\'') {
        return Some(quote_len(rest));
    }
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|p| {
        let after = rest.strip_prefix(p);
        after.is_some_and(|after| after.starts_with(['"', '#', '\'']))
    })?;
    let after = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = after.len() - after.trim_start_matches('#').len();
        let body = &after[hashes..];
        if !body.starts_with('"') {
            let word = body.find(|c| !is_word_part(c)).unwrap_or(body.len());
            return (hashes == 1 && word > 0).then_some(prefix.len() + 1 + word);
        }
        let end = format!("\"{}", "#".repeat(hashes));
        let body_len = body[1..].find(&end).map_or(body.len(), |at| 1 + at + end.len());
        return Some(prefix.len() + hashes + body_len);
    }
    match after.chars().next() {
        Some('"') => Some(prefix.len() + quoted_len(after, '"')),
        Some('\'') if prefix == "b" => Some(prefix.len() + quoted_len(after, '\'')),
        _ => None,
    }
}

/// A character (`'a'`, `'\n'`) or a lifetime (`'a`).
fn quote_len(rest: &str) -> usize {
    let mut chars = rest[1..].chars();
    let (first, second) = (chars.next(), chars.next());
    if first == Some('\\') || second == Some('\'') {
        return quoted_len(rest, '\'');
    }
    1 + rest[1..].find(|c| !is_word_part(c)).unwrap_or(rest.len() - 1)
}

/// From the quote at the start to the one that ends it.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_hide_what_is_in_them() {
        let source = "a /* b /* c */ d */ \"e\\\" f\" 'g' 'h r#\"i\"# // j\n r#type b'\\'' k::l";
        let found: Vec<_> = tokens(source).iter().map(|t| (t.text, t.line)).collect();
        let first = ["a", "\"e\\\" f\"", "'g'", "'h", "r#\"i\"#"].map(|text| (text, 1));
        let second = ["type", "b'\\''", "k", "::", "l"].map(|text| (text, 2));
        assert_eq!(found, [first, second].concat());
    }

    #[test]
    fn lines_count_on_in_what_spans_several() {
        let source = "\"a\nb\" c /*\n\n*/ d";
        let found: Vec<_> = tokens(source).iter().skip(1).map(|t| (t.text, t.line)).collect();
        assert_eq!(found, [("c", 2), ("d", 4)]);
    }
}
