#!/bin/bash
# Sets up a machine of its own for the commands of the docs, in the mount, pid and network namespaces that it is
# started in, and stays until it is killed: `stage.sh SCRATCH REPOSITORY`. The commands run as they are printed. So
# everything that they name is there, and is nobody else's: /dev with files for devices, /mnt, /data, /pmem, /etc, /run,
# /var/lib, /var/log, an /sbin that takes links, and an /opt where `cargo install` puts programs. SCRATCH has the
# folders data, opt and tmp. Prints "ready PID" when it is done.
set -euo pipefail
scratch=$1 repository=$2
root=$scratch/root
mkdir "$root"
mount -t tmpfs -o mode=755,size=64M stage "$root"
cd "$root"

bind() { # FROM [TO]: the host's directory or file, at the same place
    to=$root${2:-$1}
    if [ -d "$1" ]; then mkdir -p "$to"; else mkdir -p "$(dirname "$to")" && : >"$to"; fi
    mount --rbind "$1" "$to"
}

# Programs, and the repository at its place, as cargo's fingerprints want it.
for link in /bin /lib /lib64; do [ ! -e $link ] || cp -a $link .; done
ln -s usr/sbin sbin
bind /usr
bind /usr/sbin /host-sbin
mount -t tmpfs -o mode=755 sbin usr/sbin
ln -s /host-sbin/* usr/sbin/
bind "$HOME"
bind "$repository"
[ -z "${CARGO_TARGET_DIR:-}" ] || bind "$CARGO_TARGET_DIR"
bind "$scratch/opt" /opt
bind "$scratch/data" /data
bind "$scratch/tmp" /tmp
cp -a /etc .
ln -sf /proc/self/mounts etc/mtab
: >etc/fstab

# Places of the system.
mkdir -p dev mnt pmem proc run sys var/lib/terrace var/log var/tmp
chmod 1777 tmp var/tmp
mount -t tmpfs -o size=64M pmem pmem
mount -t proc proc proc
mount --rbind /sys sys

# Devices: what programs need, and files of a test's size under the names of disks and persistent memory.
mount -t tmpfs -o mode=755,size=256M dev dev
for node in null zero full random urandom tty fuse; do bind /dev/$node; done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777,size=512M shm dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
truncate --size 16M dev/dax0.0 pmem/vol
truncate --size 300M dev/nvme1n1 dev/nvme2n1 dev/sdb

# An address that is not the loopback interface's own.
ip link set lo up
ip address add 192.0.2.7/32 dev lo

# By the host's /proc, so that processes of other namespaces find it.
read -r pid _ </proc/self/stat
exec chroot . /bin/bash -c "echo ready $pid; while :; do sleep infinity & wait; done"
