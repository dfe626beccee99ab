//! The modules, items, imports and paths of one Rust file. Code under `#[cfg(test)]` is left out.

use std::collections::BTreeSet;

use crate::lexer::{Token, tokens};

/// A module, as far as one file tells.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Module {
    /// Names of items that the module defines.
    pub items: BTreeSet<String>,
    /// What its `use` lines bring into scope.
    pub imports: Vec<Import>,
    /// Every path to another module or crate, those of `use` lines included.
    pub paths: Vec<Path>,
    /// Its child modules.
    pub children: Vec<Child>,
}

/// A name that a `use` brings into scope: of all names, if it ends with `*`.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    /// The name in this module, `*` for all names.
    pub name: String,
    /// Where it comes from, without the `*`.
    pub path: Vec<String>,
}

/// A path and its line.
#[derive(Debug, PartialEq)]
pub(crate) struct Path {
    pub segments: Vec<String>,
    pub line: usize,
}

/// A child module.
#[derive(Debug, PartialEq)]
pub(crate) struct Child {
    pub name: String,
    pub place: Place,
}

/// Where a child module is.
#[derive(Debug, PartialEq)]
pub(crate) enum Place {
    /// In the same file.
    Here(Module),
    /// In a file of its own; `#[path]` may name it.
    File(Option<String>),
}

const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// What may begin an item, other than the words of `ITEMS` and `pub`.
const MORE_ITEMS: [&str; 8] =
    ["mod", "use", "impl", "unsafe", "async", "extern", "macro_rules", "let"];

/// Reads a file.
pub(crate) fn parse(source: &str) -> Module {
    Parser { tokens: &product_tokens(source), at: 0 }.module()
}

