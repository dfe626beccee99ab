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

targets=${TARGET:-$(cargo +nightly fuzz list --fuzz-dir proof/fuzz)}
cargo run --quiet --locked --package terrace-damage --example seeds -- proof/fuzz/corpus
for target in $targets; do
    echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
    # The decoders run under AddressSanitizer. Whole volumes do not: their unsafe code stands in terrace-media and
    # checks its bounds, and without the sanitizer they are opened ten times as often. Nothing looks for leaks,
    # because that needs ptrace, which containers forbid.
    sanitizer=address
    [ "$target" != recover ] || sanitizer=none
    cargo +nightly fuzz run --fuzz-dir proof/fuzz --sanitizer "$sanitizer" --debug-assertions "$target" -- \
        -detect_leaks=0 -max_total_time="${FUZZ_SECONDS:-60}" -timeout=60 -rss_limit_mb=2048 -max_len=8192 \
        -print_final_stats=1
done
