#!/bin/sh
# Runs the command line of the Java library, and builds it first if it is not there: `terrace-objects.sh check POOL`.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
jar=$root/java/tools/target/terrace-objects.jar
[ -f "$jar" ] || "$root/scripts/java.sh" --quiet package -DskipTests --projects tools --also-make >&2
# What is short starts sooner without the second compiler; what measures is to be as fast as programs are.
[ "${1:-}" = probe ] && compiler= || compiler=-XX:TieredStopAtLevel=1
# shellcheck disable=SC2086
exec "$("$root/scripts/java.sh" --home)/bin/java" -XX:+UseSerialGC $compiler -jar "$jar" "$@"
