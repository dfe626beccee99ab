//! Counts the messages that each system call takes and compares them with the table in
//! `docs/FUSE.md`.
//!
//! Each row is counted in a steady state: its preparation ends with a call of the same kind, and
//! everything that the kernel asks only once per mount has been asked before. FORGET is left out:
//! it comes whenever the kernel is short of memory, in batches, and nobody waits for it.

mod common;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{Behind, TestMount, can_mount, is_root};
use rustix::fs::{Advice, FallocateFlags, FlockOperation, RenameFlags, XattrFlags};
use terrace_fuse::{LoanSocket, Message, MessageSnapshot, MountConfig};

/// Calls, and what happens before they are counted; both in a directory of their own.
struct Row {
    calls: &'static str,
    prepare: Step,
    counted: Step,
    /// Whether the kernel knows the directory's attributes, which the preparation may have changed.
    settled: bool,
}

type Step = fn(&Path) -> Result<()>;

const fn row(calls: &'static str, prepare: Step, counted: Step) -> Row {
    Row { calls, prepare, counted, settled: true }
}

/// A change of names that follows another one in the same directory.
const fn after_another(calls: &'static str, prepare: Step, counted: Step) -> Row {
    Row { calls, prepare, counted, settled: false }
}

const ROWS: &[Row] = &[
    row(
        "open + read 64 KiB + close, cached",
        |dir| fill(&dir.join("a"), 64 << 10).and_then(|_| read_all(&dir.join("a"))),
        |dir| read_all(&dir.join("a")),
    ),
    row(
        "open + read 64 KiB + close, not cached",
        |dir| drop_cached(&fill(&dir.join("a"), 64 << 10)?),
        |dir| read_all(&dir.join("a")),
    ),
    row(
        "stat",
        |dir| fill(&dir.join("a"), 1).and_then(|_| stat(&dir.join("a"))),
        |dir| stat(&dir.join("a")),
    ),
    row(
        "write 4 KiB after a stat after a write",
        |dir| write_at(&dir.join("a"), 0).and_then(|()| stat(&dir.join("a"))),
        |dir| write_at(&dir.join("a"), 0),
    ),
    row("stat after a write", |dir| write_at(&dir.join("a"), 0), |dir| stat(&dir.join("a"))),
    row(
        "stat of a name that does not exist",
        |dir| absent(&dir.join("a")),
        |dir| absent(&dir.join("a")),
    ),
    row("write 4 KiB", |dir| write_at(&dir.join("a"), 0), |dir| write_at(&dir.join("a"), 4096)),
    row(
        "write 1 MiB",
        |dir| write_at(&dir.join("a"), 0),
        |dir| write_bytes(&dir.join("a"), 1 << 20),
    ),
    row("append 100 bytes", |dir| append(&dir.join("a")), |dir| append(&dir.join("a"))),
    row(
        "append 100 bytes across a page",
        |dir| write_bytes(&dir.join("a"), 4000),
        |dir| append(&dir.join("a")),
    ),
    row(
        "append 100 bytes across a page that was read",
        |dir| write_bytes(&dir.join("a"), 4000).and_then(|()| read_byte(&dir.join("a"))),
        |dir| append(&dir.join("a")),
    ),
    row("write + fsync", |dir| write_fsync(&dir.join("a")), |dir| write_fsync(&dir.join("a"))),
    row("write, O_SYNC", |dir| write_sync(&dir.join("a")), |dir| write_sync(&dir.join("a"))),
    row(
        "mmap + store + msync",
        |dir| write_at(&dir.join("a"), 0).and_then(|()| map_store_sync(&dir.join("a"))),
        |dir| map_store_sync(&dir.join("a")),
    ),
    row("fsync of a directory", fsync_directory, fsync_directory),
    after_another(
        "create + write + close",
        |dir| create(&dir.join("a")),
        |dir| create(&dir.join("b")),
    ),
    after_another(
        "create (O_EXCL) + close",
        |dir| create_new(&dir.join("a")),
        |dir| create_new(&dir.join("b")),
    ),
    after_another(
        "unlink",
        |dir| {
            create(&dir.join("a"))
                .and_then(|()| create(&dir.join("b")))
                .and_then(|()| unlink(&dir.join("a")))
        },
        |dir| unlink(&dir.join("b")),
    ),
    after_another(
        "rename",
        |dir| create(&dir.join("a")).and_then(|()| std::fs::rename(dir.join("a"), dir.join("b"))),
        |dir| std::fs::rename(dir.join("b"), dir.join("c")),
    ),
    after_another(
        "rename over a file",
        |dir| {
            create(&dir.join("a"))
                .and_then(|()| create(&dir.join("b")))
                .and_then(|()| create(&dir.join("c")))
        },
        |dir| std::fs::rename(dir.join("a"), dir.join("c")),
    ),
    after_another(
        "rename, exchanging two files",
        |dir| create(&dir.join("a")).and_then(|()| create(&dir.join("b"))),
        |dir| exchange(&dir.join("a"), &dir.join("b")),
    ),
    after_another(
        "mkdir",
        |dir| std::fs::create_dir(dir.join("a")),
        |dir| std::fs::create_dir(dir.join("b")),
    ),
    after_another(
        "rmdir",
        |dir| {
            std::fs::create_dir(dir.join("a"))?;
            std::fs::create_dir(dir.join("b"))?;
            std::fs::remove_dir(dir.join("a"))
        },
        |dir| std::fs::remove_dir(dir.join("b")),
    ),
    after_another(
        "link",
        |dir| {
            create(&dir.join("a")).and_then(|()| std::fs::hard_link(dir.join("a"), dir.join("b")))
        },
        |dir| std::fs::hard_link(dir.join("a"), dir.join("c")),
    ),
    after_another(
        "symlink",
        |dir| symlink("target", dir.join("a")),
        |dir| symlink("target", dir.join("b")),
    ),
    row(
        "readlink, first",
        |dir| symlink("target", dir.join("a")).and_then(|()| lstat(&dir.join("a"))),
        |dir| std::fs::read_link(dir.join("a")).map(drop),
    ),
    row(
        "readlink, again",
        |dir| {
            symlink("target", dir.join("a"))
                .and_then(|()| std::fs::read_link(dir.join("a")).map(drop))
        },
        |dir| std::fs::read_link(dir.join("a")).map(drop),
    ),
    row("list 20 names, first", |dir| twenty(dir).and_then(|()| stat(dir)), list),
    row(
        "list 20 names, again",
        |dir| twenty(dir).and_then(|()| list(dir)).and_then(|()| list(dir)),
        list,
    ),
    row("truncate", |dir| truncate(&dir.join("a"), 10), |dir| truncate(&dir.join("a"), 5)),
    row(
        "chmod",
        |dir| create(&dir.join("a")).and_then(|()| chmod(&dir.join("a"), 0o600)),
        |dir| chmod(&dir.join("a"), 0o640),
    ),
    row("utimensat", |dir| touch(&dir.join("a")), |dir| touch(&dir.join("a"))),
    row("setxattr", |dir| set_xattr(&dir.join("a")), |dir| set_xattr(&dir.join("a"))),
    row("getxattr", |dir| set_xattr(&dir.join("a")), |dir| get_xattr(&dir.join("a"))),
    row("fallocate 1 MiB", |dir| write_at(&dir.join("a"), 0), |dir| allocate(&dir.join("a"))),
    row("lseek, SEEK_DATA", |dir| write_at(&dir.join("a"), 0), |dir| seek_data(&dir.join("a"))),
    row(
        "lseek, SEEK_END",
        |dir| create(&dir.join("a")).and_then(|()| stat(&dir.join("a"))),
        |dir| File::open(dir.join("a"))?.seek(SeekFrom::End(0)).map(drop),
    ),
    row(
        "copy_file_range 64 KiB",
        |dir| {
            fill(&dir.join("a"), 64 << 10)
                .and_then(|_| write_at(&dir.join("b"), 0))
                .and_then(|()| copy_range(dir))
        },
        copy_range,
    ),
    row("flock, fcntl locks", |dir| create(&dir.join("a")), |dir| lock(&dir.join("a"))),
    row("statfs", stat, |dir| Ok(rustix::fs::statfs(dir).map(drop)?)),
];

