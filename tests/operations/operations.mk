# Tests of whole processes with live drivers; the top Makefile includes this file.
#   make operations              all topics          make operations TOPICS="auth tls"   only these
#   make operations-static       the musl binary in an empty root; builds it first

#   make outage                  outages under load, beside the same load direct: SCENARIOS="quorum paused" DURATION=0.5 SEED=…

#   make upgrade                 this version beside the first one on one control keyspace; builds that one first

#   make polling                 what an idle proxy reads of the control keyspace, for 1, 10 and 50 watched tables

.PHONY: operations operations-static outage upgrade polling

operations: need ## Whole processes with live drivers: TOPICS="auth tls …"
	@$(RUN) operations

operations-static: static
	@TOPICS=static $(RUN) operations

polling: need ## What an idle proxy reads of the control keyspace, for 1, 10 and 50 watched tables
	@POLLING_TABLES="1 10 50" POLLING_SECONDS=60 POLLING_INTERVAL=1s POLLING_TOLERANCE=0.1 TOPICS=polling $(RUN) operations

outage: need ## Nodes, data centres, Redis and the control keyspace lost under load: SCENARIOS= DURATION= SEED= (25 minutes)
	@tests/setup.sh
	cargo build --bin narrows
	@mkdir -p target/tmp
	set -o pipefail; target/venv/bin/python -B tests/operations/outage | tee target/tmp/outage.log

# The first version that could split, and where it is built.
FIRST_VERSION := da79bf7
FIRST_TREE := target/upgrade/tree

upgrade: need ## This version beside the first one, before and after `narrows schema apply`
	@test -e $(FIRST_TREE)/Cargo.toml || git worktree add --force --detach $(FIRST_TREE) $(FIRST_VERSION)
	CARGO_TARGET_DIR=$(CURDIR)/target/upgrade/build cargo build --manifest-path $(FIRST_TREE)/Cargo.toml --bin narrows
	@NARROWS_OLD=$(CURDIR)/target/upgrade/build/debug/narrows TOPICS=upgrade $(RUN) operations
