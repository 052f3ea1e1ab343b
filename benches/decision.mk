# The decision benchmark: what a session's judge costs a read and a write more because their table is watched, although
# their partition is not split.
# Needs no cluster. Results: target/bench/decision.json.

# How many splits the filter holds.
SPLITS ?= 1000000
# The run fails when the added nanoseconds exceed this; empty: no limit.
DECISION_MAX_NS ?= 1000

.PHONY: bench-decision
bench-decision: ## Nanoseconds that a watched but unsplit partition adds to a read and to a write
	cargo bench --bench decision -- --splits $(SPLITS) --out target/bench \
	    $(if $(DECISION_MAX_NS),--max-ns $(DECISION_MAX_NS))
