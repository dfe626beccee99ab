//! Memory that the daemon may use: limits, `/dev/shm`, huge pages.

use std::path::Path;

use terrace_fuse::{count_cpus, ring_workers, workers_of_a_queue};

use super::{Finding, Machine};
use crate::memory;
use crate::size::format_size;
use crate::transport::{locked_bytes, may_lock_all};

/// With less memory than this, an eighth of it makes a small page cache.
const PLENTY_BYTES: u64 = 1 << 30;

/// All of them.
pub fn findings(machine: &Machine) -> [Finding; 5] {
    [limits(machine), locked(machine), shared(machine), huge_pages(machine), promised(machine)]
}

/// What the daemon may use: the machine's memory, or what its cgroup allows.
fn usable_bytes(machine: &Machine) -> Option<u64> {
    let ram = kilobytes(machine, "MemTotal");
    let limit = memory::cgroup_limit(&machine.root);
    ram.into_iter().chain(limit).min()
}

/// A row of `/proc/meminfo`, in bytes.
fn kilobytes(machine: &Machine, name: &str) -> Option<u64> {
    let value = machine.value_of("proc/meminfo", name)?;
    Some(value.strip_suffix(" kB")?.parse::<u64>().ok()?.saturating_mul(1024))
}

fn limits(machine: &Machine) -> Finding {
    const TOPIC: &str = "memory";
    let Some(usable) = usable_bytes(machine) else {
        return Finding::missing(TOPIC, "its size is not known", "mount /proc");
    };
    let cache = format_size(memory::default_cache_bytes(usable));
    let found = |whose: &str| {
        let usable = format_size(usable);
        format!("{usable} {whose}, of which a mount's page cache takes up to {cache}")
    };
    match memory::cgroup_limit(&machine.root) {
        Some(limit) if limit < PLENTY_BYTES => Finding::slow(
            TOPIC,
            format!("{}; a daemon that takes more is killed", found("allowed by the cgroup")),
            "raise memory.max of the cgroup (of a unit of systemd: MemoryMax=), or choose a \
             smaller cache with `-o cache=`",
        ),
        Some(_) => Finding::ok(TOPIC, found("allowed by the cgroup")),
        None if usable < PLENTY_BYTES => {
            Finding::slow(TOPIC, found("in this machine"), "more memory")
        }
        None => Finding::ok(TOPIC, found("in this machine")),
    }
}

/// Rings count as locked memory of a program that may not lock any amount.
fn locked(machine: &Machine) -> Finding {
    const TOPIC: &str = "locked memory";
    let limits = machine.text("proc/self/limits").unwrap_or_default();
    let row = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = row.and_then(|row| row.split_whitespace().next()?.parse::<u64>().ok());
    let may_lock_all = machine.text("proc/self/status").is_some_and(|text| may_lock_all(&text));
    let Some(soft) = soft.filter(|_| !may_lock_all) else {
        return Finding::ok(TOPIC, "rings of io_uring have no limit");
    };
    let count = |list: &str| {
        let list = machine.text(format!("sys/devices/system/cpu/{list}"));
        usize::from(list.and_then(|list| count_cpus(&list)).unwrap_or(1))
    };
    let (online, possible) = (count("online"), count("possible"));
    let needed = locked_bytes(ring_workers(online, possible, workers_of_a_queue(online)));
    let (limit, wanted) = (format_size(soft), format_size(needed));
    if soft >= needed {
        return Finding::ok(TOPIC, format!("{limit} for rings of io_uring, which take {wanted}"));
    }
    Finding::slow(
        TOPIC,
        format!("{limit} for rings of io_uring, which take {wanted}: mounts use /dev/fuse"),
        "`ulimit -l unlimited` before the mount; for good a line `* - memlock unlimited` in \
         /etc/security/limits.conf, or LimitMEMLOCK=infinity in a unit of systemd",
    )
}

