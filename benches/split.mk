# The split benchmark: how fast a partition of SPLIT_MB is planned, copied and verified, with how much memory, and what the
# reads of others notice while the throttle is on. Runs on a Cassandra node of its own. Results: target/bench/split.json.

# Megabytes (10^6 bytes) of the partition, in rows of 1,000 bytes; 5000 shows that memory stays the same.
SPLIT_MB ?= 500
# The same for the run beside other reads, which takes several times as long.
SPLIT_THROTTLED_MB ?= $(shell echo $$(( $(SPLIT_MB) < 500 ? $(SPLIT_MB) : 500 )))
# The binary to measure.
SPLIT_NARROWS ?= target/release/narrows

SPLIT_CLUSTER = python3 tests/cluster/cluster.py

.PHONY: bench-split
bench-split: need ## How fast a 500 MB partition is split: target/bench/split.json
	tests/setup.sh
	cargo build --release --bin narrows
	@trap '$(SPLIT_CLUSTER) down --name bench' EXIT; trap 'exit 130' INT TERM; \
	$(SPLIT_CLUSTER) up --name bench --nodes 1 --version 5.0 --subnet 127.0.5 >/dev/null && \
	target/venv/bin/python benches/split/main.py --node 127.0.5.1 --narrows $(SPLIT_NARROWS) --out target/bench \
	    --megabytes $(SPLIT_MB) --throttled-megabytes $(SPLIT_THROTTLED_MB)
