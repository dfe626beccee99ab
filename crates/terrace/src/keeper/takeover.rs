//! The orders of a program that takes a mount over: as its next daemon, or as its keeper.
//!
//! It is run by its descriptor, as `terrace take-over TOLD LINE MOUNTPOINT`, with two descriptors
//! that are open: what it is told, as JSON, and the line to its daemon or keeper. A program of
//! another version may be of any age. So it looks at everything before it says that it is ready,
//! and until then touches nothing: what it does not know, it refuses by name.

use std::ffi::{CString, OsString, c_char};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use terrace_engine::{CACHE_LAYOUT, LOANS_LAYOUT};
use terrace_fuse::{Agreed, LEDGER_LAYOUT, Ledger};
use terrace_layout::{FORMAT_MAJOR, INCOMPAT_KNOWN, RO_COMPAT_KNOWN};

use super::line::Line;
use crate::daemon::Log;
use crate::options::MountOptions;
use crate::request::MountRequest;

/// Number of the words of a line, and of what is told here.
pub const HANDOVER: u32 = 1;
/// The subcommand, which is none for people.
pub const SUBCOMMAND: &str = "take-over";

/// The orders.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Takeover {
    /// [`HANDOVER`] of the program that tells it.
    handover: u32,
    /// The parts of the mount.
    formats: Formats,
    /// How it was mounted.
    pub mount: Mount,
    /// The program's role from now on.
    pub part: Part,
}

/// Formats that both programs have to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Formats {
    volume: u16,
    volume_features: u64,
    volume_write_features: u64,
    page_cache: u32,
    ledger: u32,
    loans: u32,
    kernel: Agreed,
}

/// How it was mounted: a [`MountRequest`] and its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    pm: PathBuf,
    mountpoint: PathBuf,
    options: String,
    foreground: bool,
    quiet: bool,
    log: Option<PathBuf>,
    /// Number of its device, as in /proc/self/mountinfo.
    pub device: String,
    /// Descriptor of the connection to the kernel.
    pub connection: RawFd,
    /// Descriptor of the ledger.
    pub ledger: RawFd,
}

/// The program's role from now on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Part {
    /// The next daemon.
    Daemon {
        /// Descriptor of the process of the one before.
        before: RawFd,
        /// Number of the upgrade.
        token: u64,
    },
    /// The keeper.
    Keeper {
        /// Process of the daemon.
        daemon: i32,
        /// Score that daemons have when memory runs out.
        score: Option<String>,
        /// Daemons that died one after the other without having answered anything.
        deaths: u32,
        /// Signal that asked the mount to end; 0: none has.
        asked: i32,
    },
}

impl Formats {
    /// Of this program, and of the mount with this ledger.
    fn of(ledger: &Ledger) -> Formats {
        Formats {
            volume: FORMAT_MAJOR,
            volume_features: INCOMPAT_KNOWN,
            volume_write_features: RO_COMPAT_KNOWN,
            page_cache: CACHE_LAYOUT,
            ledger: LEDGER_LAYOUT,
            loans: LOANS_LAYOUT,
            kernel: Agreed::of(ledger),
        }
    }

    /// The part that this program does not know; `None`: it knows all of it.
    fn obstacle(&self) -> Option<String> {
        let other = |what: &str, theirs: u32, ours: u32| {
            (theirs != ours).then(|| format!("{what} {theirs}; it knows {ours}"))
        };
        let unknown = |what: &str, theirs: u64, known: u64| match theirs & !known {
            0 => None,
            bits => Some(format!("{what} {bits:#x} of volumes")),
        };
        other("volumes of format", self.volume.into(), FORMAT_MAJOR.into())
            .or_else(|| unknown("features", self.volume_features, INCOMPAT_KNOWN))
            .or_else(|| unknown("features", self.volume_write_features, RO_COMPAT_KNOWN))
            .or_else(|| other("page caches of layout", self.page_cache, CACHE_LAYOUT))
            .or_else(|| other("ledgers of layout", self.ledger, LEDGER_LAYOUT))
            .or_else(|| other("loans of layout", self.loans, LOANS_LAYOUT))
            .or_else(|| self.kernel.obstacle())
    }
}

impl Mount {
    /// That of a mount with this ledger.
    ///
    /// # Errors
    /// An option whose value cannot be told.
    pub fn of(
        request: &MountRequest,
        log: &Log,
        ledger: &Ledger,
        connection: BorrowedFd<'_>,
        device: &str,
    ) -> Result<Mount> {
        Ok(Mount {
            pm: request.pm.clone(),
            mountpoint: request.mountpoint.clone(),
            options: request.options.to_list().map_err(|why| anyhow!(why))?,
            foreground: request.foreground,
            quiet: request.quiet,
            log: match log {
                Log::File(path) => Some(path.clone()),
                Log::Stderr | Log::Nowhere => None,
            },
            device: device.to_owned(),
            connection: connection.as_raw_fd(),
            ledger: ledger.descriptor().as_raw_fd(),
        })
    }

