# Everything a person needs: `make help` lists it.

SHELL := bash
.DEFAULT_GOAL := help
# How much the tests do: 1 is what CI runs, larger numbers multiply counts.
SCALE ?= 1
export SCALE

.PHONY: help need need-drivers demo test unit integration fmt lint static

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

need:
	@tests/need.sh

need-drivers:
	@tests/need.sh drivers

demo: need ## Watch two wide partitions being split and read again (KEEP=1: look around)
	@tests/demo/demo.sh

test: need-drivers lint unit integration drivers operations ## Every test, at SCALE=1 in about 40 minutes
	@echo "all tests passed"

unit: need ## Tests that need no cluster
	cargo test --lib --test tidy --test decoder

integration: need ## The proxy on the wire, against real Cassandra
	$(CLUSTER) up --name main
	# The tests mostly wait for schema changes, so more of them than cores run at a time.
	cargo test --test integration -- --test-threads=4

fmt: ## Formats the Rust code
	cargo fmt

lint: need ## Formatting, lints, documentation links
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --lib --quiet

MUSL := x86_64-unknown-linux-musl
static: need ## The release binary, static: target/x86_64-unknown-linux-musl/release/narrows
	@rustup target list --installed 2>/dev/null | grep -qx $(MUSL) || rustup target add $(MUSL)
	@command -v musl-gcc >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends musl-tools; } || \
	    { echo "make static needs musl-gcc: install the package musl-tools" >&2; exit 1; }
	cargo build --release --target $(MUSL) --bin narrows

include tests/cluster/cluster.mk
include benches/bench.mk
include benches/decision.mk
include benches/filter.mk
include benches/split.mk
include tests/drivers/drivers.mk
include tests/operations/operations.mk
include tests/integration/exactness/exactness.mk
include tests/integration/pipeline/pipeline.mk
include tests/integration/storm/storm.mk