/// What holds on every kernel, whatever else the table says: the calls that must not cost more than
/// this, without and with the kernel's permission checks.
const LIMITS: &[(&str, [u64; 2])] = &[
    ("open + read 64 KiB + close, cached", [0, 0]),
    ("stat", [0, 0]),
    ("stat of a name that does not exist", [0, 0]),
    ("write 4 KiB", [1, 1]),
    ("write + fsync", [2, 2]),
    ("write + fsync, durable", [1, 1]),
    ("write, O_SYNC, durable", [1, 1]),
    ("fsync of a directory", [0, 0]),
    ("create + write + close", [4, 5]),
    ("list 20 names, again", [0, 0]),
    ("flock, fcntl locks", [0, 0]),
];

/// By calls: what came without and with the kernel's permission checks.
type Counted = BTreeMap<&'static str, [Option<String>; 2]>;

const UNCHECKED: usize = 0;
const CHECKED: usize = 1;

#[test]
fn of_the_file_system_that_does_nothing() {
    if can_mount("of_the_file_system_that_does_nothing") {
        compare(&count_everything(Behind::Nothing));
    }
}

#[test]
fn of_a_volume() {
    if can_mount("of_a_volume") {
        compare(&count_everything(Behind::Engine));
    }
}

/// The kernel waits for no answer to RELEASE.
#[test]
fn of_a_mount_that_lends_files() {
    if !can_mount("of_a_mount_that_lends_files") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let direct = Some(LoanSocket { path: directory.path().join("socket"), group: None });
    let mount = TestMount::new(Behind::Engine, &MountConfig { direct, ..MountConfig::default() });
    let (file, counts) = (mount.join("file"), mount.mounted.counts());
    let settled = || {
        let mut before = counts.snapshot();
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = counts.snapshot();
            if now.since(&before).total() == 0 {
                return now;
            }
            before = now;
        }
    };
    fill(&file, 64 << 10).and_then(|_| read_all(&file)).expect("a file");
    let before = settled();
    read_all(&file).expect("the file");
    assert_eq!(settled().since(&before).to_string(), "OPEN, RELEASE");
    mount.finish();
}

