# Tests of whole processes with live drivers; the top Makefile includes this file.
#   make operations              all topics          make operations TOPICS="auth tls"   only these
#   make operations-static       the musl binary in an empty root; builds it first

.PHONY: operations operations-static

operations: need ## Whole processes with live drivers: TOPICS="auth tls …"
	@$(RUN) operations

operations-static: static
	@TOPICS=static $(RUN) operations
