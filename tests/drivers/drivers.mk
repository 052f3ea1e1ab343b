# `make drivers`: every driver program direct and through Narrows, on the three-node cluster `main`.
#   make drivers DRIVERS=python,go MODE=mirror DRIVERS_FLAGS=--all
DRIVERS ?= python,java,go,go-v1,node,rust,cqlsh
MODE ?= single,mirror,split
DRIVERS_FLAGS ?=

.PHONY: drivers
drivers: need-drivers ## Every driver direct and through the proxy: DRIVERS=python,java,... MODE=single,mirror,split
	$(CLUSTER) up --name main
	# With the example the dependencies have the features that `cargo test` gives them, so nothing is built twice.
	cargo build --bin narrows --example driver-rust
	python3 -B tests/drivers/run.py --driver $(DRIVERS) --mode $(MODE) $(DRIVERS_FLAGS)

# On a cluster of its own with one node; tests/decoder/README.md says what becomes of it.
.PHONY: captures
captures: need-drivers ## Records what drivers and Cassandra say to each other, for tests/decoder: DRIVERS=python,java,...
	$(CLUSTER) up --name capture --nodes 1 --version 5.0 --subnet 127.0.9
	python3 -B tests/drivers/capture.py --driver $(DRIVERS)
	$(CLUSTER) down --name capture