fn count_everything(behind: Behind) -> Counted {
    let mut counted = Counted::new();
    for column in [UNCHECKED, CHECKED] {
        let config =
            MountConfig { default_permissions: Some(column == CHECKED), ..MountConfig::default() };
        let durable = [
            Row { calls: "write + fsync, durable", ..ROWS[named("write + fsync")] },
            Row { calls: "write, O_SYNC, durable", ..ROWS[named("write, O_SYNC")] },
        ];
        let rounds = [(config.clone(), ROWS), (MountConfig { durable: true, ..config }, &durable)];
        for (config, rows) in rounds {
            for (calls, messages) in count(behind, &config, rows) {
                if let Some((_, limits)) = LIMITS.iter().find(|(limited, _)| *limited == calls) {
                    let limit = limits[column];
                    assert!(
                        messages.total() <= limit,
                        "{calls} ({config:?}): {messages}, more than {limit}"
                    );
                }
                counted.entry(calls).or_default()[column] = Some(messages.to_string());
            }
        }
    }
    counted
}

fn named(calls: &str) -> usize {
    ROWS.iter().position(|row| row.calls == calls).expect("a row")
}

fn count(
    behind: Behind,
    config: &MountConfig,
    rows: &[Row],
) -> Vec<(&'static str, MessageSnapshot)> {
    let mount = TestMount::new(behind, config);
    warm_up(mount.path()).expect("warming up");
    let counted = rows.iter().enumerate().map(|(number, row)| {
        let directory = mount.join(&number.to_string());
        std::fs::create_dir(&directory).expect("a directory");
        (row.prepare)(&directory)
            .unwrap_or_else(|error| panic!("preparing {}: {error}", row.calls));
        if row.settled {
            stat(&directory).expect("the directory");
        }
        let before = mount.mounted.counts().snapshot();
        (row.counted)(&directory).unwrap_or_else(|error| panic!("{}: {error}", row.calls));
        (row.calls, mount.mounted.counts().snapshot().since(&before).without(Message::Forget))
    });
    let counted = counted.collect();
    mount.finish();
    counted
}

