# The two commands a newcomer needs: `make run` shows Terrace at work, `make test` checks everything.

CARGO ?= cargo

.PHONY: help run run-objects test test-long test-objects stress-objects schedules crash-long bench bench-objects fuzz lint lint-rust lint-objects fmt clean

# Cargo and Maven use all cores, each.
.NOTPARALLEL:

help:
	@echo "make run    mount a volume, use it with real programs, and clean up; then durable objects in Java (under two minutes)"
	@echo "make run-objects   only the Java part"
	@echo "make test   lints, unit and integration tests, then real programs on real mounts, then the Java part"
	@echo "make test-long  the same with the searches that take too long for each change: all kinds and sizes of damage, more seeds"
	@echo "make test-objects  only the Java part; ARGS='-Dtest=PoolTest -pl objects' runs some of it"
	@echo "make stress-objects  what threads of the Java part may see of each other, for an hour; ARGS='-m tough' takes longer"
	@echo "make schedules  only the models of what threads share, under many schedules; ARGS='names::' runs some"
	@echo "make crash-long  200 kills and power cuts under load, then crash states for a night: ROUNDS=200 HOURS=8 SEED=1"
	@echo "make bench  benchmarks, each beside its baseline; ARGS='--filter read' measures some of them"
	@echo "make bench-objects  the paper's figures and tables of the Java part, then the benchmarks of its access paths, each beside"
	@echo "            its baseline; EVALUATION='--only graph --data FILE' or ARGS='ReadBench -f 1' measures only some of one of the two"
	@echo "make fuzz   fuzzers on every decoder and on recovery; TARGET=recover FUZZ_SECONDS=600 for one of them"
	@echo "make lint   formatting, clippy and documentation, with warnings as errors; lint-rust, lint-objects: one part"
	@echo "make fmt    format the code"
	@echo "make clean  remove what was built, test tools included"

run:
	@scripts/run.sh

run-objects:
	@scripts/run-objects.sh

test:
	@scripts/test.sh

# Tests that search a sample in `make test` take all of it here: they look at TERRACE_LONG, in Java at terrace.long.
test-long:
	@TERRACE_LONG=1 scripts/test.sh

test-objects:
	@scripts/java.sh verify $(ARGS)

# Each test with all that jcstress knows of compilers; the planted mistakes are left to the tests.
stress-objects:
	@scripts/java.sh --quiet package -DskipTests --projects stress --also-make
	cd java/stress/target && "$$(../../../scripts/java.sh --home)/bin/java" --enable-native-access=ALL-UNNAMED \
		-cp 'classes:lib/*' dev.terrace.objects.stress.Stress '[.](?!Planted)[A-Za-z]+Tests[.]' long stress-long $(ARGS)

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

# Who says something of one of the two wants that only. `none` leaves it out.
bench-objects:
	@scripts/java.sh --quiet package -DskipTests --projects bench,evaluation --also-make
	@[ "$(EVALUATION)" = none ] || { [ -z "$(EVALUATION)" ] && [ -n "$(filter-out none,$(ARGS))" ]; } || "$$(scripts/java.sh --home)/bin/java" --sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED \
		-cp "java/evaluation/target/classes:$$(cat java/evaluation/target/classpath)" \
		dev.terrace.objects.evaluation.Evaluation $(EVALUATION)
	@[ "$(ARGS)" = none ] || { [ -z "$(ARGS)" ] && [ -n "$(filter-out none,$(EVALUATION))" ]; } || "$$(scripts/java.sh --home)/bin/java" --sun-misc-unsafe-memory-access=allow \
		-cp 'java/bench/target/classes:java/bench/target/lib/*' org.openjdk.jmh.Main -prof gc \
		-rf json -rff java/bench/target/bench-objects.json $(ARGS)

fuzz:
	@scripts/fuzz.sh

lint: lint-rust lint-objects

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# javac's own lints are errors in every build.
lint-objects:
	@scripts/java.sh --quiet spotless:check

fmt:
	$(CARGO) fmt --all
	@scripts/java.sh --quiet spotless:apply

clean:
	$(CARGO) clean
	rm -rf java/target java/*/target
