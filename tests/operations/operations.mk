# Tests of whole processes with live drivers; the top Makefile includes this file.
#   make operations              all topics          make operations TOPICS="auth tls"   only these
#   make operations-static       the musl binary in an empty root; builds it first

OPERATIONS := target/venv/bin/python tests/operations/run.py
# All but `static`, which needs a build of its own.
TOPICS ?= auth capacity check control datacenters explain failures restarts rights schema signals splits tls versions

.PHONY: operations operations-static

operations: ## Whole processes with live drivers: TOPICS="auth tls …"
	tests/setup.sh
	cargo build --bin narrows --example driver-rust
	$(OPERATIONS) $(TOPICS)

operations-static: static
	tests/setup.sh
	$(OPERATIONS) static
