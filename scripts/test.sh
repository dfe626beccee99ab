#!/bin/sh
# Checks everything: lints, models of what threads share, `make run`, the tests of each crate, unmodified programs on
# real mounts, the Java part. With TERRACE_LONG set, tests that take a sample take all. All stages run even if an
# earlier one fails. The last lines are the test runners' own.
set -u
cd "$(dirname "$0")/.." || exit

scripts/setup.sh test || exit

make --no-print-directory --keep-going lint
lint=$?
[ $lint = 0 ] || echo "test: the lints above failed; going on with the tests" >&2

scripts/schedules.sh
schedules=$?

# The programs under test run as users run them: optimized.
cargo build --release --locked --package terrace || exit
target=${CARGO_TARGET_DIR:-$PWD/target}
export TERRACE_BIN="$target/release/terrace" TERRACE_TOOLS="$PWD/target/tools/bin"

# The README's first command, as a newcomer types it.
make --no-print-directory run
run=$?
[ $run = 0 ] || echo "test: \`make run\` failed; going on with the tests" >&2

# Root can run every test, so none may be skipped; other users skip those that need root.
[ "$(id -u)" != 0 ] || export TERRACE_PROOF_REQUIRE=1
cargo test --workspace --locked --no-fail-fast
tests=$?
[ $tests = 0 ] && [ $schedules = 0 ] || echo "test: tests above failed; going on with the Java part" >&2

make --no-print-directory test-objects
java=$?

for status in $tests $schedules $run $java $lint; do
    [ "$status" = 0 ] || exit "$status"
done
