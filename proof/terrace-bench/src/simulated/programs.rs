//! What is recorded: a database, a mail server under load, a build, a mail server's day.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, AtFlags, OFlags, fadvise, renameat, syncfs, unlinkat};

use crate::files::{create, open_at, open_directory};
use crate::interrupt;
use crate::kernel::run;
use crate::loads::{Running, VARMAIL};
use crate::rocksdb;
use crate::workload::{FILLING, Random};

const PUTS: u64 = 60_000;
/// As many puts as `PUTS`, then as many over them.
pub fn rocksdb(root: &Path, less: u64) -> Result<()> {
    rocksdb::fill_and_overwrite(&root.join("db"), PUTS / less)
}

/// Two clients that deliver, read and remove mails as fast as they can.
pub fn varmail(root: &Path, less: u64) -> Result<()> {
    Running::new(VARMAIL, root, 1000)?.loops(8000 / less)
}

const SOURCES: u64 = 1200;
const SOURCES_PER_OBJECT: u64 = 20;

/// Sources are unpacked, compiled many at a time, and linked. The kernel has none of them cached
/// when they are compiled.
pub fn build(root: &Path, less: u64) -> Result<()> {
    let mut random = Random::new();
    let objects = (SOURCES / less / SOURCES_PER_OBJECT).max(2);
    for object in 0..objects {
        interrupt::check()?;
        let directory = root.join(format!("part{object}"));
        fs::create_dir(&directory)?;
        let mut all = String::new();
        for source in 0..SOURCES_PER_OBJECT {
            let name = format!("source{source}.h");
            fs::write(directory.join(&name), source_text(object, source, &mut random))?;
            writeln!(all, "#include \"{name}\"")?;
        }
        fs::write(directory.join("all.c"), all)?;
    }
    fs::write(root.join("main.c"), "int main(void) { return 0; }\n")?;
    fs::write(root.join("Makefile"), makefile(objects))?;
    syncfs(open_directory(root)?)?;
    for object in 0..objects {
        for source in 0..SOURCES_PER_OBJECT {
            forget_cached(&fs::File::open(root.join(format!("part{object}/source{source}.h")))?)?;
        }
    }
    run(Command::new("make").args(["-s", "-C"]).arg(root)).map(drop)
}

fn source_text(object: u64, source: u64, random: &mut Random) -> String {
    let functions = 10 + random.below(50);
    let mut text = String::new();
    for function in 0..functions {
        let number = random.below(1 << 20);
        text += &format!(
            "/* Number {number}. */\nint f{object}_{source}_{function}(int x) {{\n    return x * \
             {number} + {function};\n}}\n\n"
        );
    }
    text
}

fn makefile(objects: u64) -> String {
    let names: Vec<String> = (0..objects).map(|object| format!("part{object}/all.o")).collect();
    format!(
        "OBJECTS = {}\n\nprogram: main.o $(OBJECTS)\n\tcc -o $@ $^\n\n%.o: %.c\n\tcc -c -o $@ $<\n",
        names.join(" ")
    )
}

/// What costs the engine something where no file data is in PM: a write and an fsync of each file,
/// and reads of what the page cache has and has not.
pub fn calibration(root: &Path, less: u64) -> Result<()> {
    let root = open_directory(root)?;
    let mut random = Random::new();
    let mut buffer = vec![0; FILLING.len()];
    for number in 0..1600 / less {
        interrupt::check()?;
        let len_bytes = 4096 << random.below(8);
        let file = create(&root, &format!("file{number}"), OFlags::EXCL)?;
        write_all(&file, len_bytes)?;
        file.sync_all()?;
        // One that has nothing to do, too.
        file.sync_all()?;
        for other in [number, random.below(number + 1)] {
            let file = open_at(&root, &format!("file{other}"), OFlags::RDONLY | OFlags::CLOEXEC)?;
            forget_cached(&file)?;
            let read_bytes = (4096 << random.below(5)).min(file.metadata()?.len() as usize);
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer[..read_bytes], 0)?;
        }
    }
    Ok(())
}

const MAILS: u64 = 4000;
const HOURS: u64 = 12;

/// Mails are delivered, each made durable under another name first; some are read, many of them
/// days old; some are removed. An hour takes a second, and mostly nothing happens in it.
pub fn mail_day(root: &Path, less: u64) -> Result<()> {
    let root = open_directory(root)?;
    let mut random = Random::new();
    let mut mails: Vec<(u64, u64)> = Vec::new();
    let mut delivered = 0;
    let mut buffer = vec![0; FILLING.len()];
    for hour in 0..HOURS {
        // Few come at night.
        let busy = [1, 1, 2, 4, 6, 6, 4, 5, 6, 4, 2, 1][hour as usize % 12];
        for _ in 0..MAILS * busy / 42 / less {
            interrupt::check()?;
            let most = if random.below(10) == 0 { 512 << 10 } else { 32 << 10 };
            let len_bytes = 2048 + random.below(most);
            let file = create(&root, "new", OFlags::EXCL)?;
            write_all(&file, len_bytes)?;
            file.sync_all()?;
            forget_cached(&file)?;
            renameat(&root, "new", &root, format!("mail{delivered}"))?;
            mails.push((delivered, len_bytes));
            delivered += 1;
            if random.below(2) == 0 {
                let (name, len_bytes) = mails[random.below(mails.len() as u64) as usize];
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = open_at(&root, &format!("mail{name}"), flags)?;
                std::os::unix::fs::FileExt::read_exact_at(
                    &file,
                    &mut buffer[..len_bytes as usize],
                    0,
                )?;
                forget_cached(&file)?;
            }
            if random.below(4) == 0 {
                let (name, _) = mails.swap_remove(random.below(mails.len() as u64) as usize);
                unlinkat(&root, format!("mail{name}"), AtFlags::empty())?;
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn write_all(file: &fs::File, len_bytes: u64) -> Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, &FILLING[..len_bytes as usize], 0)
        .context("writing a mail")
}

/// The next reader asks the file system, as on a server with more files than memory.
fn forget_cached(file: &fs::File) -> Result<()> {
    fadvise(file, 0, None, Advice::DontNeed).context("having the kernel forget a file")
}
