//! Writes the inputs that fuzzers start from: `seeds DIRECTORY` makes a directory for each target
//! there.

use std::path::PathBuf;

use terrace_damage::targets::{ALL, seeds};

fn main() -> std::io::Result<()> {
    let Some(corpus) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds DIRECTORY");
        std::process::exit(2);
    };
    for (target, _) in ALL {
        let dir = corpus.join(target);
        std::fs::create_dir_all(&dir)?;
        for (i, seed) in seeds(target).iter().enumerate() {
            std::fs::write(dir.join(format!("seed-{i}")), seed)?;
        }
    }
    Ok(())
}