    /// As it was asked for.
    ///
    /// # Errors
    /// An option that this program does not know.
    pub fn request(&self) -> Result<MountRequest, String> {
        // Those that were by default stand in the list, too.
        let mut options = MountOptions::new(rustix::process::geteuid().is_root());
        options.apply(&self.options, false)?;
        Ok(MountRequest {
            pm: self.pm.clone(),
            mountpoint: self.mountpoint.clone(),
            options,
            foreground: self.foreground,
            quiet: self.quiet,
        })
    }

    /// Where it logs.
    pub fn log(&self) -> Log {
        match &self.log {
            Some(path) => Log::File(path.clone()),
            None if self.foreground => Log::Stderr,
            None => Log::Nowhere,
        }
    }
}

impl Takeover {
    /// For a program that takes this mount over.
    pub fn new(ledger: &Ledger, mount: Mount, part: Part) -> Takeover {
        Takeover { handover: HANDOVER, formats: Formats::of(ledger), mount, part }
    }

    /// Reads what was told.
    ///
    /// # Errors
    /// In words, that there is something of it that this program does not know.
    pub fn parse(text: &str) -> Result<Takeover, String> {
        let unknown = |what: String| {
            let version = env!("CARGO_PKG_VERSION");
            format!("terrace {version} cannot take this mount over: it does not know {what}")
        };
        let told: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if told["handover"] != HANDOVER {
            let theirs = &told["handover"];
            return Err(unknown(format!("handovers of kind {theirs}; it knows {HANDOVER}")));
        }
        // Formats say more than a field that is not known.
        let formats = serde_json::from_value::<Formats>(told["formats"].clone());
        let obstacle = |formats: &Formats| formats.obstacle();
        if let Some(obstacle) = formats.as_ref().ok().and_then(obstacle) {
            return Err(unknown(obstacle));
        }
        let told: Takeover = serde_json::from_value(told)
            .map_err(|error| unknown(format!("all that it is told: {error}")))?;
        told.mount.request().map_err(|why| {
            // Those that it knows help nobody here.
            let why = why.split("; there are: ").next().unwrap_or_default();
            unknown(format!("all of its options: {why}"))
        })?;
        Ok(told)
    }

    /// Becomes this program, which is told so, with the line and these descriptors open. Returns
    /// only if that fails.
    pub fn exec(&self, program: BorrowedFd<'_>, line: &Line, open: &[BorrowedFd<'_>]) -> io::Error {
        let told = || -> io::Result<File> {
            let mut file = File::from(memfd_create("terrace-take-over", MemfdFlags::CLOEXEC)?);
            file.write_all(&serde_json::to_vec(self)?)?;
            Ok(file)
        };
        let told = match told() {
            Ok(told) => told,
            Err(error) => return error,
        };
        let all = [open, &[told.as_fd(), line.as_fd()]].concat();
        let inherit = |flags| all.iter().try_for_each(|fd| fcntl_setfd(fd, flags));
        if let Err(error) = inherit(FdFlags::empty()) {
            return error.into();
        }
        let (told, line) = (told.as_fd().as_raw_fd(), line.as_fd().as_raw_fd());
        let mut args: Vec<OsString> = ["terrace", SUBCOMMAND].map(OsString::from).to_vec();
        args.extend([told.to_string().into(), line.to_string().into()]);
        args.push(self.mount.mountpoint.clone().into());
        let error = exec(program, &args);
        // The old program must not leave them to other programs if it goes on.
        let _ = inherit(FdFlags::CLOEXEC);
        error
    }
}

