#!/usr/bin/env python3
"""Runs stages of the tests: `run.py [STAGE …]`, all of them unless some are named. `run.py --flakes N` repeats them.

Every stage runs whatever became of the others. The end is a table, the names of what failed, and `N passed, N failed`."""

from __future__ import annotations

import argparse
import signal
import sys

import busy
import flakes
import prepare
import report
import stages
from stage import LOGS, Outcome, Stage


def main() -> int:
    asked = arguments()
    names = asked.stages or list(stages.ALL)
    with prepare.ahead(names), busy.loops(asked.busy):
        if asked.flakes:
            return report.flaky(flakes.repeat(names, asked.flakes, run_stage), asked.flakes)
        return report.finish([run_stage(name) for name in names])


def run_stage(name: str, logs=LOGS) -> Outcome:
    stage = Stage(name, logs)
    return stage.run(stages.EVERY[name])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(stages.EVERY)}")
    parser.add_argument("--flakes", type=int, default=0, metavar="N", help="run the stages N times, list what did not always pass")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside so many processes that only burn CPU")
    asked = parser.parse_args()
    unknown = [name for name in asked.stages if name not in stages.EVERY]
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)}; there are {', '.join(stages.EVERY)}")
    return asked


def stop(*_) -> None:
    """Ends as Ctrl-C does, together with the command of the stage; also where a background job does not get SIGINT."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
