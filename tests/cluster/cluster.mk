# Clusters by hand and for tests; the top Makefile includes this file. tests/cluster/README.md explains the names.
#   make up            one node on 127.0.0.1:9042      make down [NAME=…]   stop one cluster, or all of this tree
#   make cqlsh         HOST= PORT= choose the node, ARGS= goes to cqlsh

CLUSTER := python3 tests/cluster/cluster.py
HOST ?= 127.0.0.1
PORT ?= 9042

.PHONY: up down cqlsh cluster-main cluster-auth cluster-old cluster-dc

up: ## One Cassandra node on 127.0.0.1:9042
	$(CLUSTER) up --name people

down: ## Stops it, and every other cluster of this tree (NAME= one of them)
	$(CLUSTER) down $(if $(NAME),--name $(NAME),--all)

cqlsh: ## A shell on it: HOST= PORT= ARGS=
	tests/setup.sh
	target/venv/bin/cqlsh $(ARGS) $(HOST) $(PORT)

cluster-main cluster-auth cluster-old cluster-dc: cluster-%:
	$(CLUSTER) up --name $*
