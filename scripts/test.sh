#!/bin/sh
# Checks everything: lints, `make run`, models of what threads share, the tests of each crate, unmodified programs on
# real mounts, the Java part. With TERRACE_LONG set, tests that take a sample take all. All stages run even if an
# earlier one fails. The last lines are the test runners' own.
#
# Tests of mounts wait for half of their time, and the Java part uses no mount: it goes on beside them.
set -u
cd "$(dirname "$0")/.." || exit

# The kernel's switch is restored and the Java part ended, also after Ctrl-C.
switch=/sys/module/fuse/parameters/enable_uring
switch_before='' objects=''
clean_up() {
    [ -z "$switch_before" ] || echo "$switch_before" >$switch
    [ -z "$objects" ] || kill -- -"$objects" 2>/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

began=$(date +%s)
# Says how long a stage took: stages that grow are seen before the whole takes too long.
ended() {
    now=$(date +%s)
    echo "test: $1: $((now - began)) s" >&2
    began=$now
}

scripts/setup.sh test || exit
ended "what was missing"

make --no-print-directory --keep-going lint
lint=$?
[ $lint = 0 ] || echo "test: the lints above failed; going on with the tests" >&2
ended lints

# The programs under test run as users run them: optimized.
cargo build --release --locked --package terrace --package terrace-preload --package terrace-c || exit
target=${CARGO_TARGET_DIR:-$PWD/target}
export TERRACE_BIN="$target/release/terrace" TERRACE_TOOLS="$PWD/target/tools/bin"
ended "optimized build"

# The README's first command, as a newcomer types it.
make --no-print-directory run
run=$?
[ $run = 0 ] || echo "test: \`make run\` failed; going on with the tests" >&2
ended "make run"

objects_log=$target/test-objects.log
echo "test: the Java part has begun; its output, in $objects_log meanwhile, follows at the end" >&2
setsid make --no-print-directory test-objects >"$objects_log" 2>&1 &
objects=$!

scripts/schedules.sh
schedules=$?
ended "models of threads"

# Root can run every test, so none may be skipped; other users skip those that need root.
[ "$(id -u)" != 0 ] || export TERRACE_PROOF_REQUIRE=1
cargo test --workspace --locked --no-fail-fast
tests=$?
[ $tests = 0 ] && [ $schedules = 0 ] || echo "test: tests above failed; going on with daemons that are killed" >&2
ended "all tests"

# Programs once more, while their daemon is killed every half second on average: they must not notice.
export TERRACE_PROOF_KILLS=500
programs="--test fsx --test git --test mariadb --test rocksdb --test sqlite --test tar"
[ -z "${TERRACE_LONG:-}" ] || programs="$programs --test fio"
# shellcheck disable=SC2086 # a list
cargo test --package terrace-proof --locked --no-fail-fast $programs
kills=$?
unset TERRACE_PROOF_KILLS
[ $kills = 0 ] || echo "test: tests whose daemon is killed failed; going on with direct programs" >&2
ended "daemons that are killed"

# Programs once more, directly: each test program is run by `terrace run`, on mounts that lend files.
programs="--test differential --test fsx --test mariadb --test rocksdb --test sqlite"
[ -z "${TERRACE_LONG:-}" ] || programs="$programs --test async_direct --test fio --test git --test make --test tar"
# shellcheck disable=SC2086 # a list
TERRACE_PROOF_DIRECT=1 CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$TERRACE_BIN run --" \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$TERRACE_BIN run --" \
    cargo test --package terrace-proof --locked --no-fail-fast $programs
direct=$?
[ $direct = 0 ] || echo "test: tests of direct programs failed; going on with those over io_uring" >&2
ended "direct programs"

# Tests that go through a mount once more, with messages over io_uring. With TERRACE_LONG these are all of terrace-proof
# but those that read documents and sources.
ring=0
if [ ! -e $switch ]; then
    echo "test: SKIPPED the outer proof over io_uring: this kernel has no FUSE over io_uring" >&2
elif [ "$(id -u)" != 0 ]; then
    echo "test: SKIPPED the outer proof over io_uring: only root switches it on" >&2
else
    switch_before=$(cat $switch)
    echo Y >$switch
    programs="--test fsx --test git --test interrupts --test keeper --test pjdfstest --test scarce"
    programs="$programs --test semantics --test sqlite --test tar"
    if [ -n "${TERRACE_LONG:-}" ]; then
        programs=$(cd proof/terrace-proof/tests && ls | sed 's/\.rs$//' | grep -vx 'docs\|dependencies' |
            sed 's/^/--test /')
    fi
    # shellcheck disable=SC2086 # a list
    TERRACE_PROOF_TRANSPORT=io_uring cargo test --package terrace-proof --locked --no-fail-fast $programs
    ring=$?
    programs="--test fsx --test git --test sqlite"
    # shellcheck disable=SC2086 # a list
    TERRACE_PROOF_KILLS=500 TERRACE_PROOF_TRANSPORT=io_uring \
        cargo test --package terrace-proof --locked --no-fail-fast $programs || ring=$?
    echo "$switch_before" >$switch
    switch_before=''
fi
[ $ring = 0 ] || echo "test: tests over io_uring failed; the Java part follows" >&2
ended "messages over io_uring"

wait "$objects"
java=$?
ended "waiting for the Java part"
objects=''
cat "$objects_log"

for status in $tests $kills $direct $ring $schedules $run $java $lint; do
    [ "$status" = 0 ] || exit "$status"
done
