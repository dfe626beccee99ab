//! Processors: how many the daemon may use, how fast they are, and how important it is to them.

use std::collections::BTreeMap;

use terrace_fuse::count_cpus;

use super::{Finding, Machine};

/// Governors that keep a processor slow while the daemon works in short bursts.
const SLOW_GOVERNORS: [&str; 2] = ["powersave", "conservative"];
/// Drivers whose "powersave" lets the processor choose, and is no such governor.
const OWN_CHOICE: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;

/// All of them.
pub fn findings(machine: &Machine) -> [Finding; 3] {
    [count(machine), governor(machine), priority(machine)]
}

/// Processors that the daemon will inherit from whoever mounts.
fn count(machine: &Machine) -> Finding {
    const TOPIC: &str = "processors";
    let online = machine.text("sys/devices/system/cpu/online");
    let allowed = machine.value_of("proc/self/status", "Cpus_allowed_list");
    let counts = [online, allowed].map(|list| list.and_then(|list| count_cpus(&list)));
    let [Some(online), Some(allowed)] = counts else {
        return Finding::missing(TOPIC, "their number is not known", "mount /proc and /sys");
    };
    // The mask has places for those that are not there.
    let usable = allowed.min(online);
    if usable < online {
        return Finding::slow(
            TOPIC,
            format!("{usable} of {online} may be used: programs on the others wait for these"),
            "mount without taskset, or with all processors in the cpuset of the cgroup \
             (of a unit of systemd: AllowedCPUs=)",
        );
    }
    match usable {
        1 => Finding::slow(
            TOPIC,
            "1: a program and the daemon take turns on it",
            "a machine with two or more",
        ),
        _ => Finding::ok(TOPIC, usable.to_string()),
    }
}

fn governor(machine: &Machine) -> Finding {
    const TOPIC: &str = "frequency";
    const CPUS: &str = "sys/devices/system/cpu";
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut governors = BTreeMap::<String, u32>::new();
    let mut slow = 0_u32;
    for cpu in machine.names(CPUS).iter().filter(|name| is_cpu(name)) {
        let of_cpu = |file: &str| machine.text(format!("{CPUS}/{cpu}/cpufreq/{file}"));
        let Some(governor) = of_cpu("scaling_governor") else {
            continue;
        };
        let own_choice =
            of_cpu("scaling_driver").is_some_and(|driver| OWN_CHOICE.contains(&driver.as_str()));
        slow += u32::from(SLOW_GOVERNORS.contains(&governor.as_str()) && !own_choice);
        *governors.entry(governor).or_default() += 1;
    }
    let names: Vec<String> = governors.into_keys().collect();
    match (names.as_slice(), slow) {
        ([], _) => Finding::ok(TOPIC, "the kernel does not govern it"),
        (_, 0) => Finding::ok(TOPIC, format!("governed by {}", names.join(", "))),
        (_, slow) => Finding::slow(
            TOPIC,
            format!("{} govern {slow} of the processors", names.join(", ")),
            "`cpupower frequency-set -g performance`, or schedutil",
        ),
    }
}

/// The scheduling class and niceness that the daemon will inherit.
fn priority(machine: &Machine) -> Finding {
    const TOPIC: &str = "priority";
    let stat = machine.text("proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // Counted from the state, which is field 3 of proc(5).
    let nice = fields.get(16).and_then(|field| field.parse::<i32>().ok());
    let policy = fields.get(38).and_then(|field| field.parse::<u32>().ok());
    let what = match (policy, nice) {
        (None, _) | (_, None) => {
            return Finding::missing(TOPIC, "it is not known", "mount /proc");
        }
        (Some(SCHED_IDLE), _) => "the scheduler's class idle".to_owned(),
        (Some(SCHED_BATCH), _) => "the scheduler's class batch".to_owned(),
        (_, Some(nice)) if nice > 0 => format!("niceness {nice}"),
        _ => return Finding::ok(TOPIC, "as usual"),
    };
    let found = format!("{what}, which a daemon inherits: it runs after other programs");
    Finding::slow(TOPIC, found, "mount from a shell without nice, chrt or Nice= of systemd")
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::machine::made_up::MadeUp;
    use super::*;

    #[test]
    fn processors_that_may_not_be_used_are_missed() {
        let made_up = MadeUp::with(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("proc/self/status", "Name:\tterrace\nCpus_allowed_list:\t0-127\n"),
        ]);
        assert_eq!(count(&made_up.machine), Finding::ok("processors", "4"));
        made_up.set("proc/self/status", "Cpus_allowed_list:\t0,2\n");
        let few = count(&made_up.machine);
        assert!(few.verdict == Verdict::Slow && few.found.starts_with("2 of 4"), "{few:?}");
        made_up.set("sys/devices/system/cpu/online", "0\n");
        made_up.set("proc/self/status", "Cpus_allowed_list:\t0\n");
        assert_eq!(count(&made_up.machine).verdict, Verdict::Slow);
        assert_eq!(count(&MadeUp::with(&[]).machine).verdict, Verdict::Missing);
    }

    #[test]
    fn a_governor_that_saves_power_is_slow() {
        let made_up = MadeUp::with(&[("sys/devices/system/cpu/cpufreq/boost", "1")]);
        assert_eq!(governor(&made_up.machine).found, "the kernel does not govern it");
        for cpu in ["cpu0", "cpu1"] {
            let file = |name| format!("sys/devices/system/cpu/{cpu}/cpufreq/{name}");
            made_up.set(&file("scaling_governor"), "powersave\n");
            made_up.set(&file("scaling_driver"), "acpi-cpufreq\n");
        }
        let saving = governor(&made_up.machine);
        assert_eq!(saving.found, "powersave govern 2 of the processors");
        assert_eq!(saving.verdict, Verdict::Slow);
        for cpu in ["cpu0", "cpu1"] {
            let file = format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_driver");
            made_up.set(&file, "intel_pstate\n");
        }
        assert_eq!(governor(&made_up.machine), Finding::ok("frequency", "governed by powersave"));
    }

    #[test]
    fn what_is_nice_is_slow() {
        let stat = |nice: i32, policy: u32| {
            let middle = "0 ".repeat(21);
            format!("7 (a b) c) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} {middle}{policy} 0 0\n")
        };
        let of = |text: &str| priority(&MadeUp::with(&[("proc/self/stat", text)]).machine);
        assert_eq!(of(&stat(0, 0)), Finding::ok("priority", "as usual"));
        assert_eq!(of(&stat(-5, 0)).verdict, Verdict::Ok);
        assert!(of(&stat(10, 0)).found.starts_with("niceness 10"));
        assert!(of(&stat(0, SCHED_IDLE)).found.contains("class idle"));
        assert!(of(&stat(0, SCHED_BATCH)).found.contains("class batch"));
        assert_eq!(of("").verdict, Verdict::Missing);
    }
}