/// `/dev/shm`, where the page cache's file lies.
fn shared(machine: &Machine) -> Finding {
    const TOPIC: &str = "/dev/shm";
    let mounts = machine.mounts();
    let mount = mounts.iter().rfind(|mount| mount.mountpoint == Path::new(TOPIC));
    let in_memory = mount.is_some_and(|mount| mount.fs_type == "tmpfs");
    let Some(free) = machine.shm_free_bytes.filter(|_| in_memory) else {
        return Finding::missing(
            TOPIC,
            "is no tmpfs: the page cache has no place in memory that outlives the daemon",
            "`mount -t tmpfs tmpfs /dev/shm`, or another tmpfs with `-o cache_dir=`",
        );
    };
    let wanted = memory::default_cache_bytes(usable_bytes(machine).unwrap_or(0));
    let (free_text, wanted_text) = (format_size(free), format_size(wanted));
    if free >= wanted {
        return Finding::ok(TOPIC, format!("{free_text} free; a page cache wants {wanted_text}"));
    }
    Finding::slow(
        TOPIC,
        format!("{free_text} free, and a page cache wants {wanted_text}: it will be smaller"),
        "remove files from it, or `mount -o remount,size=75% /dev/shm`",
    )
}

/// Of a file in `/dev/shm`, the mount decides, unless the system forbids or forces huge pages for
/// all.
fn huge_pages(machine: &Machine) -> Finding {
    const TOPIC: &str = "huge pages";
    const FOR_ALL: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let Some(states) = machine.text(FOR_ALL) else {
        return Finding::slow(
            TOPIC,
            "the kernel has none for shared memory",
            "a kernel built with CONFIG_TRANSPARENT_HUGEPAGE",
        );
    };
    let state = states.split(['[', ']']).nth(1).unwrap_or_default();
    if state == "deny" {
        return Finding::slow(
            TOPIC,
            "the kernel denies them to all shared memory",
            format!("`echo never > {FOR_ALL}`, which leaves it to each mount"),
        );
    }
    let mounts = machine.mounts();
    let mount = mounts.iter().rfind(|mount| mount.mountpoint == Path::new("/dev/shm"));
    let of_mount = mount
        .and_then(|mount| mount.type_options.split(',').find_map(|it| it.strip_prefix("huge=")))
        .unwrap_or("never");
    match (state, of_mount) {
        ("force", _) => Finding::ok(TOPIC, "the kernel has all shared memory in huge pages"),
        (_, "always" | "within_size") => {
            Finding::ok(TOPIC, format!("/dev/shm has them (huge={of_mount})"))
        }
        _ => Finding::slow(
            TOPIC,
            format!("the page cache in /dev/shm has none (huge={of_mount})"),
            "`mount -o remount,huge=within_size /dev/shm` before the mount; for good the option \
             huge=within_size in a line of /etc/fstab for /dev/shm",
        ),
    }
}

