//! `terrace record` on real mounts, and `terrace simulate` on what it wrote.

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};

use common::{Place, Ran, TERRACE, can_mount, terrace, wait_until};
use terrace_policy::Kinds;
use terrace_trace::{Ending, Facts, Operation, Reader, Record, Summary, TierFacts, Writer};

const NOBODY: u32 = 65534;

/// A `terrace record` at work.
struct Recording {
    child: Child,
    stderr: ChildStderr,
}

impl Recording {
    /// Returns when it records.
    fn start(args: &[&str]) -> Recording {
        let mut command = Command::new(TERRACE);
        command
            .arg("record")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut stderr = child.stderr.take().expect("a pipe");
        let mut said = Vec::new();
        while !said.ends_with(b"Ctrl-C ends it\n") {
            let mut byte = [0];
            assert_eq!(
                stderr.read(&mut byte).unwrap(),
                1,
                "it ended: {}",
                String::from_utf8_lossy(&said)
            );
            said.push(byte[0]);
        }
        Recording { child, stderr }
    }

    fn interrupt(&self) {
        // SAFETY: the child has not been waited for, so its number is still its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) }, 0);
    }

    fn end(self) -> Ran {
        let Recording { child, mut stderr } = self;
        let output = child.wait_with_output().expect("it ends");
        let mut said = String::new();
        stderr.read_to_string(&mut said).expect("it prints UTF-8");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: said,
        }
    }
}

fn read_trace(path: &str) -> (Facts, Vec<Record>, Summary) {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let (mut records, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block).unwrap() {
        records.append(&mut block);
    }
    (reader.facts().clone(), records, reader.summary())
}

/// What was done to an inode: operation, offset, length.
fn of_file(records: &[Record], ino: u64) -> Vec<(Operation, u64, u64)> {
    records.iter().filter(|r| r.ino == ino).map(|r| (r.operation, r.offset, r.len)).collect()
}

#[test]
fn a_trace_has_what_programs_did_and_nothing_before_or_after() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    fs::write(place.path("mnt/before"), "x").unwrap();
    let (mnt, trace) = (place.path("mnt"), place.path("trace"));
    let recording = Recording::start(&[&mnt, "-o", &trace]);

    let again = terrace(["record", &mnt, "-o", &trace]);
    again.fails(1, &[&mnt, "is being recorded already"]);
    let other = place.path("other");
    terrace(["record", &mnt, "-o", &other]).fails(1, &["is being recorded already"]);
    assert!(!fs::exists(&other).unwrap(), "no file is left by who was refused");

    let path = place.path("mnt/file");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let ino = file.metadata().unwrap().ino();
    file.write_all_at(&[7; 10_000], 0).unwrap();
    file.write_all_at(&[8; 4096], 4096).unwrap();
    file.sync_all().unwrap();
    file.set_len(5000).unwrap();
    drop(file);
    fs::remove_file(&path).unwrap();
    // It is removed when the kernel has forgotten it, which it does in its own time.
    let is_removed = |record: &Record| (record.ino, record.operation) == (ino, Operation::Remove);
    wait_until("the removal is recorded", || read_trace(&trace).1.iter().any(is_removed));
    recording.interrupt();
    let said = recording.end().ok();
    fs::write(place.path("mnt/after"), "x").unwrap();

    let (facts, mut records, summary) = read_trace(&trace);
    assert_eq!((summary.ending, summary.lost), (Ending::Asked, 0));
    assert!(said.starts_with(&format!("{trace}: {} operations in ", records.len())), "{said}");
    // The file without a name that the mount opened first: the kernel forgets it in its own time.
    let of_the_mount = records.first().is_some_and(|r| r.operation == Operation::Remove);
    records.drain(..usize::from(of_the_mount));
    assert_eq!(
        (facts.pm_bytes(), facts.disk_bytes(), facts.cache_bytes),
        (64 << 20, 256 << 20, 64 << 20)
    );
    assert_eq!((facts.pm_full_percent, facts.durable), (90, false));
    let root = fs::metadata(&mnt).unwrap().ino();
    let [here, anywhere] = Kinds::of(root, b"file").to_numbers();
    assert_eq!(
        of_file(&records, ino),
        [
            (Operation::Create, 0, 0),
            (Operation::Kinds, here, anywhere),
            (Operation::Write, 0, 10_000),
            (Operation::Write, 4096, 4096),
            (Operation::Fsync, 0, 0),
            (Operation::Truncate, 5000, 0),
            (Operation::Remove, 0, 0),
        ]
    );
    assert!(records.iter().all(|record| record.ino == ino), "{records:?}");
    // One thread did all of it, and everything but the file's end has its time.
    let of_threads = records.iter().filter(|r| r.operation != Operation::Remove);
    assert!(
        of_threads.clone().all(|r| r.caller == records[0].caller && r.caller > 0),
        "{records:?}"
    );
    let timed = of_threads.filter(|r| r.operation != Operation::Kinds);
    assert!(timed.clone().count() == 5 && timed.clone().all(|r| r.took_ns > 0), "{records:?}");
    let begun_us = |r: &Record| r.time_us.saturating_sub(r.took_ns / 1000);
    let in_turn: Vec<_> = timed.collect();
    assert!(in_turn.windows(2).all(|pair| begun_us(pair[1]) + 1 >= pair[0].time_us), "{records:?}");
    assert!(records.is_sorted_by_key(|record| record.time_us));

    // The place is free again, and a time limit ends a recording, too.
    terrace(["record", &place.path("pm"), "-o", &trace, "--seconds", "1", "--quiet"]).ok();
    assert_eq!(read_trace(&trace).1, []);
    place.umount();
}

