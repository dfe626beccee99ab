//! Mount options: what follows `-o`, on the command line, from mount(8) and from fstab. Pure: text
//! in, values out.
//!
//! Every option stands in [`OPTIONS`], from which the help and the error for an unknown option are
//! made; a test holds the table and the parser together.

mod list;
mod names;

use std::path::PathBuf;
use std::str::FromStr;

use terrace_engine::{AtimePolicy, CACHE_BYTES_MIN, WearBudget};
use terrace_fuse::Transport;
use terrace_media::IoEngine;
use terrace_policy::{Param, Params, TUNABLES, Tunable};

use self::list::split_list;
use self::names::IGNORED;
pub use self::names::OPTIONS;
use crate::lend::Lend;
use crate::metrics;
use crate::models::ModelChoice;
use crate::output::quoted;
use crate::size::{format_size, parse_size};
use crate::{thresholds, wear};

/// How to mount.
#[derive(Clone, Debug, PartialEq)]
pub struct MountOptions {
    /// `ro`.
    pub read_only: bool,
    /// `remount`.
    pub remount: bool,
    /// `relatime`, `noatime`, `strictatime`.
    pub atime: AtimePolicy,
    /// `durable`.
    pub durable: bool,
    /// `allow_other`.
    pub allow_other: bool,
    /// `default_permissions`.
    pub default_permissions: bool,
    /// `cache=SIZE`; `None`: by the machine's RAM.
    pub cache_bytes: Option<u64>,
    /// `cache_dir=DIR`; `None`: the user's own below /dev/shm.
    pub cache_dir: Option<PathBuf>,
    /// `writeback=SECONDS`.
    pub writeback_seconds: u32,
    /// `pm_full=PERCENT`.
    pub pm_full_percent: u8,
    /// `transport=`.
    pub transport: Transport,
    /// `queue_depth=N`; `None`: the default.
    pub queue_depth: Option<usize>,
    /// `threads=N`; `None`: by the machine.
    pub threads: Option<usize>,
    /// `clone_fd`.
    pub clone_fd: bool,
    /// `keeper`, `nokeeper`; `None`: where one can be had.
    pub keeper: Option<bool>,
    /// `dev`, `nodev`.
    pub dev: bool,
    /// `suid`, `nosuid`.
    pub suid: bool,
    /// `exec`, `noexec`.
    pub exec: bool,
    /// `engine=`.
    pub engine: IoEngine,
    /// `direct`, `nodirect`.
    pub direct: bool,
    /// `lend=`.
    pub lend: Lend,
    /// `disk=PATH`, in the order given.
    pub disks: Vec<PathBuf>,
    /// `model=DEVICE=MODEL`, in the order given.
    pub models: Vec<ModelChoice>,
    /// `log=FILE`.
    pub log: Option<PathBuf>,
    /// The policy's thresholds.
    pub params: Params,
    /// `wear=DEVICE:BYTES/day`, in the order given.
    pub wear: Vec<WearBudget>,
    /// `metrics=ADDRESS`.
    pub metrics: Option<metrics::Address>,
    /// The options given that take no value, in the order given: of these, a remount changes what
    /// it can.
    flags: Vec<String>,
}

impl MountOptions {
    /// The defaults; device files and set-id bits count only for root, whose devices nobody else
    /// can forge.
    pub fn new(privileged: bool) -> Self {
        MountOptions {
            read_only: false,
            remount: false,
            atime: AtimePolicy::Relatime,
            durable: false,
            allow_other: false,
            default_permissions: false,
            cache_bytes: None,
            cache_dir: None,
            writeback_seconds: 5,
            pm_full_percent: 90,
            transport: Transport::default(),
            queue_depth: None,
            threads: None,
            clone_fd: false,
            keeper: None,
            dev: privileged,
            suid: privileged,
            exec: true,
            engine: IoEngine::Auto,
            direct: true,
            lend: Lend::Off,
            disks: Vec::new(),
            models: Vec::new(),
            log: None,
            params: Params::default(),
            wear: Vec::new(),
            metrics: None,
            flags: Vec::new(),
        }
    }

    /// The options of a mount after a remount with these; `in_force` is what the kernel's table
    /// says of it.
    ///
    /// # Errors
    /// As [`MountOptions::apply`].
    pub fn over(&self, in_force: &str) -> Result<Self, String> {
        let mut options = MountOptions::new(true);
        options.apply(in_force, true)?;
        options.apply(&self.flags.join(","), false)?;
        Ok(options)
    }

