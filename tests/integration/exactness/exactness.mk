# The oracle at length: random SELECTs, direct on the original and through the proxy on its split, on 5.0 and on 4.1.
# SEED=… replays a run; the last line is the result of both.

QUERIES ?= 200000

.PHONY: exactness
exactness: need ## 200,000 random SELECTs on split partitions compared with the original (QUERIES=, SEED=)
	$(CLUSTER) up --name main
	$(CLUSTER) up --name old
	@mkdir -p target/tmp
	set -o pipefail; QUERIES=$(QUERIES) SCALE=1 cargo test --test integration -- exactness::the_split_answers --nocapture --test-threads=2 2>&1 \
	    | tee target/tmp/exactness.log; status=$$?; \
	awk '/^[0-9]+ queries, [0-9]+ differences, seed [0-9]+$$/ { queries += $$1; differences += $$3; seed = $$6 } \
	    END { print queries + 0 " queries, " differences + 0 " differences, seed " seed }' target/tmp/exactness.log; exit $$status