#[test]
fn an_unmount_ends_a_recording_and_the_trace_is_whole() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "durable"]).ok();
    let (mnt, trace) = (place.path("mnt"), place.path("trace"));
    let recording = Recording::start(&[&mnt, "-o", &trace]);
    fs::write(place.path("mnt/file"), vec![1; 1 << 20]).unwrap();
    // The recorder opens the mountpoint for moments, in which it is busy.
    while terrace(["umount", &mnt]).code != Some(0) {}
    let ran = recording.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains(&format!("{mnt}: unmounted")), "{ran:?}");
    let (facts, records, summary) = read_trace(&trace);
    assert_eq!((summary.ending, facts.durable), (Ending::Unmounted, true));
    // Operations of the last moment may be missing.
    assert!(
        records.iter().all(|record| record.operation != Operation::Write || record.durable),
        "{records:?}"
    );
}

#[test]
fn who_may_record_and_where_to() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "allow_other"]).ok();
    let mnt = place.path("mnt");
    let on_itself = place.path("mnt/trace");
    terrace(["record", &mnt, "-o", &on_itself])
        .fails(1, &["lies on the volume that is to be recorded"]);
    terrace(["record", &place.path("disk"), "-o", &place.path("trace")])
        .fails(1, &["no file system is mounted"]);
    terrace(["record", &mnt, "-o", "/no/such/dir/trace"]).fails(1, &["/no/such/dir"]);
    terrace(["record", &mnt]).fails(2, &["--output"]);
    let trace = place.path("trace");
    let user =
        Ran::of(Command::new(TERRACE).args(["record", &mnt, "-o", &trace]).uid(NOBODY).gid(NOBODY));
    user.fails(1, &["only root and the user who mounted the volume may do this"]);
    assert!(!fs::exists(&trace).unwrap());
    place.umount();
}

/// A trace of 300 files of 1 MiB: written, synchronized, and read twice.
fn write_trace(path: &str, ending: Ending, lost: u64) {
    let tier = |tier, gib: u64| TierFacts { tier, capacity_bytes: gib << 30, used_bytes: 0 };
    let facts = Facts {
        tiers: vec![tier(0, 1), tier(1, 100)],
        cache_bytes: 64 << 20,
        pm_full_percent: 90,
        writeback_seconds: 5,
        ..Facts::default()
    };
    let mut writer = Writer::new(File::create(path).unwrap(), &facts).unwrap();
    let mut time_us = 0;
    let mut push = |operation, ino, offset, len| {
        time_us += 100;
        writer
            .push(&Record {
                time_us,
                took_ns: 0,
                caller: 0,
                operation,
                durable: false,
                ino,
                offset,
                len,
            })
            .unwrap();
    };
    for ino in 2..302 {
        push(Operation::Create, ino, 0, 0);
        (0..16).for_each(|at| push(Operation::Write, ino, at << 16, 1 << 16));
        push(Operation::Fsync, ino, 0, 0);
    }
    for round in 0..2 {
        (2..302).for_each(|ino| push(Operation::Read, ino, round * 4096, 8192));
    }
    writer.finish(ending, lost).unwrap();
}

