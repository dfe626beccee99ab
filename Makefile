# A newcomer needs two commands: `make run` shows Terrace at work, `make test` checks everything.

CARGO ?= cargo

# The Java part has a Makefile of its own; ARGS and EVALUATION reach it as they are given here.
JAVA_PART = $(MAKE) --no-print-directory --directory java

.PHONY: help install publish-local run run-objects test test-long test-objects stress-objects schedules crash-long \
	bench bench-objects fuzz lint lint-rust lint-objects fmt clean

# Cargo and Maven use all cores, each.
.NOTPARALLEL:

help:
	@echo "make run    mounts a volume, uses it with real programs, and cleans up; then durable objects in Java"
	@echo "            (under two minutes)"
	@echo "make run-objects   only the Java part of that"
	@echo "make install   builds the command, the library of \`terrace run\` and libterrace, and installs them in"
	@echo "            cargo's directory, or in that of PREFIX=/usr/local"
	@echo "make publish-local  the Java library, with sources and documentation, for builds on this machine: in the local"
	@echo "            Maven repository, or in that of REPOSITORY=DIR"
	@echo "make test   lints, unit and integration tests, then real programs on real mounts, then the Java part"
	@echo "make test-long  the same, with searches that take too long for each change: more kinds of damage, more seeds"
	@echo "make test-objects  only the Java part; ARGS='-Dtest=PoolTest -pl objects' runs some of it"
	@echo "make stress-objects  what threads of the Java part may see of each other, for an hour;"
	@echo "            ARGS='-m tough' takes longer"
	@echo "make schedules  only the models of what threads share, under many schedules; ARGS='names::' runs some"
	@echo "make crash-long  200 kills and power cuts under load, then crash states for a night:"
	@echo "            ROUNDS=200 HOURS=8 SEED=1"
	@echo "make bench  benchmarks, each beside its baseline; ARGS='--filter read' measures some of them,"
	@echo "            ARGS='--reach --before FILE' those of the mount, beside an older program's;"
	@echo "            ARGS=--direct those of the direct path"
	@echo "make bench-objects  the paper's figures and tables of the Java part, then benchmarks of its access paths;"
	@echo "            EVALUATION='--only graph --data FILE' or ARGS='ReadBench -f 1' measures some of one of the two"
	@echo "make fuzz   fuzzers on every decoder and on recovery; TARGET=recover FUZZ_SECONDS=600 for one of them"
	@echo "make lint   formatting, clippy and documentation, with warnings as errors; lint-rust, lint-objects: one part"
	@echo "make fmt    formats the code"
	@echo "make clean  removes what was built, test tools included"

run:
	@scripts/run.sh

run-objects:
	@$(JAVA_PART) run

test:
	@scripts/test.sh

# TERRACE_LONG makes tests that search a sample in `make test` search all of it.
test-long:
	@TERRACE_LONG=1 scripts/test.sh

test-objects:
	@$(JAVA_PART) test

stress-objects:
	@$(JAVA_PART) stress

schedules:
	@scripts/schedules.sh $(ARGS)

# SIGKILL and power cuts under load, 200 rounds of each kind, then crash states for HOURS.
crash-long:
	$(CARGO) build --release --locked --package terrace
	TERRACE_BIN="$${CARGO_TARGET_DIR:-$(CURDIR)/target}/release/terrace" TERRACE_KILL_ROUNDS=$(or $(ROUNDS),200) \
		$(CARGO) test --locked --package terrace-proof --test kill -- --nocapture
	TERRACE_BIN="$${CARGO_TARGET_DIR:-$(CURDIR)/target}/release/terrace" TERRACE_KILL_ROUNDS=$(or $(ROUNDS),200) \
		$(CARGO) test --locked --package terrace-proof --test direct -- together:: --nocapture
	$(CARGO) run --release --locked --package terrace-crash -- --hours $(or $(HOURS),8) --seed $(or $(SEED),1) $(ARGS)

# The command and the library of `terrace run`, side by side; libterrace with what its users need. DESTDIR goes before
# all places, for packages.
PREFIX ?= $(or $(CARGO_INSTALL_ROOT),$(CARGO_HOME),$(HOME)/.cargo)
root = $(DESTDIR)$(PREFIX)
built = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release
c_part = crates/terrace-c

install:
	$(CARGO) install --locked --path crates/terrace --root "$(root)"
	$(CARGO) build --release --locked --package terrace-preload --package terrace-c
	install -d "$(root)/lib/pkgconfig" "$(root)/include" "$(root)/share/man/man3"
	install -m 755 "$(built)/libterrace_preload.so" "$(root)/bin"
	install -m 755 "$(built)/libterrace.so" "$(root)/lib/libterrace.so.0"
	ln -sf libterrace.so.0 "$(root)/lib/libterrace.so"
	install -m 644 "$(built)/libterrace.a" "$(root)/lib"
	install -m 644 $(c_part)/include/terrace.h "$(root)/include"
	install -m 644 $(c_part)/man/libterrace.3 "$(root)/share/man/man3"
	version=$$($(CARGO) pkgid --locked --package terrace-c) && \
		sed "s|@PREFIX@|$(PREFIX)|; s|@VERSION@|$${version##*[@#]}|" $(c_part)/terrace.pc.in \
		>"$(root)/lib/pkgconfig/terrace.pc"

# The directory is named from here.
publish-local:
	@$(JAVA_PART) publish-local $(if $(REPOSITORY),REPOSITORY="$$(realpath -m -- "$(REPOSITORY)")")

bench:
	@scripts/setup.sh bench
	$(CARGO) build --release --locked --package terrace --package terrace-preload
	TERRACE_BIN="$${CARGO_TARGET_DIR:-$(CURDIR)/target}/release/terrace" \
		$(CARGO) run --release --locked --package terrace-bench -- $(ARGS)

bench-objects:
	@$(JAVA_PART) bench

fuzz:
	@scripts/fuzz.sh

lint: lint-rust lint-objects

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

lint-objects:
	@$(JAVA_PART) lint

fmt:
	$(CARGO) fmt --all
	@$(JAVA_PART) fmt

clean:
	$(CARGO) clean
	@$(JAVA_PART) clean