/// Everything that the kernel asks once per mount and then never again.
fn warm_up(root: &Path) -> Result<()> {
    let directory = root.join("warm-up");
    std::fs::create_dir(&directory)?;
    for row in ROWS {
        let own = directory.join(row.calls.replace('/', "_"));
        std::fs::create_dir(&own)?;
        (row.prepare)(&own)?;
        (row.counted)(&own)?;
    }
    rustix::fs::access(&directory, rustix::fs::Access::READ_OK)?;
    Ok(())
}

/// Compares with the table in the documentation, on the kernel that it was written for.
fn compare(counted: &Counted) {
    let text = include_str!("../../../docs/FUSE.md");
    let version =
        text.split("Counted on Linux ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let version = version.expect("docs/FUSE.md names a kernel").trim_end_matches(['.', ',', ':']);
    let uname = rustix::system::uname();
    let running = uname.release().to_string_lossy().into_owned();
    if !running.starts_with(&format!("{version}.")) {
        common::skip(
            "comparison with docs/FUSE.md",
            &format!("it is about Linux {version}, this is {running}"),
        );
        return;
    }
    let documented: BTreeMap<&str, [&str; 2]> = text.lines().filter_map(documented_row).collect();
    let mut differences = Vec::new();
    for (calls, messages) in counted {
        for (column, found) in messages.iter().enumerate() {
            let documented = documented.get(calls).map(|row| row[column]);
            if found.as_deref() != documented {
                differences.push(format!(
                    "{calls} [{column}]: counted {found:?}, documented {documented:?}"
                ));
            }
        }
    }
    let missing = documented.keys().filter(|calls| !counted.contains_key(*calls));
    differences.extend(missing.map(|calls| format!("{calls}: documented, not counted")));
    assert!(
        differences.is_empty(),
        "{}\n\ncounted (root: {}):\n{}",
        differences.join("\n"),
        is_root(),
        table(counted)
    );
}

/// ``| `calls` | without checks | with checks |``
fn documented_row(line: &str) -> Option<(&str, [&str; 2])> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ");
    let calls = cells.next()?.strip_suffix('`')?;
    Some((calls, [cells.next()?, cells.next()?]))
}

fn table(counted: &Counted) -> String {
    let order = ROWS
        .iter()
        .map(|row| row.calls)
        .chain(["write + fsync, durable", "write, O_SYNC, durable"]);
    order
        .filter_map(|calls| {
            let [unchecked, checked] = counted.get(calls)?;
            Some(format!("| `{calls}` | {} | {} |\n", unchecked.as_deref()?, checked.as_deref()?))
        })
        .collect()
}

fn fill(path: &Path, len_bytes: usize) -> Result<File> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all(&vec![7; len_bytes])?;
    Ok(file)
}

fn read_all(path: &Path) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    File::open(path)?.read_exact(&mut buffer)
}

/// Has the kernel read a page.
fn read_byte(path: &Path) -> Result<()> {
    File::open(path)?.read_exact(&mut [0])
}

fn drop_cached(file: &File) -> Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

fn stat(path: &Path) -> Result<()> {
    std::fs::metadata(path).map(drop)
}

