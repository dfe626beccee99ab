#!/bin/sh
# Shows Terrace at work: a volume on a little (emulated) persistent memory and a larger disk, used by
# programs that know nothing of it; then durable objects in Java. Leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."
repository=$PWD

scripts/setup.sh run
echo "Building Terrace ..."
cargo build --quiet --release --locked --package terrace --package terrace-preload
PATH=${CARGO_TARGET_DIR:-$PWD/target}/release:$PATH

work=$(mktemp -d -p /var/tmp)
mnt=$work/mnt
pm=/dev/shm/terrace-demo.$$
mounted=no

clean_up() {
    status=$?
    trap - EXIT INT TERM
    cd /
    [ $mounted = no ] || terrace umount "$mnt" || fusermount3 -u -z "$mnt"
    rm -rf "$work" "$pm"
    rmdir "/dev/shm/terrace-$(id -u)" 2>/dev/null || true # the page cache's, empty unless others use it
    [ $status = 0 ] || echo "The demonstration failed (exit status $status)." >&2
    exit $status
}
trap clean_up EXIT
trap 'exit 130' INT TERM

step() {
    printf '\n==> %s\n' "$*"
}

# Further arguments are further options.
mount_volume() {
    terrace --quiet mount "$pm" "$mnt" --log "$work/terrace.log" "$@"
    mounted=yes
}

unmount_volume() {
    terrace umount "$mnt"
    mounted=no
}

# Commits 1000 small transactions with full synchronisation to a new database and prints how many fit in a second.
# Arguments behind it are a command that runs SQLite.
commits_per_second() {
    database=$1
    shift
    {
        echo "PRAGMA synchronous = FULL; CREATE TABLE event(id INTEGER PRIMARY KEY, what TEXT);"
        for number in $(seq 1000); do
            echo "INSERT INTO event(what) VALUES('event $number');"
        done
    } >"$work/events.sql"
    start=$(date +%s%N)
    "$@" sqlite3 "$database" <"$work/events.sql" >/dev/null
    end=$(date +%s%N)
    [ "$(sqlite3 "$database" 'PRAGMA integrity_check; SELECT COUNT(*) FROM event;' | tr '\n' ' ')" = "ok 1000 " ]
    echo $((1000000000000 / (end - start)))
}

step "A volume: 256 MiB of persistent memory (PM) over a 2 GiB disk"
if [ "$(df --output=avail /dev/shm | tail -n 1)" -lt $((300 * 1024)) ]; then
    pm=$work/pm
    echo "/dev/shm is too small, so the PM device is a file on disk: durable, but slow."
else
    echo "There may be no PM here, so a file in /dev/shm stands in for it: as fast, but lost at reboot"
    echo "('terrace save' and 'terrace restore' carry it across one). The disk is a file, too."
fi
mkdir "$mnt"
terrace --quiet format --pm "$pm:256M" --disk "$work/disk.img:2G"
mount_volume

step "Git and a compiler: clone this repository into it, check the clone, build two crates there"
if git -C "$repository" rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory='*' clone --quiet --no-hardlinks "file://$repository" "$mnt/source"
else
    mkdir "$mnt/source"
    tar -c --exclude=./target . | tar -x -C "$mnt/source"
    git -C "$mnt/source" init --quiet
fi
git -C "$mnt/source" fsck --full --strict --no-progress
(cd "$mnt/source" && CARGO_TARGET_DIR=$mnt/target \
    cargo build --quiet --offline --package terrace-policy --package terrace-layout)
echo "$(find "$mnt" -type f | wc -l) files, $(du -sh --apparent-size "$mnt" | cut -f1) in the volume"

step "SQLite: 1000 commits, each with fsync; then by 'terrace run', which reads and writes PM without system calls"
rate=$(commits_per_second "$work/demo.db")
echo "on the disk below:  $rate commits per second"
rate=$(commits_per_second "$mnt/demo.db")
echo "on Terrace:         $rate commits per second"
unmount_volume
if mount_volume -o lend=owner 2>"$work/no-loans"; then
    rate=$(commits_per_second "$mnt/direct.db" terrace run --report="$work/report" --)
    echo "with 'terrace run': $rate commits per second"
    grep direct.db "$work/report"
else
    echo "with 'terrace run': not here: $(cat "$work/no-loans")"
    mount_volume
fi

step "A file twice as large as PM lies on both tiers"
dd if=/dev/urandom of="$work/large" bs=1M count=512 iflag=fullblock status=none
cp "$work/large" "$mnt/large"
terrace sync "$mnt"
terrace where "$mnt/large" | sed -n 1p
echo
terrace status "$mnt"

step "Unmount, check, mount again: is everything still there?"
unmount_volume
terrace --quiet check "$pm"
mount_volume
cmp "$work/large" "$mnt/large"
git -C "$mnt/source" fsck --full --strict --no-progress
[ "$(sqlite3 "$mnt/demo.db" 'SELECT COUNT(*) FROM event')" = 1000 ]
echo "yes: 512 MiB, byte for byte, a sound repository, 1000 rows"
unmount_volume

step "Objects in Java, with fields on both tiers"
"$repository/scripts/run-objects.sh"

step "Done, and cleaned up. 'terrace --help' and README.md tell more."
