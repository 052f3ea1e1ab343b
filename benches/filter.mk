# The filter benchmark: what a check, a key and a rebuild cost, per policy. Needs no cluster.
# Results: target/bench/filter.json.

# How many keys the filter holds; 10000000 shows how it scales.
KEYS ?= 1000000

.PHONY: bench-filter
bench-filter: ## Nanoseconds per filter check, bytes per key, time of a rebuild
	cargo bench --bench filter -- --keys $(KEYS) --out target/bench
