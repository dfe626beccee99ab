# The two commands a newcomer needs: `make run` shows Terrace at work, `make test` checks everything.

CARGO ?= cargo

.PHONY: help run test schedules crash-long bench fuzz lint fmt clean

help:
	@echo "make run    mount a volume, use it with real programs, and clean up (under a minute)"
	@echo "make test   lints, unit and integration tests, then real programs on real mounts"
	@echo "make schedules  only the models of what threads share, under many schedules; ARGS='names::' runs some"
	@echo "make crash-long  200 kills and power cuts under load, then crash states for a night: ROUNDS=200 HOURS=8 SEED=1"
	@echo "make bench  benchmarks, each beside its baseline; ARGS='--filter read' measures some of them"
	@echo "make fuzz   fuzzers on every decoder and on recovery; TARGET=recover FUZZ_SECONDS=600 for one of them"
	@echo "make lint   formatting, clippy and documentation, with warnings as errors"
	@echo "make fmt    format the code"
	@echo "make clean  remove what was built, test tools included"

run:
	@scripts/run.sh

test:
	@scripts/test.sh

schedules:
	@scripts/schedules.sh $(ARGS)

# SIGKILL and power cuts under load, 200 rounds of each kind, then crash states for HOURS.
crash-long:
	$(CARGO) build --release --locked --package terrace
	TERRACE_BIN="$${CARGO_TARGET_DIR:-$(CURDIR)/target}/release/terrace" TERRACE_KILL_ROUNDS=$(or $(ROUNDS),200) \
		$(CARGO) test --locked --package terrace-proof --test kill -- --nocapture
	$(CARGO) run --release --locked --package terrace-crash -- --hours $(or $(HOURS),8) --seed $(or $(SEED),1) $(ARGS)

bench:
	@scripts/setup.sh bench
	$(CARGO) run --release --locked --package terrace-bench -- $(ARGS)

fuzz:
	@scripts/fuzz.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

fmt:
	$(CARGO) fmt --all

clean:
	$(CARGO) clean
