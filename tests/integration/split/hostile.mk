# What clients and nodes can do to a proxy: scans, memory, slow readers and a paused replica, measured. The last line is
# the result.

.PHONY: hostile
hostile: need ## Clients that never read or read slowly, 300 scans on a connection, a paused replica: times and memory
	$(CLUSTER) up --name single
	$(CLUSTER) up --name fault
	@mkdir -p target/tmp
	cargo build --release --bin narrows
	set -o pipefail; NARROWS_BINARY=$(CURDIR)/target/release/narrows cargo test --test integration -- split::hostile::every_check_holds --ignored --exact --nocapture 2>&1 \
	    | tee target/tmp/hostile.log; status=$$?; \
	grep -E '^[0-9]+ checks, [0-9]+ failed' target/tmp/hostile.log; exit $$status
