#!/bin/sh
# Runs the models of what threads share under thousands of schedules each (crates/terrace-engine/src/schedules says
# how to choose them). Arguments are names of tests. The build has a directory of its own: all of the engine's locks
# and atomics are others there.
set -u
cd "$(dirname "$0")/.." || exit

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/shuttle" RUSTFLAGS="--cfg shuttle -D warnings"
# Planted bugs panic by the hundred.
export RUST_BACKTRACE=0
exec cargo test --locked --package terrace-engine --lib "schedules::${1:-}"
