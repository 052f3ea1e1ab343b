"""Does ahead of time, beside the first builds, what later stages would only wait for: downloads, driver programs, clusters.

A stage still asks for all it needs. So nothing depends on this, and what fails here is reported where it is missed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

from stage import LOGS, ROOT

CLUSTER = (sys.executable, "tests/cluster/cluster.py")
# Polite, as a stage that builds has the first claim on the cores. Clusters are not: their nodes would stay so.
DRIVERS = ("nice", sys.executable, "-B", "tests/drivers/programs.py")
# In this order: what is needed first comes first.
AHEAD = {
    "path": [(*CLUSTER, "up", "--name", "single")],
    "integration": [(*CLUSTER, "up", "--name", name) for name in ("main", "single", "old", "fault", "control", "dc")],
    "drivers": [("tests/setup.sh",), DRIVERS],
    "operations": [("tests/setup.sh",)],
}


class Preparation(threading.Thread):
    """Runs commands one after the other; their output is kept apart from that of the stages."""

    def __init__(self, commands: list[tuple[str, ...]]) -> None:
        super().__init__(daemon=True)
        self.commands, self.process, self.ended = commands, None, False
        self.lock = threading.Lock()

    def run(self) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        with (LOGS / "prepare.log").open("wb") as log:
            for command in self.commands:
                with self.lock:
                    if self.ended:
                        return
                    self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
                self.process.wait()

    def end(self) -> None:
        with self.lock:
            self.ended = True
            if self.process and self.process.poll() is None:
                self.process.terminate()
        self.join(30)


@contextlib.contextmanager
def ahead(stages: list[str]):
    commands = [command for stage in stages for command in AHEAD.get(stage, [])]
    preparation = Preparation(list(dict.fromkeys(commands)))
    preparation.start()
    try:
        yield
    finally:
        preparation.end()
