"""What each stage does. `ALL` is what `make test` runs, in this order; `EVERY` has those for other targets too."""

from __future__ import annotations

import os
import sys

import cargo
from stage import ROOT, Stage

PYTHON = sys.executable
CLUSTER = (PYTHON, "tests/cluster/cluster.py")
# With the example the dependencies have the features that `cargo test` gives them, so nothing is built twice.
BUILD = ("cargo", "build", "--bin", "narrows", "--example", "driver-rust")
# Tests mostly wait for Cassandra, so more of them than cores run at a time.
INTEGRATION_THREADS = "4"


def lint(stage: Stage) -> None:
    stage.check("lint::formatting", "cargo", "fmt", "--check")
    stage.check("lint::clippy", "cargo", "clippy", "--all-targets", "--", "-D", "warnings")
    stage.check("lint::documentation", "cargo", "doc", "--no-deps", "--lib", "--quiet", RUSTDOCFLAGS="-D warnings")


def unit(stage: Stage) -> None:
    """All that needs no cluster."""
    others = [name for name in cargo.test_targets() if name != "integration"]
    targets = [argument for name in others for argument in ("--test", name)]
    for program in cargo.build(stage, "--lib", *targets):
        cargo.run(stage, program)


def integration(stage: Stage) -> None:
    [program] = cargo.build(stage, "--test", "integration")
    stage.need(*CLUSTER, "up", "--name", "main")
    cargo.run(stage, program, f"--test-threads={INTEGRATION_THREADS}")
    # They are full of the tests' keyspaces, and the next stage wants an empty one.
    for name in ("main", "single", "control", "fault"):
        stage.need(*CLUSTER, "down", "--name", name)


def drivers(stage: Stage) -> None:
    stage.need(*BUILD)
    stage.need(*CLUSTER, "up", "--name", "main")
    chosen = ("--driver", os.environ.get("DRIVERS"), "--mode", os.environ.get("MODE"))
    chosen = [word for pair in zip(chosen[::2], chosen[1::2]) if pair[1] for word in pair]
    stage.tests(PYTHON, "-B", "tests/drivers/run.py", *chosen, *os.environ.get("DRIVERS_FLAGS", "").split())


def operations(stage: Stage) -> None:
    stage.need("tests/setup.sh")
    stage.need(*BUILD)
    stage.tests(str(ROOT / "target/venv/bin/python"), "-B", "tests/operations/run.py", *os.environ.get("TOPICS", "").split())


# A proxy in the middle of every kind of request, and a partition that is found, split and served; both on one node.
QUICK = ("transparency::replies_are_the_same_on_one_node",
         "pipeline::end_to_end::wide_partitions_are_split_with_nobodys_help_on_one_node")


def path(stage: Stage) -> None:
    """One real path through the proxy, and one split, on real Cassandra."""
    [program] = cargo.build(stage, "--test", "integration")
    stage.need(*CLUSTER, "up", "--name", "single")
    cargo.run(stage, program, "--exact", *QUICK)


ALL = {"lint": lint, "unit": unit, "integration": integration, "drivers": drivers, "operations": operations}
EVERY = {**ALL, "path": path}
