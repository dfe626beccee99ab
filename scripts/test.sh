#!/bin/sh
# Checks everything: lints, `make run`, models of what threads share, the tests of each crate, unmodified programs on
# real mounts, the Java part. With TERRACE_LONG set, tests that take a sample take all. All stages run even if an
# earlier one fails. At the end stand how long each stage took, and the test runners' closing lines of those that failed
# once more.
#
# Tests of mounts wait for half of their time, and the Java part uses no mount: it goes on beside them.
set -u
cd "$(dirname "$0")/.." || exit

target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/test-logs
mkdir -p "$logs" && rm -rf "$logs"/* "$logs"/.[a-z]* || exit

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
    echo "test: $1: $((now - began)) s" | tee -a "$logs/.seconds" >&2
    began=$now
}

failed='' first_status=0
# Notes the stage $1, whose log is $logs/$1, as failed if its status $2 says so.
note() {
    [ "$2" != 0 ] || return 0
    [ $first_status != 0 ] || first_status=$2
    failed="$failed$1
"
    echo "test: the stage '$1' failed; going on with the next" >&2
}

# Runs a stage: its name, then its command. The output goes to the terminal and to the stage's log.
stage() {
    stage_name=$1
    shift
    rm -f "$logs/.status"
    { "$@" 2>&1; echo $? >"$logs/.status"; } | tee "$logs/$stage_name"
    note "$stage_name" "$(cat "$logs/.status" || echo 1)"
    ended "$stage_name"
}

# Runs the named tests of unmodified programs, without stopping at one that fails.
programs() {
    tests=''
    for test in "$@"; do tests="$tests --test $test"; done
    # shellcheck disable=SC2086 # a list
    cargo test --package terrace-proof --locked --no-fail-fast $tests
}

scripts/setup.sh test || exit
ended "what was missing"

stage lints make --no-print-directory --keep-going lint

# The programs under test run as users run them: optimized.
cargo build --release --locked --package terrace --package terrace-preload --package terrace-c || exit
export TERRACE_BIN="$target/release/terrace" TERRACE_TOOLS="$PWD/target/tools/bin"
ended "optimized build"

# The README's first command, as a newcomer types it.
stage "make run" make --no-print-directory run

echo "test: the Java part has begun; its output, in $logs/objects meanwhile, follows later" >&2
setsid make --no-print-directory test-objects >"$logs/objects" 2>&1 &
objects=$!

stage "models of threads" scripts/schedules.sh

# Root can run every test, so none may be skipped; other users skip those that need root.
[ "$(id -u)" != 0 ] || export TERRACE_PROOF_REQUIRE=1
stage "all tests" cargo test --workspace --locked --no-fail-fast

# A stage runs in a shell of its own, so the variables that it exports end with it.

# Programs once more, while their daemon is killed every half second on average: they must not notice.
killed() {
    export TERRACE_PROOF_KILLS=500
    programs fsx git mariadb rocksdb sqlite tar ${TERRACE_LONG:+fio}
}
stage "daemons that are killed" killed

# Programs once more, directly: each test program is run by `terrace run`, on mounts that lend files.
direct() {
    export TERRACE_PROOF_DIRECT=1 CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$TERRACE_BIN run --"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$TERRACE_BIN run --"
    programs differential fsx mariadb rocksdb sqlite ${TERRACE_LONG:+async_direct fio git make tar}
}
stage "direct programs" direct

# Tests that go through a mount once more, with messages over io_uring. With TERRACE_LONG these are all of terrace-proof
# but those that read documents and sources.
ring() {
    export TERRACE_PROOF_TRANSPORT=io_uring
    if [ -n "${TERRACE_LONG:-}" ]; then
        # shellcheck disable=SC2046 # a list
        programs $(cd proof/terrace-proof/tests && ls | sed 's/\.rs$//' | grep -vx 'docs\|dependencies')
    else
        programs fsx git interrupts keeper pjdfstest scarce semantics sqlite tar
    fi
}
ring_killed() {
    export TERRACE_PROOF_TRANSPORT=io_uring TERRACE_PROOF_KILLS=500
    programs fsx git sqlite
}
if [ ! -e $switch ]; then
    echo "test: SKIPPED the outer proof over io_uring: this kernel has no FUSE over io_uring" >&2
elif [ "$(id -u)" != 0 ]; then
    echo "test: SKIPPED the outer proof over io_uring: only root switches it on" >&2
else
    switch_before=$(cat $switch)
    echo Y >$switch
    stage "messages over io_uring" ring
    stage "messages over io_uring, daemons that are killed" ring_killed
    echo "$switch_before" >$switch
    switch_before=''
fi

wait "$objects"
java=$?
objects=''
cat "$logs/objects"
note objects $java
ended "waiting for the Java part"

cat "$logs/.seconds"
if [ $first_status = 0 ]; then
    tail -n 5 "$logs/objects"
fi
# The last lines of a stage that failed might be far above.
printf %s "$failed" | while read -r stage; do
    echo "test: the stage '$stage' failed; its tests that failed, and its last lines:"
    grep -E '^test .* FAILED$|^\[ERROR\]' "$logs/$stage" | tail -n 40
    tail -n 15 "$logs/$stage"
done
exit $first_status
