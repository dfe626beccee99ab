//! A log of records, each durable before the next one is written: `log FILE COUNT`. It is read back
//! and compared.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use terrace_direct::{File, Why};

fn record(number: u64) -> Vec<u8> {
    format!("{:.<63}\n", format!("record {number} ")).into_bytes()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, count] = arguments.as_slice() else {
        eprintln!("usage: log FILE COUNT");
        return ExitCode::from(2);
    };
    match count.parse().map_err(Into::into).and_then(|count| log(path, count)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("log: {error}");
            ExitCode::FAILURE
        }
    }
}

fn log(path: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let log = File::create(path)?;

    let mut places = Vec::new();
    let begin = Instant::now();
    for number in 0..count {
        places.push(log.append(&record(number))?);
        log.sync()?;
    }
    let took = begin.elapsed();

    let mut read = [0; 64];
    for (number, at) in (0..count).zip(places) {
        let n = log.read_at(&mut read, at)?;
        if read[..n] != record(number) {
            return Err(format!("{path}: record {number} is not as it was written").into());
        }
    }

    let usage = log.usage();
    let why = usage.why.map_or(String::new(), |why: Why| format!(" ({})", why.name()));
    println!("{:.0} records per second", count as f64 / took.as_secs_f64());
    println!("{} calls went direct, {} took the mount{why}", usage.direct_calls, usage.mount_calls);
    log.close()?;
    Ok(())
}