    /// Applies a comma-separated list; a later option overrides an earlier one. `\,` is a comma
    /// inside a value. `sloppy` skips options that are unknown, as `mount -s` asks.
    ///
    /// # Errors
    /// A sentence that names the option, what it takes, and for an unknown one what exists.
    pub fn apply(&mut self, list: &str, sloppy: bool) -> Result<(), String> {
        for option in split_list(list) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option.as_str(), None),
            };
            if is_ignored(&option)
                || self.apply_flag(name, value)?
                || self.apply_value(name, value)?
                || sloppy
            {
                continue;
            }
            return Err(unknown(name));
        }
        Ok(())
    }

    /// Applies an option that takes no value; false if there is none of this name.
    fn apply_flag(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        match name {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "remount" => self.remount = true,
            "relatime" => self.atime = AtimePolicy::Relatime,
            "noatime" => self.atime = AtimePolicy::Noatime,
            "strictatime" => self.atime = AtimePolicy::Strictatime,
            "durable" | "sync" => self.durable = true,
            "allow_other" => self.allow_other = true,
            "default_permissions" => self.default_permissions = true,
            "clone_fd" => self.clone_fd = true,
            "keeper" => self.keeper = Some(true),
            "nokeeper" => self.keeper = Some(false),
            "dev" => self.dev = true,
            "nodev" => self.dev = false,
            "suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "exec" => self.exec = true,
            "noexec" => self.exec = false,
            "direct" => self.direct = true,
            "nodirect" => self.direct = false,
            _ => return Ok(false),
        }
        match value {
            Some(value) => Err(format!(
                "mount option {name:?} takes no value, but {} was given",
                quoted(value)
            )),
            None => {
                self.flags.push(name.to_owned());
                Ok(true)
            }
        }
    }

    /// Applies an option that takes a value; false if there is none of this name.
    fn apply_value(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let Some(form) =
            OPTIONS.iter().map(|(form, _)| form).find(|form| value_option(form) == Some(name))
        else {
            return self.apply_threshold(name, value);
        };
        let value = value.unwrap_or_default();
        let bad = |why: String| format!("mount option {form}: {why}");
        if value.is_empty() {
            return Err(bad("the value is missing".to_owned()));
        }
        match name {
            "cache" => self.cache_bytes = Some(cache_size(value).map_err(bad)?),
            "cache_dir" => self.cache_dir = Some(value.into()),
            "writeback" => self.writeback_seconds = number(value, 1, 86_400).map_err(bad)?,
            "pm_full" => self.pm_full_percent = number(value, 1, 100).map_err(bad)?,
            "transport" => self.transport = value.parse().map_err(bad)?,
            "queue_depth" => self.queue_depth = Some(number(value, 2, 1024).map_err(bad)?),
            "threads" => self.threads = Some(number(value, 1, 1024).map_err(bad)?),
            "engine" => self.engine = engine(value).map_err(bad)?,
            "lend" => self.lend = value.parse().map_err(bad)?,
            "disk" => self.disks.push(value.into()),
            "model" => self.models.push(value.parse().map_err(bad)?),
            "wear" => self.wear.push(wear::parse(value).map_err(bad)?),
            "log" => self.log = Some(value.into()),
            "metrics" => self.metrics = Some(value.parse().map_err(bad)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies one of the policy's thresholds; false if there is none of this name.
    fn apply_threshold(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let Some(param) = Param::from_name(name) else {
            return Ok(false);
        };
        let value = thresholds::parse_value(param, value.unwrap_or_default());
        let value = value.map_err(|why| format!("mount option {why}"))?;
        self.params.set(param, value).map_err(|why| why.to_string())?;
        Ok(true)
    }
}

/// The name of an option that takes a value, from its form in the table.
fn value_option<'a>(form: &&'a str) -> Option<&'a str> {
    form.split_once('=').map(|(name, _)| name)
}

fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("{} is not a whole number from {least} to {most}", quoted(text))),
    }
}

/// Without any page cache, nothing could reach a disk.
fn cache_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < CACHE_BYTES_MIN => Err(format!(
            "{} is too small; it takes at least {}",
            quoted(text),
            format_size(CACHE_BYTES_MIN)
        )),
        bytes => Ok(bytes),
    }
}

fn engine(text: &str) -> Result<IoEngine, String> {
    match text {
        "uring" => Ok(IoEngine::Uring),
        "sync" => Ok(IoEngine::Sync),
        "auto" => Ok(IoEngine::Auto),
        _ => Err(format!("{} is none of them", quoted(text))),
    }
}

fn is_ignored(option: &str) -> bool {
    IGNORED.iter().any(|known| match known.ends_with(['=', '-']) {
        true => option.starts_with(known),
        false => option == *known,
    })
}