/// Becomes the program with these arguments and the environment of this one.
fn exec(program: BorrowedFd<'_>, args: &[OsString]) -> io::Error {
    let variable = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let args: Result<Vec<CString>, _> =
        args.iter().map(|arg| CString::new(arg.as_bytes())).collect();
    let variables: Result<Vec<CString>, _> = std::env::vars_os().map(variable).collect();
    let (args, variables) = match (args, variables) {
        (Ok(args), Ok(variables)) => (args, variables),
        (Err(error), _) | (_, Err(error)) => return error.into(),
    };
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (args, variables) = (pointers(&args), pointers(&variables));
    // SAFETY: the path is an empty string, and both lists are of strings that live until the call
    // returns, with a null pointer at their ends.
    unsafe {
        let (path, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
        let fd = program.as_raw_fd();
        libc::syscall(libc::SYS_execveat, fd, path, args.as_ptr(), variables.as_ptr(), flags);
    }
    io::Error::last_os_error()
}

/// The descriptor with this number, which the program before has left open for this one.
///
/// # Errors
/// It is not open.
pub fn adopt(number: RawFd) -> Result<OwnedFd> {
    let missing = || anyhow!("descriptor {number} is not open");
    if number <= 2 {
        return Err(missing());
    }
    // SAFETY: it is looked at only, and not closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).map_err(|_| missing())?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and nothing else in this process, which has just begun, owns it: it was
    // left open for it, and each number is told once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The program of an upgrade, whose path is told by a command, and which is the file that the
/// command knows.
///
/// # Errors
/// In words, that the path leads elsewhere.
pub fn open_program(path: &Path, device: u64, inode: u64) -> Result<OwnedFd, String> {
    use rustix::fs::{Mode, OFlags, fstat, open};
    let name = path.display();
    let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("{name}: {}", io::Error::from(error)))?;
    let found = fstat(&file).map_err(|error| format!("{name}: {}", io::Error::from(error)))?;
    if (found.st_dev, found.st_ino) != (device, inode) {
        return Err(format!(
            "{name}: is another file where the daemon runs, in another mount namespace or \
             replaced meanwhile; run the command again, there"
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The words of a keeper of this version, but for `change`.
    fn told(change: impl Fn(&mut Value)) -> Result<Takeover, String> {
        let ledger = Ledger::new().unwrap();
        // No kernel has agreed to anything.
        let formats = Formats { kernel: Agreed::default(), ..Formats::of(ledger) };
        let mount = Mount {
            pm: "/pm".into(),
            mountpoint: "/mnt".into(),
            options: MountOptions::new(true).to_list().unwrap(),
            foreground: false,
            quiet: true,
            log: Some("/log".into()),
            device: "0:7".into(),
            connection: 5,
            ledger: 6,
        };
        let part = Part::Daemon { before: 7, token: 9 };
        let takeover = Takeover { handover: HANDOVER, formats, mount, part };
        let mut value = serde_json::to_value(takeover).unwrap();
        change(&mut value);
        Takeover::parse(&value.to_string())
    }

    #[test]
    fn a_program_of_the_same_version_can_take_over() {
        let told = told(|_| {}).unwrap();
        let request = told.mount.request().unwrap();
        assert_eq!(request.mountpoint, Path::new("/mnt"));
        assert_eq!(told.mount.log(), Log::File("/log".into()));
        assert!(matches!(told.part, Part::Daemon { before: 7, token: 9 }));
    }

    #[test]
    fn formats_options_and_words_that_are_not_known_are_refused_by_name() {
        type Change = fn(&mut Value);
        let changes: [(Change, &str); 10] = [
            (|told| told["handover"] = 9.into(), "handovers of kind 9; it knows 1"),
            (|told| told["formats"]["volume"] = 9.into(), "volumes of format 9"),
            (|told| told["formats"]["volume_features"] = (1_u64 << 40).into(), "0x10000000000"),
            (|told| told["formats"]["page_cache"] = 0.into(), "page caches of layout 0"),
            (|told| told["formats"]["ledger"] = 0.into(), "ledgers of layout 0; it knows 3"),
            (|told| told["formats"]["loans"] = 0.into(), "loans of layout 0; it knows 2"),
            (|told| told["formats"]["kernel"]["answers"] = 9.into(), "answers of kind 9"),
            (|told| told["formats"]["colour"] = 9.into(), "`colour`"),
            (|told| told["part"] = json!({ "Cook": {} }), "`Cook`"),
            (|told| told["mount"]["options"] = "rw,barrier=1".into(), "\"barrier\""),
        ];
        for (change, named) in changes {
            let why = told(change).unwrap_err();
            assert!(why.starts_with("terrace ") && why.contains(named), "{why}, not {named}");
        }
        assert!(Takeover::parse("{}").unwrap_err().contains("handovers of kind null"));
        assert!(Takeover::parse("?").is_err());
    }

    #[test]
    fn descriptors_that_are_not_open_are_not_adopted() {
        assert!(adopt(0).is_err() && adopt(-1).is_err() && adopt(1_000_000).is_err());
    }

    #[test]
    fn the_program_is_the_file_that_the_command_knows() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let meta = file.as_file().metadata().unwrap();
        assert!(open_program(file.path(), meta.dev(), meta.ino()).is_ok());
        let why = open_program(file.path(), meta.dev(), meta.ino() + 1).unwrap_err();
        assert!(why.contains("another file"), "{why}");
        assert!(open_program(Path::new("/no/such"), 0, 0).unwrap_err().contains("/no/such"));
    }
}
