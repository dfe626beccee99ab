#!/bin/sh
# Runs the command line of the Java library, and builds it first if it is not there: `terrace-objects.sh check POOL`.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
jar=$root/java/tools/target/terrace-objects.jar
[ -f "$jar" ] || "$root/scripts/java.sh" --quiet package -DskipTests --projects tools --also-make >&2
# What is short starts sooner without the second compiler; what measures, and what takes long, is to be as fast as
# programs are.
case "${1:-}" in
probe | export) compiler= ;;
*) compiler=-XX:TieredStopAtLevel=1 ;;
esac
# Java warns of the memory that exports use, unless it is allowed.
# shellcheck disable=SC2086
exec "$("$root/scripts/java.sh" --home)/bin/java" -XX:+UseSerialGC $compiler --sun-misc-unsafe-memory-access=allow \
    -jar "$jar" "$@"
