#!/bin/sh
# Shows durable objects in Java: people whose fields lie in (emulated) persistent memory and on a disk. Leaves nothing
# behind.
set -eu
cd "$(dirname "$0")/.."
people=100000
moves=20000

home=$(scripts/java.sh --home)
echo "Building the example ..."
scripts/java.sh --quiet package -DskipTests --projects example --also-make

disk=$(mktemp -d -p /var/tmp)
# On a machine without /dev/shm the disk stands in for persistent memory.
pmem=$(mktemp -d -p /dev/shm terrace-people.XXXXXX 2>/dev/null) || pmem=$disk/pmem
trap 'rm -rf "$disk" "$pmem"' EXIT
trap 'exit 130' INT TERM
[ "$pmem" != "$disk/pmem" ] || moves=1000 # on a disk each takes milliseconds
"$home/bin/java" -cp java/objects/target/classes:java/example/target/classes dev.terrace.example.People \
    "$pmem" "$disk" $people $moves
