#!/usr/bin/env bash
# `make demo`: real Cassandra, Narrows before it, and an ordinary driver that notices nothing.
# KEEP=1 leaves both running and says how to look around.
set -euo pipefail
cd "$(dirname "$0")/../.."

step() { printf '\n\033[1m▸ %s\033[0m\n' "$*"; }
proxy=
# A cluster of its own, so that nobody's `make up` is touched.
cluster="python3 tests/cluster/cluster.py"
export NARROWS__UPSTREAM__CONTACT_POINTS=127.0.9.1:9042

stop() {
    if [ "${KEEP:-}" = 1 ] && [ -n "$proxy" ]; then
        step "Still running; have a look:"
        cat <<EOF
  make cqlsh PORT=9142                     a shell through Narrows (HOST=127.0.9.1 PORT=9042: direct)
  curl 127.0.0.1:9180/metrics              what it counts; /readyz says whether it serves
  kill $proxy; make down NAME=demo        when you are done
EOF
        return
    fi
    if [ -n "$proxy" ]; then
        kill "$proxy" 2>/dev/null && wait "$proxy" || true
    fi
    $cluster down --name demo >/dev/null
}
trap stop EXIT

step "Installing the driver and building Narrows (the first time takes a few minutes)"
tests/setup.sh
cargo build --quiet --bin narrows

step "Starting Apache Cassandra on 127.0.9.1:9042"
$cluster up --name demo --nodes 1 --version 5.0 --subnet 127.0.9 >/dev/null

step "Starting Narrows on 127.0.0.1:9142"
mkdir -p target/demo
target/debug/narrows check
target/debug/narrows run 2>target/demo/narrows.log &
proxy=$!
for _ in $(seq 100); do
    kill -0 "$proxy" 2>/dev/null || { cat target/demo/narrows.log >&2; proxy=; exit 1; }
    curl --silent --fail --output /dev/null 127.0.0.1:9180/readyz && break
    sleep 0.1
done

step "The same statements, direct and through Narrows"
target/venv/bin/python tests/demo/demo.py

step "What Narrows counted"
curl --silent 127.0.0.1:9180/metrics | grep -E '^narrows_proxy_(requests|replies|accepted)_total'
