//! How much memory the daemon may use: what the machine has, and what the cgroups that it is in
//! allow.
//!
//! The page cache's file in shared memory counts for the cgroup of the daemon that wrote it, and
//! the kernel kills a daemon that takes more than its cgroup may.

use std::fs;
use std::path::{Path, PathBuf};

use crate::size::format_size;

const CACHE_BYTES_MIN: u64 = 8 << 20;
const CACHE_BYTES_MAX: u64 = 8 << 30;

/// Memory for the page cache: an eighth of what may be used if none was `chosen`, at least 8 MiB,
/// at most 8 GiB. More than half of what the cgroup allows is never taken, with a word about it.
pub fn cache_bytes(chosen: Option<u64>) -> u64 {
    let limit = cgroup_limit(Path::new("/"));
    let Some(chosen) = chosen else {
        return default_cache_bytes(usable_bytes());
    };
    match limit.map(|limit| (limit, (limit / 2).max(CACHE_BYTES_MIN))) {
        Some((limit, most)) if chosen > most => {
            let [chosen, limit, given] = [chosen, limit, most].map(format_size);
            tracing::warn!(
                "cache={chosen}: the daemon's cgroup allows {limit} of memory: the page cache \
                 gets {given}; choose a smaller cache, or raise memory.max"
            );
            most
        }
        _ => chosen,
    }
}

/// Memory for the page cache where so much may be used, and nothing else was chosen.
pub fn default_cache_bytes(usable: u64) -> u64 {
    (usable / 8).clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX)
}

/// The memory of the machine, or less if the cgroup allows less.
pub fn usable_bytes() -> u64 {
    cgroup_limit(Path::new("/")).unwrap_or(u64::MAX).min(ram_bytes())
}

fn ram_bytes() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let (pages, page_bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page_bytes).unwrap_or(0))
}

/// The least that a cgroup of this process, or one that contains it, allows; `None`: no limit is
/// known. The machine's files are below `root`.
pub fn cgroup_limit(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    limit(root, &read("proc/self/cgroup"), &read("proc/self/mountinfo"))
}

/// The same, from the contents of these two files.
fn limit(root: &Path, cgroups: &str, mounts: &str) -> Option<u64> {
    let version_1 = |cgroup: &Cgroup<'_>| {
        cgroup.controllers.split(',').any(|controller| controller == "memory")
    };
    let version_2 = |cgroup: &Cgroup<'_>| cgroup.hierarchy == "0";
    let cgroups: Vec<Cgroup<'_>> = cgroups.lines().filter_map(Cgroup::parse).collect();
    let hierarchies = [
        (cgroups.iter().find(|cgroup| version_1(cgroup)), "cgroup", &["memory.limit_in_bytes"][..]),
        (
            cgroups.iter().find(|cgroup| version_2(cgroup)),
            "cgroup2",
            &["memory.max", "memory.high"][..],
        ),
    ];
    let limits = hierarchies.into_iter().filter_map(|(cgroup, kind, files)| {
        let mount =
            mounts.lines().filter_map(CgroupMount::parse).find(|mount| mount.is_of_memory(kind))?;
        let dirs = mount.directories_of(root, cgroup?.path);
        dirs.iter().flat_map(|dir| files.iter().filter_map(|file| bytes_in(&dir.join(file)))).min()
    });
    limits.min()
}

/// A number in a file. The word "max", or version 1's number for it, is no limit.
fn bytes_in(path: &Path) -> Option<u64> {
    let bytes = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (bytes < 1 << 60).then_some(bytes)
}

/// A line of /proc/self/cgroup.
struct Cgroup<'a> {
    hierarchy: &'a str,
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Cgroup<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        Some(Self { hierarchy: fields.next()?, controllers: fields.next()?, path: fields.next()? })
    }
}

