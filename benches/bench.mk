# The relay benchmark: what a request through Narrows costs, next to HAProxy and to no
# proxy at all, on a Cassandra node of its own. Results: target/bench/relay.json.

# How often and for how many seconds each target gets its turn.
BENCH_ROUNDS ?= 16
BENCH_SECONDS ?= 1
# The run fails when CPU per request exceeds this many times HAProxy's; empty: no limit.
BENCH_MAX_RATIO ?= 1.25
# The binary to measure, and what to compare it with.
BENCH_NARROWS ?= target/release/narrows
BENCH_TARGETS ?= direct,haproxy,narrows

BENCH_CLUSTER = python3 tests/cluster/cluster.py
bench: export PATH := $(PATH):/usr/sbin

.PHONY: bench bench-haproxy
bench: bench-haproxy ## What a request costs, next to HAProxy: target/bench/relay.json
	cargo build --release --bin narrows
	cargo bench --bench relay --no-run
	@ulimit -S -n 8192; \
	trap '$(BENCH_CLUSTER) down --name bench' EXIT; trap 'exit 130' INT TERM; \
	$(BENCH_CLUSTER) up --name bench --nodes 1 --version 5.0 --subnet 127.0.5 && \
	cargo bench --bench relay -- --upstream 127.0.5.1:9042 --targets $(BENCH_TARGETS) \
	    --narrows $(BENCH_NARROWS) --out target/bench --rounds $(BENCH_ROUNDS) \
	    --seconds $(BENCH_SECONDS) $(if $(BENCH_MAX_RATIO),--max-ratio $(BENCH_MAX_RATIO))

# Only the program is wanted: where the package starts a service, it is stopped again.
bench-haproxy:
	@command -v haproxy >/dev/null && exit 0; \
	{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; } || \
	    { echo "make bench needs HAProxy: install the package haproxy" >&2; exit 1; }; \
	apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy || exit 1; \
	if [ -d /run/systemd/system ]; then systemctl disable --now haproxy; fi
