#!/bin/sh
# Fuzzes with coverage: TARGET (default: all, one after the other) for FUZZ_SECONDS each (default: 60).
set -eu
cd "$(dirname "$0")/.."

lacking() {
    echo "fuzz: $1; install it with: $2" >&2
    exit 1
}

cargo fuzz --version >/dev/null 2>&1 || lacking "there is no cargo-fuzz" "cargo install cargo-fuzz"
cargo +nightly --version >/dev/null 2>&1 || lacking "there is no nightly compiler" "rustup toolchain install nightly"

targets=${TARGET:-$(cargo +nightly fuzz list)}
cargo run --quiet --locked --package terrace-damage --example seeds -- fuzz/corpus
for target in $targets; do
    echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
    cargo +nightly fuzz run --debug-assertions "$target" -- \
        -max_total_time="${FUZZ_SECONDS:-60}" -timeout=20 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1
done
