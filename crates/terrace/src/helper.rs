//! Called by mount(8) and umount(8), under the names they look for: `mount.terrace SPEC DIR [-sfnv]
//! [-N NS] [-o OPTS] [-t TYPE]` and `umount.terrace DIR [-flnrv] [-N NS] [-t TYPE]`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::geteuid;

use crate::commands;
use crate::options::MountOptions;
use crate::output;
use crate::request::MountRequest;

/// mount(8): incorrect invocation.
const USAGE: u8 = 1;
/// mount(8): mount failure.
const FAILED: u8 = 32;

/// Which helper this program was called as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// `mount.terrace`, `mount.fuse.terrace`
    Mount,
    /// `umount.terrace`, `umount.fuse.terrace`
    Umount,
}

impl Helper {
    /// By the name it was called by; `None` for any other name.
    pub fn of_name(argv0: &OsStr) -> Option<Helper> {
        match Path::new(argv0).file_name()?.to_str()? {
            "mount.terrace" | "mount.fuse.terrace" => Some(Helper::Mount),
            "umount.terrace" | "umount.fuse.terrace" => Some(Helper::Umount),
            _ => None,
        }
    }

    /// Does what mount(8) or umount(8) asks for.
    pub fn run(self, args: impl Iterator<Item = OsString>) -> ExitCode {
        let call = match Call::parse(args) {
            Ok(call) => call,
            Err(message) => return fail(USAGE, &message),
        };
        let result = match self {
            Helper::Mount => match call.mount_request() {
                Ok(_) if call.fake => Ok(()),
                Ok(request) => commands::mount(request),
                Err(message) => return fail(USAGE, &message),
            },
            Helper::Umount => match call.places.as_slice() {
                [mountpoint] => commands::umount(mountpoint, !call.verbose),
                _ => return fail(USAGE, "give the mountpoint"),
            },
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(FAILED, &format!("{error:#}")),
        }
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    output::error(message);
    ExitCode::from(code)
}

/// A call of a helper.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    places: Vec<PathBuf>,
    options: Vec<String>,
    fake: bool,
    sloppy: bool,
    verbose: bool,
}

impl Call {
    fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Call, String> {
        let mut call = Call::default();
        while let Some(arg) = args.next() {
            let flags = match arg.to_str().and_then(|text| text.strip_prefix('-')) {
                Some(flags) if !flags.is_empty() => flags,
                _ => {
                    call.places.push(arg.into());
                    continue;
                }
            };
            call.parse_flags(flags, &mut args)?;
        }
        Ok(call)
    }

    /// A group of one-letter flags; the last one may take a value, which follows it or is the next
    /// argument.
    fn parse_flags(
        &mut self,
        flags: &str,
        args: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        for (at, flag) in flags.char_indices() {
            match flag {
                'f' => self.fake = true,
                's' => self.sloppy = true,
                'v' => self.verbose = true,
                // No mtab to write; a read-only remount instead of unmounting, or a lazy one, is
                // not offered.
                'n' | 'r' | 'l' => {}
                'o' | 'N' | 't' => {
                    let attached = &flags[at + 1..];
                    let value = match attached {
                        "" => args.next().and_then(|value| value.into_string().ok()),
                        value => Some(value.to_owned()),
                    };
                    let value = value
                        .ok_or_else(|| format!("-{flag}: its value is missing or not UTF-8"))?;
                    if flag == 'o' {
                        self.options.push(value);
                    }
                    return Ok(());
                }
                _ => {
                    return Err(format!(
                        "-{flag}: no such flag; see `man 8 mount` for what helpers take"
                    ));
                }
            }
        }
        Ok(())
    }

    fn mount_request(&self) -> Result<MountRequest, String> {
        let [pm, mountpoint] = self.places.as_slice() else {
            return Err("give the PM device and the mountpoint".to_owned());
        };
        let mut options = MountOptions::new(geteuid().is_root());
        for list in &self.options {
            options.apply(list, self.sloppy)?;
        }
        Ok(MountRequest {
            pm: pm.clone(),
            mountpoint: mountpoint.clone(),
            options,
            foreground: false,
            quiet: !self.verbose,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Call, String> {
        Call::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn the_name_decides() {
        for (name, helper) in [
            ("/sbin/mount.terrace", Some(Helper::Mount)),
            ("mount.fuse.terrace", Some(Helper::Mount)),
            ("/sbin/umount.fuse.terrace", Some(Helper::Umount)),
            ("terrace", None),
            ("mount", None),
            ("", None),
        ] {
            assert_eq!(Helper::of_name(OsStr::new(name)), helper, "{name}");
        }
    }

    #[test]
    fn what_mount_passes_is_understood() {
        let call = parse(&[
            "/dev/shm/pm",
            "/mnt",
            "-sfv",
            "-n",
            "-N",
            "/proc/1/ns/mnt",
            "-o",
            "rw,noatime",
            "-oro",
        ]);
        let call = call.unwrap();
        assert_eq!(call.options, ["rw,noatime", "ro"]);
        assert!(call.fake && call.sloppy && call.verbose);
        let request = call.mount_request().unwrap();
        assert_eq!((request.pm, request.mountpoint), ("/dev/shm/pm".into(), "/mnt".into()));
        assert!(request.options.read_only && !request.foreground && !request.quiet);
    }

    #[test]
    fn wrong_calls_say_what_is_wrong() {
        assert!(parse(&["-o"]).unwrap_err().contains("-o"));
        assert!(parse(&["-z"]).unwrap_err().contains("-z"));
        assert!(
            parse(&["/dev/shm/pm"]).unwrap().mount_request().unwrap_err().contains("mountpoint")
        );
        let unknown = ["/dev/shm/pm", "/mnt", "-o", "nonsense"];
        assert!(parse(&unknown).unwrap().mount_request().unwrap_err().contains("nonsense"));
        assert!(parse(&[&unknown[..], &["-s"]].concat()).unwrap().mount_request().is_ok());
    }
}
