//! A program that is written for Terrace: it does on files what its standard input says, by
//! `terrace_direct::File`. Lines and answers are as those of `worker.rs`.
//!
//! | line | call | numbers of the answer |
//! |---|---|---|
//! | `open NAME rw?ct?` | open; letters: read, write, create, truncate | the handle |
//! | `close` | close | |
//! | `write LEN SEED` | append | how many bytes |
//! | `append LEN SEED` | append | where they begin |
//! | `pwrite OFFSET LEN SEED` | write | how many bytes |
//! | `pread OFFSET LEN` | read | how many bytes, and their checksum |
//! | `truncate LEN`, `sync`, `size` | set length, sync, size | of `size`: the size |
//! | `usage` | how many calls went direct, and how many took the mount | both |
//! | `child CALL` | the call, in a child | as the call |
//! | `storm THREADS EACH LEN` | threads append so many records each, while this one forks | |
//!
//! In a storm, each child appends a record, too. Seeds are numbers from 0 on, in no order.

use std::ffi::c_int;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_direct::{Error, File};
use terrace_proof::{crc32c, pattern};

/// Children of a storm.
const CHILDREN: u64 = 8;

type Answer = Result<Vec<u64>, i32>;

fn main() -> ExitCode {
    let mut handles: Vec<Option<File>> = Vec::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        let words: Vec<&str> = line.split(' ').collect();
        if let [handle, "child", call_of_child @ ..] = words.as_slice() {
            let answer = || handle_of(&handles, handle).and_then(|file| call(file, call_of_child));
            if !in_child(|| say(&answer())) {
                say(&Err(WRONG));
            }
            continue;
        }
        say(&carry_out(&mut handles, &words));
    }
    ExitCode::SUCCESS
}

fn say(answer: &Answer) {
    let line = match answer {
        Ok(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            format!("ok {}", numbers.join(" "))
        }
        Err(errno) => format!("error {errno}"),
    };
    println!("{}", line.trim_end());
}

/// What no test asks for.
const WRONG: i32 = -1;

fn errno(error: Error) -> i32 {
    error.errno()
}

fn carry_out(handles: &mut Vec<Option<File>>, words: &[&str]) -> Answer {
    if let ["open", name, letters] = words {
        let has = |letter| letters.contains(letter);
        let access = match (has('r'), has('w')) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        let create = if has('c') { libc::O_CREAT } else { 0 };
        let truncate = if has('t') { libc::O_TRUNC } else { 0 };
        let file = File::open_with(name, access | create | truncate, 0o644).map_err(errno)?;
        let free = handles.iter().position(Option::is_none).unwrap_or(handles.len());
        handles.resize_with(handles.len().max(free + 1), || None);
        handles[free] = Some(file);
        return Ok(vec![free as u64]);
    }
    let [handle, rest @ ..] = words else { return Err(WRONG) };
    match rest {
        ["close"] => {
            let number: usize = handle.parse().map_err(|_| WRONG)?;
            let file = handles.get_mut(number).and_then(Option::take).ok_or(WRONG)?;
            file.close().map(|()| Vec::new()).map_err(errno)
        }
        ["storm", numbers @ ..] => storm(handle_of(handles, handle)?, &parsed(numbers)),
        _ => call(handle_of(handles, handle)?, rest),
    }
}

fn handle_of<'a>(handles: &'a [Option<File>], word: &str) -> Result<&'a File, i32> {
    let number: usize = word.parse().map_err(|_| WRONG)?;
    handles.get(number).and_then(Option::as_ref).ok_or(WRONG)
}

fn parsed(words: &[&str]) -> Vec<u64> {
    words.iter().filter_map(|word| word.parse().ok()).collect()
}

fn call(file: &File, words: &[&str]) -> Answer {
    let [name, arguments @ ..] = words else { return Err(WRONG) };
    let answer = match (*name, parsed(arguments).as_slice()) {
        ("write", &[len, seed]) => file.append(&pattern(seed, len as usize)).map(|_| vec![len]),
        ("append", &[len, seed]) => file.append(&pattern(seed, len as usize)).map(|at| vec![at]),
        ("pwrite", &[at, len, seed]) => {
            file.write_at(&pattern(seed, len as usize), at).map(|()| vec![len])
        }
        ("pread", &[at, len]) => {
            let mut bytes = vec![0; len as usize];
            file.read_at(&mut bytes, at)
                .map(|read| vec![read as u64, u64::from(crc32c(&bytes[..read]))])
        }
        ("truncate", &[len]) => file.set_len(len).map(|()| Vec::new()),
        ("sync", []) => file.sync().map(|()| Vec::new()),
        ("size", []) => file.size().map(|size| vec![size]),
        ("usage", []) => Ok(vec![file.usage().direct_calls, file.usage().mount_calls]),
        _ => return Err(WRONG),
    };
    answer.map_err(errno)
}

/// Has a child do something, and waits for it. Says whether the child has ended well.
fn in_child(child: impl FnOnce()) -> bool {
    // SAFETY: the child takes no locks that other threads have: files take none there.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: it ends this process.
            unsafe { libc::_exit(0) }
        }
        process => {
            let mut status: c_int = -1;
            // SAFETY: `status` lives during the call.
            let ended = unsafe { libc::waitpid(process, &raw mut status, 0) };
            process > 0 && ended == process && status == 0
        }
    }
}

fn storm(file: &File, numbers: &[u64]) -> Answer {
    let &[threads, each, len] = numbers else { return Err(WRONG) };
    let seeds = AtomicU64::new(0);
    let append = |seed: u64| file.append(&pattern(seed, len as usize)).map_err(errno);
    std::thread::scope(|scope| {
        let work =
            || (0..each).try_for_each(|_| append(seeds.fetch_add(1, Ordering::Relaxed)).map(drop));
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while seeds.load(Ordering::Relaxed) < threads.len() as u64 * each / 4 {
            std::thread::yield_now();
        }
        for child in 0..CHILDREN {
            let seed = threads.len() as u64 * each + child;
            let record = pattern(seed, len as usize);
            let is_well = in_child(|| {
                if file.append(&record).is_err() {
                    // SAFETY: it ends this process.
                    unsafe { libc::_exit(1) };
                }
            });
            if !is_well {
                return Err(WRONG);
            }
        }
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(WRONG)))
    })?;
    Ok(vec![CHILDREN])
}