#[test]
fn a_simulation_compares_sizes_and_says_which_is_enough() {
    let place = Place::new();
    let trace = place.path("trace");
    write_trace(&trace, Ending::Asked, 0);
    let args = ["simulate", &trace, "--pm", "64M,512M,1G", "--quiet"];
    let text = terrace(args).ok();
    assert!(text.starts_with(&format!("{trace}: 6000 operations in ")), "{text}");
    assert!(text.contains("disk: nvme-ssd, 100 GiB") && !text.contains("were lost"), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.contains("64 MiB")).count(),
        4,
        "three sizes, and the advice: {text}"
    );
    assert!(text.lines().last().unwrap().starts_with("enough: 512 MiB of PM"), "{text}");
    assert_eq!(terrace(args).ok(), text, "it is deterministic");

    let json: serde_json::Value =
        serde_json::from_str(&terrace([&args[..], &["--json"]].concat()).ok()).unwrap();
    let results = json["results"].as_array().unwrap();
    let of = |at: usize, name: &str| results[at][name].as_u64().unwrap();
    assert_eq!((results.len(), &json["enough"]), (3, &1.into()));
    for at in 0..3 {
        assert_eq!(of(at, "operations"), 6000);
        assert_eq!(
            of(at, "read_pm_bytes") + of(at, "read_cache_bytes") + of(at, "read_disk_bytes"),
            600 * 8192
        );
    }
    assert!(
        of(0, "io_ns") > of(1, "io_ns") && of(0, "written_pm_bytes") < of(1, "written_pm_bytes")
    );
    assert_eq!(
        (of(2, "written_pm_bytes"), results[2]["slowdown"].as_f64()),
        (300 << 20, Some(1.0))
    );
    // 1 GiB of PM, 64 MiB of DRAM, 100 GiB of NVMe.
    let cost = results[2]["cost_usd"].as_f64().unwrap();
    let expected =
        (3.37 * f64::from(1u32 << 30) + 7.19 * f64::from(64 << 20) + 26.0 * f64::from(1u32 << 30))
            / 1e9;
    assert!((cost - expected).abs() < 0.001, "{cost} {expected}");
}

#[test]
fn a_trace_with_times_has_the_prediction_beside_them() {
    let place = Place::new();
    let (trace, untimed) = (place.path("trace"), place.path("untimed"));
    write_trace(&untimed, Ending::Asked, 0);
    let (facts, mut records, _) = read_trace(&untimed);
    // Half a microsecond each, and one for 4 KiB.
    for record in &mut records {
        record.took_ns = 500 + record.len / 4096 * 1000;
    }
    let mut writer = Writer::new(File::create(&trace).unwrap(), &facts).unwrap();
    records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish(Ending::Asked, 0).unwrap();
    let args = ["simulate", &trace, "--pm", "1G", "--quiet"];
    let text = terrace(args).ok();
    let fits = "as predicted for the volume that was recorded (1.00)";
    assert!(text.lines().nth(1).is_some_and(|line| line.ends_with(fits)), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&terrace([&args[..], &["--json"]].concat()).ok()).unwrap();
    let all_ns: u64 = records.iter().map(|record| record.took_ns).sum();
    let (measured, io_ns) = (&json["trace"]["fit"]["measured_ns"], &json["results"][0]["io_ns"]);
    assert!(measured.as_u64().unwrap() < all_ns && io_ns.as_u64().unwrap() > all_ns / 100 * 99);
    // All writes have one length: none of their time is known to be the bytes'.
    let costs = json["trace"]["costs"].as_array().unwrap();
    let each_ns = |work: &str| &costs.iter().find(|cost| cost["work"] == work).unwrap()["each_ns"];
    assert_eq!([each_ns("write_pm"), each_ns("fsync")], [16_500, 500], "{json}");
    let other = ["simulate", &trace, "--costs", &untimed, "--quiet"];
    terrace(other).fails(1, &[&untimed, "does not say how long operations took"]);
    let text = terrace(["simulate", &untimed, "--costs", &trace, "--quiet"]).ok();
    assert!(!text.contains("as predicted") && !text.contains("devices alone"), "{text}");
    let text = terrace(["simulate", &untimed, "--quiet"]).ok();
    assert!(text.contains("times are those of devices alone"), "{text}");
}

