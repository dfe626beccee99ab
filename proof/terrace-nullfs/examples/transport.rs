//! The cost of one message, by transport, number of threads, cloned descriptors and clients: the
//! numbers behind the defaults of `MountConfig`. Run it on a quiet machine: `cargo run --release -p
//! terrace-nullfs --example transport`.
//!
//! Each cell is the median of several rounds of microseconds per operation and client, on the file
//! system that does nothing.

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;
use terrace_fuse::{MountConfig, Transport};
use terrace_nullfs::mount_null;

const ROUNDS: usize = 9;
const OPERATIONS: usize = 4000;

/// (name, what one client does, in a directory of its own)
type Workload = (&'static str, fn(&Path) -> Result<()>);

const WORKLOADS: [Workload; 3] = [
    ("write 4 KiB", |directory| {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(directory.join("file"))?;
        (0..OPERATIONS).try_for_each(|_| file.write_all_at(&[1; 4096], 0))
    }),
    ("write 128 KiB", |directory| {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(directory.join("file"))?;
        let data = vec![1; 128 << 10];
        (0..OPERATIONS / 8).try_for_each(|_| file.write_all_at(&data, 0))
    }),
    ("create + unlink", |directory| {
        (0..OPERATIONS / 4).try_for_each(|_| {
            File::create(directory.join("new"))?;
            std::fs::remove_file(directory.join("new"))
        })
    }),
];
const OPERATIONS_OF: [usize; 3] = [OPERATIONS, OPERATIONS / 8, OPERATIONS / 4];

fn main() -> anyhow::Result<()> {
    let directory = std::env::temp_dir().join(format!("terrace-transport-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let result = measure(&directory);
    std::fs::remove_dir(&directory)?;
    result
}

fn measure(mountpoint: &Path) -> anyhow::Result<()> {
    println!("| transport | clients | {} |", WORKLOADS.map(|(name, _)| name).join(" | "));
    println!("|---|---|{}", "---|".repeat(WORKLOADS.len()));
    let device = |threads, clone_fd| MountConfig {
        transport: Transport::Device,
        threads: Some(threads),
        clone_fd: Some(clone_fd),
        ..MountConfig::default()
    };
    let ring = MountConfig { transport: Transport::IoUring, ..MountConfig::default() };
    let mut settings = vec![
        ("1 thread", device(1, false)),
        ("2 threads", device(2, false)),
        ("2 threads, cloned descriptors", device(2, true)),
        ("4 threads", device(4, false)),
        ("4 threads, cloned descriptors", device(4, true)),
    ];
    match mount_null(mountpoint, &ring) {
        Ok(mounted) => {
            mounted.unmount()?;
            settings.push(("io_uring", ring));
        }
        Err(error) => eprintln!("without io_uring: {error:#}"),
    }
    let mut samples = vec![[const { [const { Vec::new() }; WORKLOADS.len()] }; 2]; settings.len()];
    // Round by round, so that a busy moment of the machine hits all settings alike.
    for _ in 0..ROUNDS {
        for ((_, config), samples) in settings.iter().zip(&mut samples) {
            let mounted = mount_null(mountpoint, config)?;
            for clients in 1..=2 {
                for (workload, (_, run)) in WORKLOADS.iter().enumerate() {
                    let micros = round(mountpoint, clients, *run)? / OPERATIONS_OF[workload] as f64;
                    samples[clients - 1][workload].push(micros);
                }
            }
            mounted.unmount()?;
        }
    }
    for ((name, _), samples) in settings.iter().zip(&mut samples) {
        for (clients, row) in (1..).zip(samples) {
            let cells: Vec<String> =
                row.iter_mut().map(|micros| format!("{:.1}", median(micros))).collect();
            println!("| {name} | {clients} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

/// Microseconds that `clients` threads take, each in its own directory.
fn round(mountpoint: &Path, clients: usize, run: fn(&Path) -> Result<()>) -> Result<f64> {
    let directories: Vec<_> =
        (0..clients).map(|client| mountpoint.join(format!("client{client}"))).collect();
    for directory in &directories {
        std::fs::create_dir_all(directory)?;
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            directories.iter().map(|directory| scope.spawn(move || run(directory))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client panicked"))
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
