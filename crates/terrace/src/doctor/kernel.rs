//! The kernel's version, and FUSE over io_uring.

use terrace_fuse::RingOffer;

use super::{Finding, Machine};

/// Without it, nothing can be mounted.
const NEEDED: (u32, u32) = (5, 11);

/// What came later, and is used where it is there. FUSE over io_uring is a finding of its own.
const FEATURES: [((u32, u32), &str); 3] = [
    ((6, 2), "files without names (O_TMPFILE)"),
    ((6, 6), "times of birth (statx)"),
    ((6, 9), "requests that are handed out again after the daemon's death (FUSE_NOTIFY_RESEND)"),
];

/// Whether the kernel has all that is used.
pub fn version(machine: &Machine) -> Finding {
    const TOPIC: &str = "kernel";
    let Some(version) = machine.kernel() else {
        return Finding::missing(TOPIC, "its version is not known", "mount /proc");
    };
    let text = |(major, minor): (u32, u32)| format!("Linux {major}.{minor}");
    if version < NEEDED {
        let found = format!("{} cannot mount a volume", text(version));
        return Finding::missing(TOPIC, found, format!("{} or later", text(NEEDED)));
    }
    let later: Vec<_> = FEATURES.iter().filter(|(since, _)| version < *since).collect();
    let lacks: Vec<&str> = later.iter().map(|(_, what)| *what).collect();
    match later.last() {
        None => Finding::ok(TOPIC, text(version)),
        Some((since, _)) => {
            let found = format!("{} lacks {}", text(version), lacks.join(", "));
            Finding::missing(TOPIC, found, format!("{} or later", text(*since)))
        }
    }
}

/// Whether messages can come over io_uring.
pub fn ring(machine: &Machine) -> Finding {
    const TOPIC: &str = "io_uring";
    let offer = RingOffer::below(&machine.root, || machine.has_rings);
    if let Some(obstacle) = offer.obstacle() {
        let remedies = [
            offer.remedy_now().map(|remedy| format!("for now {remedy}")),
            offer.remedy_for_good().map(|remedy| format!("for good {remedy}")),
        ];
        let remedies: Vec<String> = remedies.into_iter().flatten().collect();
        return Finding::slow(TOPIC, obstacle, remedies.join(", "));
    }
    let offered = "the kernel offers FUSE over io_uring";
    if is_kept(machine) {
        return Finding::ok(TOPIC, offered);
    }
    let built_in = !machine.path("sys/module/fuse/initstate").exists();
    let for_good = RingOffer::SwitchedOff { built_in }.remedy_for_good().unwrap_or_default();
    Finding::ok(TOPIC, format!("{offered} until the next reboot, and for good with {for_good}"))
}

/// Whether it will be switched on after the next reboot.
fn is_kept(machine: &Machine) -> bool {
    let is_on = |word: &str| {
        word.split_once("enable_uring=").is_some_and(|(_, value)| matches!(value, "1" | "Y" | "y"))
    };
    let command_line = machine.text("proc/cmdline").unwrap_or_default();
    let by_command_line =
        command_line.split_whitespace().any(|word| word.starts_with("fuse.") && is_on(word));
    let by_file = |name: &String| {
        let text = machine.text(format!("etc/modprobe.d/{name}")).unwrap_or_default();
        text.lines().any(|line| {
            let mut words = line.split_whitespace();
            (words.next(), words.next()) == (Some("options"), Some("fuse")) && words.any(is_on)
        })
    };
    by_command_line
        || machine
            .names("etc/modprobe.d")
            .iter()
            .filter(|name| name.ends_with(".conf"))
            .any(by_file)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::machine::made_up::MadeUp;
    use super::*;

    fn of_release(release: &str) -> Finding {
        version(&MadeUp::with(&[("proc/sys/kernel/osrelease", release)]).machine)
    }

    #[test]
    fn an_older_kernel_lacks_what_came_later() {
        assert_eq!(of_release("6.18.1"), Finding::ok("kernel", "Linux 6.18"));
        assert_eq!(of_release("6.9.0").verdict, Verdict::Ok);
        let debian = of_release("6.1.0-28-amd64");
        assert_eq!(debian.verdict, Verdict::Missing);
        assert!(debian.found.contains("O_TMPFILE") && debian.found.contains("statx"), "{debian:?}");
        assert_eq!(debian.remedy.as_deref(), Some("Linux 6.9 or later"));
        let found = of_release("6.5.0").found;
        assert!(!found.contains("O_TMPFILE") && found.contains("statx"), "{found}");
        let old = of_release("5.4.0");
        assert!(old.found.contains("cannot mount"), "{old:?}");
        assert_eq!(old.remedy.as_deref(), Some("Linux 5.11 or later"));
        assert_eq!(version(&MadeUp::with(&[]).machine).verdict, Verdict::Missing);
    }

    const SWITCH: &str = "sys/module/fuse/parameters/enable_uring";

    #[test]
    fn what_is_switched_off_has_a_remedy_for_now_and_one_for_good() {
        let built_in = ring(&MadeUp::with(&[(SWITCH, "N\n")]).machine);
        assert_eq!(built_in.verdict, Verdict::Slow);
        let remedy = built_in.remedy.unwrap();
        assert!(remedy.contains("for now `echo Y > /sys/module/fuse/"), "{remedy}");
        assert!(remedy.contains("for good `fuse.enable_uring=1`"), "{remedy}");
        let module = [(SWITCH, "N\n"), ("sys/module/fuse/initstate", "live\n")];
        let remedy = ring(&MadeUp::with(&module).machine).remedy.unwrap();
        assert!(remedy.contains("`options fuse enable_uring=1`"), "{remedy}");
        let old = ring(&MadeUp::with(&[("sys/module/fuse/initstate", "live\n")]).machine);
        assert_eq!(
            (old.verdict, old.remedy.as_deref()),
            (Verdict::Slow, Some("for good a newer kernel"))
        );
    }

    #[test]
    fn what_is_switched_on_says_whether_it_stays() {
        let made_up = MadeUp::with(&[(SWITCH, "Y\n"), ("proc/cmdline", "quiet enable_uring=1\n")]);
        let found = ring(&made_up.machine).found;
        assert!(found.contains("until the next reboot"), "{found}");
        made_up.set("etc/modprobe.d/fuse.conf", "# options fuse enable_uring=1\n");
        made_up.set("etc/modprobe.d/fuse.conf~", "options fuse enable_uring=1\n");
        assert!(ring(&made_up.machine).found.contains("until the next reboot"));
        made_up.set("etc/modprobe.d/fuse.conf", "options fuse max_user_bgreq=9 enable_uring=1\n");
        assert_eq!(ring(&made_up.machine).found, "the kernel offers FUSE over io_uring");
        made_up.set("etc/modprobe.d/fuse.conf", "");
        made_up.set("proc/cmdline", "quiet fuse.enable_uring=Y\n");
        assert_eq!(ring(&made_up.machine).found, "the kernel offers FUSE over io_uring");
        let without_rings = Machine { has_rings: false, ..made_up.machine.clone() };
        let forbidden = ring(&without_rings);
        assert_eq!(forbidden.verdict, Verdict::Slow);
        assert!(forbidden.remedy.unwrap().contains("io_uring_disabled"));
    }
}
