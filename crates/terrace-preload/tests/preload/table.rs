//! The table of functions in docs/DIRECT.md and the symbols of the library.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::runs::{have, library};

const WORDS: [&str; 6] = ["carried", "put back", "told", "forgets", "as it is", "handlers"];

/// The functions of the table, each with the word that says what happens.
fn table() -> BTreeMap<String, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/DIRECT.md");
    let page = fs::read_to_string(page).unwrap();
    let mut table = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for name in cells[1].split_whitespace() {
            let name = name.trim_matches('`').to_owned();
            assert!(WORDS.contains(&cells[2]), "{}: no such word", cells[2]);
            assert!(table.insert(name.clone(), cells[2].to_owned()).is_none(), "{name}: twice");
        }
    }
    table
}

#[test]
fn the_page_has_each_function_that_is_diverted() {
    if !have("nm") {
        return;
    }
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let diverted: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let table = table();
    for name in &diverted {
        assert!(table.contains_key(*name), "{name} is diverted, and docs/DIRECT.md lacks it");
    }
    for (name, happens) in &table {
        let diverts = diverted.contains(&name.as_str());
        assert!(diverts || happens == "as it is", "{name}: {happens}, but it is not diverted");
    }
}

/// Names that the C library has for a function beside its usual one. Programs call some of them.
#[test]
fn other_names_of_diverted_functions_are_diverted() {
    if !have("nm") || !have("cc") {
        return;
    }
    let path = Command::new("cc").arg("-print-file-name=libc.so.6").output().unwrap();
    let path = String::from_utf8(path.stdout).unwrap();
    let listed = Command::new("nm").args(["-D", "--defined-only", path.trim()]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let all: Vec<&str> = listed
        .lines()
        // Private ones are for the C library's own parts.
        .filter(|line| !line.ends_with("@GLIBC_PRIVATE"))
        .filter_map(|line| line.split_whitespace().nth(2)?.split('@').next())
        .collect();
    let table = table();
    for name in table.keys().filter(|name| table[*name] != "as it is") {
        let plain = name.trim_start_matches('_');
        for other in [format!("__{plain}"), format!("{plain}64"), format!("__{plain}_chk")] {
            let there = all.contains(&other.as_str());
            assert!(!there || table.contains_key(&other), "{other} is beside {name}");
        }
    }
}
