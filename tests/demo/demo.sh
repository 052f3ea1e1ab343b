#!/usr/bin/env bash
# `make demo`: installs and builds what is missing, then demo.py tells the story. KEEP=1 leaves everything running, RELEASE=1
# takes the optimised build, and REDIS_URL is used when it is set.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/setup.sh
# With its progress: the first time takes minutes.
cargo build ${RELEASE:+--release} --bin narrows
exec target/venv/bin/python tests/demo/demo.py