fn unknown(name: &str) -> String {
    let known: Vec<String> = forms().map(|(form, _)| form).collect();
    format!("unknown mount option {}; there are: {}", quoted(name), known.join(", "))
}

/// Every option's form and what it does, the policy's thresholds last.
fn forms() -> impl Iterator<Item = (String, String)> {
    let options = OPTIONS.iter().map(|&(form, what)| (form.to_owned(), what.to_owned()));
    let default = |tunable: &Tunable| thresholds::value_text(tunable, tunable.default);
    let about =
        move |tunable: &Tunable| format!("{} (default: {})", tunable.about, default(tunable));
    options.chain(TUNABLES.iter().map(move |tunable| (thresholds::form(tunable), about(tunable))))
}

/// The options as a table for the help text, in lines of at most 80 characters.
pub fn help() -> String {
    let width = forms().map(|(form, _)| form.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (form, what) in forms() {
        let mut line = format!("  {form:width$} ");
        for word in what.split(' ') {
            if line.len() + 1 + word.len() > 80 {
                text += &line;
                line = format!("\n{:width$}", "", width = width + 3);
            }
            line = line + " " + word;
        }
        text = text + &line + "\n";
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<MountOptions, String> {
        let mut options = MountOptions::new(true);
        options.apply(list, false).map(|()| options)
    }

    #[test]
    fn each_option_sets_its_value() {
        let all = "ro,remount,noatime,durable,allow_other,default_permissions,\
                   cache=1.5G,cache_dir=/run/x,\
                   writeback=30,pm_full=80,threads=3,clone_fd,keeper,nodev,nosuid,\
                   noexec,\
                   transport=io_uring,queue_depth=9,engine=sync,nodirect,lend=owner,\
                   disk=/a,disk=/b,model=pm=pm,model=disk2=hdd,log=/l,metrics=/m,\
                   wear=disk2:1G/day,wear=/a:2M/day,group=4M,migrate_rate=100M";
        let expected = MountOptions {
            read_only: true,
            remount: true,
            atime: AtimePolicy::Noatime,
            durable: true,
            allow_other: true,
            default_permissions: true,
            cache_bytes: Some(3 << 29),
            cache_dir: Some("/run/x".into()),
            writeback_seconds: 30,
            pm_full_percent: 80,
            transport: Transport::IoUring,
            queue_depth: Some(9),
            threads: Some(3),
            clone_fd: true,
            keeper: Some(true),
            dev: false,
            suid: false,
            exec: false,
            engine: IoEngine::Sync,
            direct: false,
            lend: Lend::Owner,
            disks: vec!["/a".into(), "/b".into()],
            models: vec!["pm=pm".parse().unwrap(), "disk2=hdd".parse().unwrap()],
            log: Some("/l".into()),
            params: {
                let mut params = Params::default();
                params.set(Param::Group, 4 << 20).unwrap();
                params.set(Param::MigrateRate, 100 << 20).unwrap();
                params
            },
            wear: ["disk2:1G/day", "/a:2M/day"].map(|text| wear::parse(text).unwrap()).to_vec(),
            metrics: Some("/m".parse().unwrap()),
            flags: "ro remount noatime durable allow_other default_permissions clone_fd \
                    keeper nodev nosuid noexec nodirect"
                .split(' ')
                .map(str::to_owned)
                .collect(),
        };
        assert_eq!(parse(all), Ok(expected));
    }

    #[test]
    fn a_remount_keeps_what_is_not_given() {
        let of = |o: MountOptions| [o.read_only, o.suid, o.dev, o.exec];
        for (in_force, given, expected) in [
            ("rw,relatime", "remount", [false, true, true, true]),
            ("ro,nosuid,nodev,noexec,nosymfollow,relatime", "remount", [true, false, false, false]),
            ("rw,nosuid,nodev", "remount,ro", [true, false, false, true]),
            ("ro,nosuid,noexec", "rw,remount,suid", [false, true, true, false]),
        ] {
            let mut options = MountOptions::new(true);
            options.apply(given, false).unwrap();
            assert_eq!(options.over(in_force).map(of), Ok(expected), "{given} of {in_force}");
        }
    }

    #[test]
    fn the_last_one_wins() {
        let options = parse("ro,nodev,noatime,rw,dev,strictatime,writeback=3,writeback=9").unwrap();
        assert!(!options.read_only && options.dev);
        assert_eq!((options.atime, options.writeback_seconds), (AtimePolicy::Strictatime, 9));
    }

    #[test]
    fn every_option_in_the_table_is_understood() {
        for (form, _) in OPTIONS {
            let text = match form.split_once('=') {
                None => (*form).to_owned(),
                Some((name, "SIZE")) => format!("{name}=1M"),
                Some((name, "SECONDS" | "PERCENT" | "N")) => format!("{name}=7"),
                Some((name, "DEVICE:BYTES/day")) => format!("{name}=pm:1G/day"),
                Some((name, "DEVICE=MODEL")) => format!("{name}=disk=hdd"),
                Some((name, "PATH" | "DIR" | "FILE" | "ADDRESS")) => format!("{name}=/x"),
                Some((name, choices)) => format!("{name}={}", choices.split('|').next().unwrap()),
            };
            assert!(parse(&text).is_ok(), "{text}");
            assert_eq!(
                parse(&text.replace('=', "")).is_ok(),
                !text.contains('='),
                "{text} without its value"
            );
            assert!(help().contains(form));
        }
    }

    #[test]
    fn every_threshold_is_an_option() {
        for tunable in &TUNABLES {
            let options = parse(&format!("{}={}", tunable.name, tunable.max)).unwrap();
            assert_eq!(options.params.get(tunable.param), tunable.max);
            let error = parse(&format!("{}={}", tunable.name, tunable.max + 1)).unwrap_err();
            assert!(error.starts_with("mount option") && error.contains(tunable.name), "{error}");
            assert!(help().contains(&thresholds::form(tunable)), "{}: {}", tunable.name, help());
            // `group` without a value is an option of mount(8).
            assert!(
                parse(tunable.name).is_err() || is_ignored(tunable.name),
                "{} without its value",
                tunable.name
            );
        }
    }

    #[test]
    fn what_is_for_mount_is_ignored() {
        let list = "defaults,user,users,user=joe,nofail,noauto,_netdev,x-systemd.automount,\
                    X-mount.mkdir,comment=hi,,";
        assert_eq!(parse(list), Ok(MountOptions::new(true)));
        assert!(parse("nofailure").is_err());
    }

    #[test]
    fn unknown_options_are_named_and_the_known_ones_listed() {
        let message = parse("rw,nobarrier=1").unwrap_err();
        assert!(
            message.contains("\"nobarrier\"") && message.contains("writeback=SECONDS"),
            "{message}"
        );
        let mut sloppy = MountOptions::new(false);
        assert_eq!(sloppy.apply("nobarrier=1,ro", true), Ok(()));
        assert!(sloppy.read_only);
    }

    #[test]
    fn bad_values_name_their_option() {
        for (list, parts) in [
            ("cache=", ["cache=SIZE", "missing"]),
            ("cache", ["cache=SIZE", "missing"]),
            ("cache=1Q", ["cache=SIZE", "1Q"]),
            ("cache=0", ["cache=SIZE", "at least 1 MiB"]),
            ("writeback=0", ["writeback=SECONDS", "from 1 to 86400"]),
            ("pm_full=101", ["pm_full=PERCENT", "from 1 to 100"]),
            ("threads=-1", ["threads=N", "\"-1\""]),
            ("engine=aio", ["engine=uring|sync|auto", "\"aio\""]),
            ("model=hdd", ["model=DEVICE=MODEL", "disk1=MODEL"]),
            ("model=disk0=hdd", ["model=DEVICE=MODEL", "disk1=MODEL"]),
            ("model=disk=floppy", ["model=DEVICE=MODEL", "floppy"]),
            ("wear=disk1:1G", ["wear=DEVICE:BYTES/day", "as in 100G/day"]),
            ("wear=sda:1G/day", ["wear=DEVICE:BYTES/day", "terrace device list"]),
            ("metrics=example.org:80", ["metrics=ADDRESS", "localhost:PORT"]),
            ("ro=1", ["\"ro\"", "takes no value"]),
        ] {
            let message = parse(list).unwrap_err();
            assert!(parts.iter().all(|part| message.contains(part)), "{list}: {message}");
        }
    }

    #[test]
    fn a_comma_can_be_part_of_a_value() {
        assert_eq!(parse(r"disk=/a\,b,ro").unwrap().disks, [PathBuf::from("/a,b")]);
        assert_eq!(parse(r"disk=/a\b").unwrap().disks, [PathBuf::from(r"/a\b")]);
    }

    #[test]
    fn devices_and_set_id_bits_are_for_root() {
        assert!(MountOptions::new(true).dev && MountOptions::new(true).suid);
        assert!(!MountOptions::new(false).dev && !MountOptions::new(false).suid);
    }
}
