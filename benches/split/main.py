#!/usr/bin/env python3
"""How fast is a wide partition split, in how much memory, and what do other reads notice of it? `make bench-split` runs it.

Two partitions are split by `narrows worker`, one after the other: the first as fast as the machine can, which gives the
pace and the memory; the second with the throttle on, beside reads of single rows at a fixed rate. Every MB is 10^6 bytes of
the rows' values."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "operations"))

import foreground
import node
import report
from partition import ROW_BYTES, Partition, make_tables
from worker import Worker

# Long enough for the code of the reads to be compiled, and for a percentile of them to mean something.
WARM_UP_SECONDS, BASELINE_SECONDS = 20, 45
# A machine that is busy before anything was begun is busy with something else.
LOAD_MAX = 0.8


def main() -> int:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if load > LOAD_MAX:
        print(f"note: the load of this machine is {load:.1f} before anything was begun, so the figures will be too low")
    found = {"megabytes": options.megabytes, "throttled_megabytes": options.throttled_megabytes, "row_bytes": ROW_BYTES,
             "cores": os.cpu_count(), "load_before": load}
    with node.Node(options.node) as cassandra:
        found["cassandra"] = cassandra.release()
        make_tables(cassandra.session)
        if options.megabytes:
            found |= unthrottled(cassandra, options)
        if options.throttled_megabytes:
            found |= throttled(cassandra, options)
    return report.tell(found, options.out / "split.json")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--node", default="127.0.5.1", help="the Cassandra node, alone in its cluster")
    parser.add_argument("--narrows", type=Path, default=ROOT / "target" / "release" / "narrows", help="the binary to measure")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "bench", help="for configuration, logs and split.json")
    parser.add_argument("--megabytes", type=int, default=500, help="of the partition that is split as fast as possible; 0: none")
    parser.add_argument("--throttled-megabytes", type=int, default=500, help="of the one that is split beside reads; 0: none")
    return parser.parse_args()


def unthrottled(cassandra: node.Node, options: argparse.Namespace) -> dict:
    partition = Partition("fast", options.megabytes)
    partition.load(cassandra.session)
    cassandra.calm_down()
    with Worker(options.narrows, options.out, options.node, throttle=False) as worker:
        stages = worker.split(partition, cassandra.session)
        peak = worker.peak_memory_mb()
    return {
        "copy_mb_per_s": partition.megabytes / stages.copy,
        "split_mb_per_s": partition.megabytes / stages.working,
        "worker_rss_mb": peak,
        "rows": partition.rows,
        "seconds": stages.seconds(),
    }


def throttled(cassandra: node.Node, options: argparse.Namespace) -> dict:
    partition = Partition("gentle", options.throttled_megabytes)
    partition.load(cassandra.session)
    foreground.load(cassandra.session)
    cassandra.calm_down()
    with foreground.Reads(options.node) as reads, \
            Worker(options.narrows, options.out, options.node, throttle=True) as worker:
        reads.wait("reads without a split, to warm up", WARM_UP_SECONDS)
        began, ended = reads.wait("reads without a split", BASELINE_SECONDS)
        stages = worker.split(partition, cassandra.session)
        latencies = reads.stop()
    without = latencies.between(began, ended)
    during = [latency for stage in stages.windows() for latency in latencies.between(*stage)]
    before, beside = foreground.percentiles(without), foreground.percentiles(during)
    by_stage = {name: foreground.percentiles(latencies.between(*window))["p99_ms"] for name, window in stages.named_windows().items()}
    return {
        "foreground_p99_ratio": beside["p99_ms"] / before["p99_ms"],
        "foreground_without": before,
        "foreground_during": beside,
        "foreground_p99_ms_by_stage": by_stage,
        "foreground_reads_per_second": foreground.READS_PER_SECOND,
        "throttled_split_mb_per_s": partition.megabytes / stages.working,
        "throttled_seconds": stages.seconds(),
    }


if __name__ == "__main__":
    sys.exit(main())
