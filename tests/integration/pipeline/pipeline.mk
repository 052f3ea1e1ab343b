# Workers and proxies killed at random moments, at length. SEED=… replays a run; the last lines are the results.

KILLS ?= 100
PROXY_KILLS ?= 200

.PHONY: crash
crash: need ## A worker killed 100 times and proxies 200 times, each time gone on from (KILLS=, PROXY_KILLS=, SEED=)
	$(CLUSTER) up --name main
	@mkdir -p target/tmp
	set -o pipefail; KILLS=$(KILLS) PROXY_KILLS=$(PROXY_KILLS) SCALE=1 cargo test --test integration -- \
	    pipeline::random_kills storm::what_a_killed_proxy --nocapture --test-threads=1 2>&1 \
	    | tee target/tmp/crash.log; status=$$?; \
	grep -E '^[0-9]+ (kills, [0-9]+ splits|proxies killed|writes acknowledged)' target/tmp/crash.log; exit $$status
