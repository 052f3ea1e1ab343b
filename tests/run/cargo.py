"""Builds test programs with Cargo, and says where they are: run by us instead of Cargo, they can tell how long tests take."""

from __future__ import annotations

import json
import os
import subprocess

from stage import ROOT, Stage

# The harness of a stable toolchain tells times only with this variable. It is set for the test program alone: no build sees it.
TELL_TIMES = {"RUSTC_BOOTSTRAP": "1"}
TIMES = ("-Z", "unstable-options", "--report-time")


def test_targets() -> list[str]:
    """The names of all test programs below tests/."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version=1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)["packages"]
    return [target["name"] for package in packages for target in package["targets"] if target["kind"] == ["test"]]


def build(stage: Stage, *targets: str) -> list[str]:
    """The test programs of these targets, such as `--lib`."""
    said = stage.outcome.log.with_suffix(".json")
    stage.need("cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *targets, output=said)
    messages = [json.loads(line) for line in said.read_text().splitlines() if line.startswith("{")]
    said.unlink()
    is_test = lambda message: message["reason"] == "compiler-artifact" and message["profile"]["test"]
    return [message["executable"] for message in messages if is_test(message) and message["executable"]]


def run(stage: Stage, program: str, *arguments: str) -> None:
    """As `cargo test` does, which sets a few variables besides."""
    stage.tests(program, *arguments, *TIMES, CARGO_MANIFEST_DIR=str(ROOT), **TELL_TIMES)


def target_directory() -> str:
    return os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