/// A line of /proc/self/mountinfo.
struct CgroupMount<'a> {
    /// The cgroup that is seen at the mount point: not the topmost one in a container.
    root: &'a str,
    mountpoint: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, source) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut source = source.split(' ');
        let (root, mountpoint) = (mount.next()?, mount.next()?);
        Some(Self { root, mountpoint, kind: source.next()?, options: source.nth(1)? })
    }

    fn is_of_memory(&self, kind: &str) -> bool {
        let memory = self.options.split(',').any(|option| option == "memory");
        self.kind == kind && (kind == "cgroup2" || memory)
    }

    /// The directories of a cgroup and of those that contain it, as far as they can be seen.
    fn directories_of(&self, root: &Path, cgroup: &str) -> Vec<PathBuf> {
        // A cgroup beyond the mount's root is seen as the root itself.
        let below =
            Path::new(cgroup).strip_prefix(self.root).ok().filter(|below| !below.starts_with(".."));
        let top = root.join(self.mountpoint.trim_start_matches('/'));
        below.unwrap_or(Path::new("")).ancestors().map(|dir| top.join(dir)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount of cgroups with these files, and what is found there for the process's cgroup.
    fn found(files: &[(&str, &str)], cgroups: &str, root: &str, kind: &str) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        for (path, contents) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let mountpoint = dir.path().display();
        let mounts = format!(
            "23 1 0:21 / /proc rw shared:5 - proc proc rw\n\
             34 31 0:31 / /cpu rw - cgroup cgroup rw,cpu\n\
             35 31 0:32 {root} {mountpoint} rw,relatime shared:1 master:2 - {kind}\n"
        );
        limit(Path::new("/"), cgroups, &mounts)
    }

    const V1: &str = "cgroup cgroup rw,memory";
    const V2: &str = "cgroup2 none rw,nsdelegate";

    #[test]
    fn version_1_nested() {
        let files = [
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("a/memory.limit_in_bytes", "268435456\n"),
            ("a/b/memory.limit_in_bytes", "536870912\n"),
        ];
        let cgroups = |path: &str| format!("5:cpu:/x\n4:memory:{path}\n0::/x\n");
        assert_eq!(found(&files, &cgroups("/a/b"), "/", V1), Some(256 << 20));
        assert_eq!(found(&files, &cgroups("/"), "/", V1), None);
        assert_eq!(found(&files[..1], &cgroups("/not/there"), "/", V1), None);
    }

    #[test]
    fn version_2_nested() {
        let files = [
            ("a/memory.max", "1073741824\n"),
            ("a/memory.high", "max\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.high", "134217728\n"),
        ];
        assert_eq!(found(&files, "0::/a/b\n", "/", V2), Some(128 << 20));
        assert_eq!(found(&files, "0::/a\n", "/", V2), Some(1 << 30));
        assert_eq!(found(&files, "0::/\n", "/", V2), None);
    }

    #[test]
    fn a_container_sees_its_own_cgroup_as_the_root() {
        let files = [("memory.max", "67108864\n")];
        // With the host's path, with a path of its own namespace, and with one beyond it.
        assert_eq!(found(&files, "0::/docker/1234\n", "/docker/1234", V2), Some(64 << 20));
        assert_eq!(found(&files, "0::/\n", "/", V2), Some(64 << 20));
        assert_eq!(found(&files, "0::/../other\n", "/docker/1234", V2), Some(64 << 20));
        assert_eq!(found(&files, "0::/../other\n", "/", V2), Some(64 << 20));
        assert_eq!(
            found(&[("memory.limit_in_bytes", "64")], "4:cpu,memory:/d\n", "/d", V1),
            Some(64)
        );
    }

    #[test]
    fn nothing_known_is_no_limit() {
        assert_eq!(limit(Path::new("/"), "", ""), None);
        assert_eq!(
            limit(Path::new("/"), "garbage\n0::/a\n4:memory:/b", "garbage\n35 31 - cgroup2"),
            None
        );
        assert_eq!(found(&[("memory.max", "plenty")], "0::/\n", "/", V2), None);
    }
}