fn lstat(path: &Path) -> Result<()> {
    std::fs::symlink_metadata(path).map(drop)
}

fn absent(path: &Path) -> Result<()> {
    assert_eq!(std::fs::metadata(path).map(drop).unwrap_err().raw_os_error(), Some(libc::ENOENT));
    Ok(())
}

fn open_to_write(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn write_at(path: &Path, offset: u64) -> Result<()> {
    open_to_write(path)?.write_all_at(&[1; 4096], offset)
}

fn write_bytes(path: &Path, len_bytes: usize) -> Result<()> {
    open_to_write(path)?.write_all_at(&vec![1; len_bytes], 0)
}

fn append(path: &Path) -> Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(&[1; 100])
}

fn write_fsync(path: &Path) -> Result<()> {
    let file = open_to_write(path)?;
    file.write_all_at(&[1; 4096], 0)?;
    file.sync_all()
}

fn write_sync(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).custom_flags(libc::O_SYNC).open(path)?;
    file.write_all_at(&[1; 4096], 0)
}

fn map_store_sync(path: &Path) -> Result<()> {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    let file = open_to_write(path)?;
    // SAFETY: a new shared mapping of 4096 bytes, which the file has from its preparation; nothing
    // else refers to it, and it is unmapped after the last use.
    unsafe {
        let address = mmap(
            std::ptr::null_mut(),
            4096,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )?;
        address.cast::<u8>().write_volatile(9);
        msync(address, 4096, MsyncFlags::SYNC)?;
        munmap(address, 4096)?;
    }
    Ok(())
}

fn fsync_directory(dir: &Path) -> Result<()> {
    File::open(dir)?.sync_all()
}

fn create(path: &Path) -> Result<()> {
    File::create(path)?.write_all(&[1; 100])
}

fn create_new(path: &Path) -> Result<()> {
    File::create_new(path).map(drop)
}

fn unlink(path: &Path) -> Result<()> {
    std::fs::remove_file(path)
}

fn exchange(a: &Path, b: &Path) -> Result<()> {
    use rustix::fs::{CWD, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

fn twenty(dir: &Path) -> Result<()> {
    (0..20).try_for_each(|number| create(&dir.join(number.to_string())))
}

fn list(dir: &Path) -> Result<()> {
    assert_eq!(std::fs::read_dir(dir)?.collect::<Result<Vec<_>>>()?.len(), 20);
    Ok(())
}

fn truncate(path: &Path, len_bytes: u64) -> Result<()> {
    open_to_write(path)?.set_len(len_bytes)
}

fn chmod(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn touch(path: &Path) -> Result<()> {
    open_to_write(path)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))
}

fn set_xattr(path: &Path) -> Result<()> {
    Ok(rustix::fs::fsetxattr(open_to_write(path)?, "user.note", b"value", XattrFlags::empty())?)
}

fn get_xattr(path: &Path) -> Result<()> {
    // The file system that does nothing has none; the message is the same.
    match rustix::fs::getxattr(path, "user.note", &mut [0_u8; 64][..]) {
        Ok(_) | Err(rustix::io::Errno::NODATA) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn allocate(path: &Path) -> Result<()> {
    Ok(rustix::fs::fallocate(open_to_write(path)?, FallocateFlags::empty(), 0, 1 << 20)?)
}

fn seek_data(path: &Path) -> Result<()> {
    assert_eq!(rustix::fs::seek(File::open(path)?, rustix::fs::SeekFrom::Data(0))?, 0);
    Ok(())
}

fn copy_range(dir: &Path) -> Result<()> {
    let from = File::open(dir.join("a"))?;
    let to = open_to_write(&dir.join("b"))?;
    assert_eq!(
        rustix::fs::copy_file_range(from, Some(&mut 0), to, Some(&mut 0), 64 << 10)?,
        64 << 10
    );
    Ok(())
}

fn lock(path: &Path) -> Result<()> {
    let file = open_to_write(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive)?)
}
