"""Runs stages again and again, and finds what did not pass every time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from stage import LOGS


@dataclasses.dataclass
class Flake:
    """A test that did not always pass, with the logs of the rounds in which it did not."""

    stage: str
    name: str
    passed: int
    logs: list[Path]


def repeat(names: list[str], rounds: int, run_stage) -> list[Flake]:
    outcomes = []
    for number in range(1, rounds + 1):
        print(f"=== round {number} of {rounds}", flush=True)
        outcomes.append([run_stage(name, LOGS / f"round-{number}") for name in names])
    return [flake for of_stage in zip(*outcomes) for flake in compare(of_stage)]


def compare(outcomes) -> list[Flake]:
    """A test that was not run in a round did not pass in it."""
    everything = {name for outcome in outcomes for name in (*outcome.passed, *outcome.failed)}
    found = []
    for name in sorted(everything):
        bad = [outcome for outcome in outcomes if name not in outcome.passed]
        # A stage fails as a whole under a name that no good round has.
        if name.startswith("("):
            bad = [outcome for outcome in outcomes if name in outcome.failed]
        if bad:
            found.append(Flake(bad[0].stage, name, len(outcomes) - len(bad), [outcome.log for outcome in bad]))
    return found
