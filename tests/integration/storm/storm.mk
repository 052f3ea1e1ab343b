# Storms at length: writers and readers on partitions that are split under them, through two proxies. SEED=… replays the
# choices; the last line is the result. SECONDS is the shell's own, so the tests know it by another name.

SECONDS ?= 120

.PHONY: storm
storm: need ## Writers and readers on partitions while they are split, invalidated and split again (SECONDS=, SEED=)
	$(CLUSTER) up --name main
	@mkdir -p target/tmp
	set -o pipefail; STORM_SECONDS=$(SECONDS) SCALE=1 cargo test --test integration -- storm::no_acknowledged_write --nocapture 2>&1 \
	    | tee target/tmp/storm.log; status=$$?; \
	grep -E '^[0-9]+ writes acknowledged, [0-9]+ lost' target/tmp/storm.log; exit $$status
