//! The examples do what they say.

#[path = "../examples/files.rs"]
mod files;
#[path = "../examples/tiers.rs"]
mod tiers;

#[test]
fn a_file_is_written_and_found_again() {
    files::main().unwrap();
}

#[test]
fn blocks_move_between_tiers() {
    tiers::main().unwrap();
}