/// The tokens of a file, those of items under `#[cfg(test)]` left out.
pub(crate) fn product_tokens(source: &str) -> Vec<Token<'_>> {
    let tokens = tokens(source);
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let mut kept = Vec::new();
    while parser.at < tokens.len() {
        let start = parser.at;
        parser.at += 1;
        if parser.begins_attribute(start) && is_test(parser.attribute()) {
            parser.skip_item();
        } else {
            kept.extend_from_slice(&tokens[start..parser.at]);
        }
    }
    kept
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn next(&mut self) -> Option<&'a Token<'a>> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    /// Whether the token at `at` is the `#` of an attribute; the next one is at hand.
    fn begins_attribute(&self, at: usize) -> bool {
        self.tokens[at].text == "#"
            && (self.peek(0) == "[" || self.peek(0) == "!" && self.peek(1) == "[")
    }

    /// Up to the brace that closes the module, or to the end of the file.
    fn module(&mut self) -> Module {
        let mut module = Module::default();
        let (mut depth, mut named_path) = (0, None);
        while let Some(token) = self.next() {
            match token.text {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "#" if self.begins_attribute(self.at - 1) => {
                    if let [name, _, value, ..] = self.attribute()
                        && name.text == "path"
                    {
                        named_path = Some(value.text.trim_matches('"').to_owned());
                    }
                }
                // Says who sees something, not what is used.
                "pub" if self.peek(0) == "(" => self.skip_group(),
                "mod" if matches!(self.peek(1), "{" | ";") => {
                    let child = self.child(named_path.take());
                    module.children.push(child);
                }
                "use" if self.peek(0) != "<" => self.use_tree(&mut module, &[], depth == 0),
                "macro_rules" if depth == 0 => drop(module.items.insert(self.peek(1).to_owned())),
                item if depth == 0 && ITEMS.contains(&item) => {
                    module.items.insert(self.peek(0).to_owned());
                }
                _ => self.path(token, &mut module.paths),
            }
        }
        module
    }

    fn child(&mut self, named_path: Option<String>) -> Child {
        let name = self.peek(0).to_owned();
        self.at += 1;
        let is_here = self.next().is_some_and(|token| token.text == "{");
        let place = if is_here { Place::Here(self.module()) } else { Place::File(named_path) };
        Child { name, place }
    }

    /// The tokens between the brackets of an attribute.
    fn attribute(&mut self) -> &'a [Token<'a>] {
        let is_inner = usize::from(self.peek(0) == "!");
        self.at += is_inner;
        let start = self.at + 1;
        self.skip_group();
        &self.tokens[start..self.at.saturating_sub(1).max(start)]
    }

    /// Goes past the group that begins here.
    fn skip_group(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.next() {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Goes past the item, field, variant or arm that follows an attribute.
    fn skip_item(&mut self) {
        while self.peek(0) == "#" {
            self.at += 1;
            self.attribute();
        }
        if self.peek(0) == "pub" {
            self.at += 1;
            if self.peek(0) == "(" {
                self.skip_group();
            }
        }
        let first = self.peek(0);
        let is_item = ITEMS.contains(&first) || MORE_ITEMS.contains(&first);
        loop {
            match self.peek(0) {
                "" | "}" => return,
                "," if !is_item => return,
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" if is_item && !matches!(first, "use" | "let" | "static" | "const") => {
                    return self.skip_group();
                }
                "(" | "[" | "{" => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    /// The rest of a `use`, of which `before` was read.
    fn use_tree(&mut self, module: &mut Module, before: &[String], is_import: bool) {
        let mut segments = before.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.use_tree(module, &segments, is_import);
                        self.at += usize::from(self.peek(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "::" => self.at += 1,
                "*" => {
                    self.at += 1;
                    break module.import("*", segments, line, is_import);
                }
                "self" if !segments.is_empty() => self.at += 1,
                text if self.tokens.get(self.at).is_some_and(Token::is_word) && text != "as" => {
                    segments.push(text.to_owned());
                    self.at += 1;
                }
                "as" => {
                    let name = self.peek(1);
                    self.at += 2;
                    break module.import(name, segments, line, is_import);
                }
                _ => {
                    let name = segments.last().cloned().unwrap_or_default();
                    break module.import(&name, segments, line, is_import);
                }
            }
        }
    }

    /// The path that begins with `first`, if it may lead out of the module.
    fn path(&mut self, first: &Token<'_>, paths: &mut Vec<Path>) {
        let is_first = self.at < 2 || self.tokens[self.at - 2].text != "::";
        if !first.is_word() || self.peek(0) != "::" || !is_first {
            return;
        }
        let mut segments = vec![first.text.to_owned()];
        while self.peek(0) == "::" && self.tokens.get(self.at + 1).is_some_and(Token::is_word) {
            segments.push(self.peek(1).to_owned());
            self.at += 2;
        }
        paths.push(Path { segments, line: first.line });
    }
}

impl Module {
    fn import(&mut self, name: &str, path: Vec<String>, line: usize, is_import: bool) {
        let mut segments = path.clone();
        if name == "*" {
            segments.push("*".to_owned());
        }
        self.paths.push(Path { segments, line });
        if is_import {
            self.imports.push(Import { name: name.to_owned(), path });
        }
    }
}

/// Whether an attribute keeps what follows for tests.
fn is_test(attribute: &[Token<'_>]) -> bool {
    let is = |at: usize, text| attribute.get(at).is_some_and(|token| token.text == text);
    is(0, "cfg")
        && (2..attribute.len()).any(|at| is(at, "test") && !(is(at - 2, "not") && is(at - 1, "(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<(String, usize)> {
        parse(source).paths.iter().map(|path| (path.segments.join("::"), path.line)).collect()
    }

    fn found(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
        expected.iter().map(|&(path, line)| (path.to_owned(), line)).collect()
    }

    #[test]
    fn a_use_is_as_many_paths_as_it_has_leaves() {
        let source = "use a::b;\npub use crate::{\n  c::{self, D as E},\n  f::*,\n};";
        let expected = [("a::b", 1), ("crate::c", 3), ("crate::c::D", 3), ("crate::f::*", 4)];
        assert_eq!(paths(source), found(&expected));
        let names: Vec<_> = parse(source).imports.into_iter().map(|import| import.name).collect();
        assert_eq!(names, ["b", "c", "E", "*"]);
    }

    #[test]
    fn paths_are_found_in_code_and_in_macros() {
        let source = "fn f(x: crate::a::B) -> super::C {\n assert!(super::super::d::e(x) < 2);\n}";
        let expected = [("crate::a::B", 1), ("super::C", 1), ("super::super::d::e", 2)];
        assert_eq!(paths(source), found(&expected));
    }

    #[test]
    fn neither_tests_nor_comments_nor_visibility_count() {
        let source = "// crate::a\n/// [`crate::b`]\npub(in crate::c) fn f() {}\n\
            #[cfg(test)]\nmod tests { use crate::d; }\n\
            #[cfg(test)]\nuse crate::{e, f};\n\
            #[cfg(all(test, not(shuttle)))]\nimpl X { fn g() { crate::h(); } }\n\
            struct Y { #[cfg(test)] pub i: crate::I<u8>, j: crate::J }\n\
            #[cfg(not(test))]\nuse crate::k;\n\
            #[cfg(test)]\nmod more;";
        let module = parse(source);
        assert_eq!(paths(source), found(&[("crate::J", 10), ("crate::k", 12)]));
        assert_eq!(module.children, []);
    }

    #[test]
    fn modules_are_read_with_their_own_paths() {
        let source =
            "mod a;\n#[path = \"x/y.rs\"]\nmod b;\nmod c { use super::D; fn e() {} }\nfn f() {}";
        let module = parse(source);
        let names: Vec<_> = module.children.iter().map(|child| &*child.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(module.children[1].place, Place::File(Some("x/y.rs".to_owned())));
        let Place::Here(inner) = &module.children[2].place else { panic!("{module:?}") };
        assert_eq!(inner.paths[0].segments, ["super", "D"]);
        assert!(inner.items.contains("e") && module.items.contains("f"), "{module:?}");
        assert_eq!(module.paths, []);
    }
}
