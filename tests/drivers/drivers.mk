# `make drivers`: every driver program direct and through Narrows, on the three-node cluster `main`.
#   make drivers DRIVERS=python,go MODE=mirror DRIVERS_FLAGS=--all

.PHONY: drivers
drivers: need-drivers ## Every driver direct and through the proxy: DRIVERS=python,java,... MODE=single,mirror,split
	@$(RUN) drivers

# On a cluster of its own with one node; tests/decoder/README.md says what becomes of it.
.PHONY: captures
captures: need-drivers ## Records what drivers and Cassandra say to each other, for tests/decoder: DRIVERS=python,java,...
	$(CLUSTER) up --name capture --nodes 1 --version 5.0 --subnet 127.0.9
	python3 -B tests/drivers/capture.py $(if $(DRIVERS),--driver $(DRIVERS))
	$(CLUSTER) down --name capture
