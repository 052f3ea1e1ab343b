# Everything a person needs: `make help` lists it.

SHELL := bash
.DEFAULT_GOAL := help
# How much the tests do: 1 is what CI runs, larger numbers multiply counts.
SCALE ?= 1
export SCALE
# The pinned compiler, under the name that it has on this machine.
ifeq ($(origin RUSTUP_TOOLCHAIN),undefined)
TOOLCHAIN := $(shell tests/toolchain.sh)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif
endif

.PHONY: help need need-drivers demo test quick unit integration flakes fmt lint static

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

need:
	@tests/need.sh

need-drivers:
	@tests/need.sh drivers

demo: need ## Watch three partitions being split and read again (KEEP=1: look around)
	@tests/demo/demo.sh

RUN := python3 -B tests/run/run.py

test: need-drivers ## Every test: a table of stages, what failed, and `N passed, N failed`
	@$(RUN)

quick: need ## Lint, unit tests, one real path through the proxy and one split
	@$(RUN) lint unit path

unit: need ## Tests that need no cluster
	@$(RUN) unit

integration: need ## The proxy on the wire, against real Cassandra
	@$(RUN) integration

# How often, which stages, and beside how many processes that only burn CPU.
N ?= 5
STAGE ?=
BUSY ?= 0
flakes: need-drivers ## What does not pass every time: N=5 STAGE="unit drivers" BUSY=2
	@$(RUN) --flakes $(N) --busy $(BUSY) $(STAGE)

fmt: ## Formats the Rust code
	cargo fmt

lint: need ## Formatting, lints, documentation links
	@$(RUN) lint

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
include tests/integration/split/hostile.mk
include tests/integration/storm/storm.mk