#[test]
fn thresholds_caches_disks_and_prices_are_combined() {
    let place = Place::new();
    let (trace, prices) = (place.path("trace"), place.path("prices"));
    write_trace(&trace, Ending::Asked, 5);
    fs::write(&prices, "pm 0\ndram 0 # free\nhdd 1\n").unwrap();
    let args = [
        "simulate", &trace, "--pm", "64M", "--cache", "8M,64M", "--disk", "hdd", "--prices",
        &prices, "--json",
    ];
    let set = ["--set", "group=64K,4M", "--set", "cold_age=1"];
    let json: serde_json::Value =
        serde_json::from_str(&terrace([&args[..], &set].concat()).ok()).unwrap();
    let results = json["results"].as_array().unwrap();
    let combinations: Vec<_> = (results.iter())
        .map(|r| {
            (
                r["cache_bytes"].as_u64().unwrap() >> 20,
                r["settings"]["group"].as_u64().unwrap() >> 10,
            )
        })
        .collect();
    assert_eq!(combinations, [(8, 64), (8, 4096), (64, 64), (64, 4096)]);
    assert!(results.iter().all(|r| r["settings"]["cold_age"] == 1));
    assert!(
        (results[0]["cost_usd"].as_f64().unwrap() - 107.374).abs() < 0.001,
        "the disk's price only"
    );
    let text =
        terrace(["simulate", &trace, "--pm", "64M", "--set", "cold_age=1,2", "--quiet"]).ok();
    assert!(text.contains("cold_age=1") && text.contains("cold_age=2"), "{text}");
    assert!(text.contains("5 operations were lost"), "{text}");
    let args =
        ["simulate", &trace, "--pm", "64M", "--wear", "disk:off,1M/day", "--quiet", "--json"];
    let json: serde_json::Value = serde_json::from_str(&terrace(args).ok()).unwrap();
    let moved = |at: usize| json["results"][at]["migrated_write_bytes"].as_u64().unwrap();
    assert!(moved(0) > 1 << 20 && moved(1) <= 1 << 20, "{json}");
    assert_eq!(json["results"][1]["settings"]["wear_disk"], 1 << 20);
    assert!(json["results"][1]["held_up_seconds"].as_u64().unwrap() > 0, "{json}");
    assert!(json["results"][0]["disk_bytes_per_day"].as_u64().unwrap() > 0, "{json}");
    let text =
        terrace(["simulate", &trace, "--pm", "64M", "--wear", "disk:off,1M/day", "--quiet"]).ok();
    assert!(text.contains("wear_disk=off") && text.contains("wear_disk=1048576"), "{text}");
    // By default sizes around the recorded one.
    let text = terrace(["simulate", &trace, "--quiet"]).ok();
    assert!(
        ["256 MiB  ", "512 MiB  ", "1 GiB  ", "2 GiB  ", "4 GiB  "]
            .iter()
            .all(|size| text.contains(size)),
        "{text}"
    );
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let place = Place::new();
    let trace = place.path("trace");
    write_trace(&trace, Ending::Torn, 0);
    let text = terrace(["simulate", &trace, "--pm", "1G", "--quiet"]).ok();
    assert!(text.contains("it has no end"), "{text}");
    terrace(["simulate", &trace, "--set", "cold_age"]).fails(2, &["NAME=VALUE"]);
    terrace(["simulate", &trace, "--set", "colt_age=1"])
        .fails(2, &["no threshold \"colt_age\"", "cold_age"]);
    terrace(["simulate", &trace, "--set", "cold_age=1,x"]).fails(2, &["\"x\" is not a value"]);
    terrace(["simulate", &trace, "--set", "group=1K"]).fails(2, &["\"1K\" is out of range"]);
    terrace(["simulate", &trace, "--set", "group=64K", "--set", "group=4M"])
        .fails(2, &["group is set twice"]);
    terrace(["simulate", &trace, "--wear", "disk1:1G/day"]).fails(2, &["disk:BYTES/day"]);
    terrace(["simulate", &trace, "--wear", "disk:1G"]).fails(2, &["does not end in /day"]);
    terrace(["simulate", &trace, "--wear", "pm:1G/day", "--wear", "pm:off"])
        .fails(2, &["wear_pm is set twice"]);
    terrace(["simulate", &trace, "--disk", "floppy"]).fails(2, &["floppy", "nvme-ssd"]);
    terrace(["simulate", &trace, "--pm", "much"]).fails(2, &["\"much\" is not a size"]);
    let sizes = (1..=1001).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    terrace(["simulate", &trace, "--pm", &sizes]).fails(2, &["more than 1000 combinations"]);
    let prices = place.path("prices");
    fs::write(&prices, "pm\n").unwrap();
    terrace(["simulate", &trace, "--prices", &prices])
        .fails(1, &[&prices, "line 1", "as in `pm 3.37`"]);

    let other = place.path("other");
    terrace(["simulate", &other]).fails(1, &[&other, "No such file"]);
    terrace(["simulate", "/dev/null"]).fails(1, &["no regular file"]);
    fs::write(&other, "hello").unwrap();
    terrace(["simulate", &other]).fails(1, &[&other, "this is no trace"]);
    let mut bytes = fs::read(&trace).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    bytes.extend_from_slice(b"more");
    fs::write(&other, &bytes).unwrap();
    terrace(["simulate", &other, "--quiet"]).fails(1, &[&other, "damaged at byte"]);
    let nothing = Writer::new(File::create(&other).unwrap(), &Facts::default()).unwrap();
    nothing.finish(Ending::Asked, 0).unwrap();
    terrace(["simulate", &other, "--quiet"]).fails(1, &["nothing was recorded"]);
}