/// Whether memory is refused although there is some.
fn promised(machine: &Machine) -> Finding {
    const TOPIC: &str = "overcommit";
    if machine.number("proc/sys/vm/overcommit_memory") != Some(2) {
        return Finding::ok(TOPIC, "the kernel refuses no memory that it has");
    }
    let limit = kilobytes(machine, "CommitLimit").unwrap_or(0);
    let left = limit.saturating_sub(kilobytes(machine, "Committed_AS").unwrap_or(0));
    let left_text = format_size(left);
    if left >= PLENTY_BYTES {
        return Finding::ok(TOPIC, format!("strict, with {left_text} left to promise"));
    }
    Finding::dangerous(
        TOPIC,
        format!("strict, with {left_text} left to promise: a daemon that is refused memory ends"),
        "`sysctl vm.overcommit_memory=0`, or a higher vm.overcommit_ratio",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::machine::made_up::MadeUp;
    use super::*;

    fn with_mounts(shm_options: &str) -> MadeUp {
        MadeUp::with(&[
            ("proc/meminfo", "MemTotal:       16777216 kB\n"),
            (
                "proc/self/mountinfo",
                &format!(
                    "30 1 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n\
                     31 1 0:26 / /dev/shm rw - tmpfs tmpfs rw,size=8388608k{shm_options}\n"
                ),
            ),
            ("proc/self/cgroup", "0::/a/b\n"),
        ])
    }

    #[test]
    fn the_cgroup_limits_before_the_machine_does() {
        let made_up = with_mounts("");
        let machine = limits(&made_up.machine);
        assert_eq!(
            machine,
            Finding::ok(
                "memory",
                "16 GiB in this machine, of which a mount's page cache takes up to 2 GiB"
            )
        );
        made_up.set("sys/fs/cgroup/a/memory.high", "8589934592\n");
        let roomy = limits(&made_up.machine);
        assert!(roomy.verdict == Verdict::Ok && roomy.found.contains("8 GiB allowed"), "{roomy:?}");
        made_up.set("sys/fs/cgroup/a/b/memory.max", "268435456\n");
        let tight = limits(&made_up.machine);
        assert_eq!(tight.verdict, Verdict::Slow);
        assert!(tight.found.contains("256 MiB") && tight.found.contains("killed"), "{tight:?}");
        assert!(tight.remedy.unwrap().contains("memory.max"));
        made_up.set("proc/meminfo", "");
        made_up.set("proc/self/cgroup", "");
        assert_eq!(limits(&made_up.machine).verdict, Verdict::Missing);
    }

    #[test]
    fn rings_of_users_count_as_locked() {
        let limits =
            |soft: &str| format!("Limit  Soft  Hard\nMax locked memory {soft}  {soft}  bytes\n");
        let made_up = MadeUp::with(&[
            ("proc/self/limits", &limits("65536")),
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("sys/devices/system/cpu/possible", "0-7\n"),
        ]);
        let user = made_up.machine.clone();
        assert_eq!(locked(&user).verdict, Verdict::Ok, "root has no limit");
        made_up.set("proc/self/status", "CapEff:\t0000000000000000\n");
        let tight = locked(&user);
        assert_eq!(tight.verdict, Verdict::Slow);
        assert!(tight.found.contains("64 KiB") && tight.found.contains("2 MiB"), "{tight:?}");
        for soft in ["8388608", "unlimited"] {
            made_up.set("proc/self/limits", &limits(soft));
            assert_eq!(locked(&user).verdict, Verdict::Ok, "{soft}");
        }
    }

    #[test]
    fn shared_memory_must_hold_the_page_cache() {
        let made_up = with_mounts("");
        assert_eq!(shared(&made_up.machine).verdict, Verdict::Ok);
        let full = Machine { shm_free_bytes: Some(64 << 20), ..made_up.machine.clone() };
        let full = shared(&full);
        assert_eq!(full.verdict, Verdict::Slow);
        assert!(full.found.contains("64 MiB free") && full.found.contains("2 GiB"), "{full:?}");
        made_up.set("proc/self/mountinfo", "31 1 8:1 / /dev/shm rw - ext4 /dev/sda1 rw\n");
        assert_eq!(shared(&made_up.machine).verdict, Verdict::Missing);
    }

    #[test]
    fn the_mount_decides_on_huge_pages_unless_the_system_does() {
        const FOR_ALL: &str = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
        let (plain, huge) = (with_mounts(""), with_mounts(",huge=within_size"));
        assert!(huge_pages(&plain.machine).remedy.unwrap().contains("CONFIG_TRANSPARENT"));
        for (state, plain_is, huge_is) in [
            ("always within_size advise [never] deny force", Verdict::Slow, Verdict::Ok),
            ("[always] within_size advise never deny force", Verdict::Slow, Verdict::Ok),
            ("always within_size advise never [deny] force", Verdict::Slow, Verdict::Slow),
            ("always within_size advise never deny [force]", Verdict::Ok, Verdict::Ok),
        ] {
            [&plain, &huge].iter().for_each(|made_up| made_up.set(FOR_ALL, state));
            let verdicts = [&plain, &huge].map(|made_up| huge_pages(&made_up.machine).verdict);
            assert_eq!(verdicts, [plain_is, huge_is], "{state}");
        }
    }

    #[test]
    fn strict_accounting_needs_room() {
        let made_up = MadeUp::with(&[("proc/sys/vm/overcommit_memory", "0\n")]);
        assert_eq!(promised(&made_up.machine).verdict, Verdict::Ok);
        made_up.set("proc/sys/vm/overcommit_memory", "2\n");
        made_up.set("proc/meminfo", "CommitLimit: 9000000 kB\nCommitted_AS: 8900000 kB\n");
        let tight = promised(&made_up.machine);
        assert!(tight.verdict == Verdict::Unsafe && tight.found.contains("97.7 MiB"), "{tight:?}");
        made_up.set("proc/meminfo", "CommitLimit: 9000000 kB\nCommitted_AS: 100 kB\n");
        assert_eq!(promised(&made_up.machine).verdict, Verdict::Ok);
    }
}
