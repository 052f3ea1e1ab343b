#!/usr/bin/env python3
"""Runs the tests of whole processes: all topics but `static`, or those named (`run.py auth tls`).

Topics on different clusters run side by side, each in a process of its own. Ends with `N passed, M failed`."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
ONE = HERE / "topic.py"
# Topics of one line share a cluster and run one after the other. So no topic ever meets a node that another has stopped.
SIDE_BY_SIDE = (
    ("control", "polling"),
    ("rights", "schema", "auth", "tls"),
    ("splits", "explain", "versions"),
    ("outage", "failures", "datacenters", "check", "signals", "restarts", "capacity"),
)
# Need builds of their own.
ON_DEMAND = ("static", "upgrade")


class Line(threading.Thread):
    """Runs topics one after the other and shows what they print, a whole line at a time."""

    printing = threading.Lock()

    def __init__(self, topics: list[str]) -> None:
        super().__init__()
        self.topics, self.passed, self.failed = topics, 0, 0

    def run(self) -> None:
        for topic in self.topics:
            self.run_topic(topic)

    def run_topic(self, topic: str) -> None:
        command = [sys.executable, "-B", str(ONE), topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            passed, failed = 0, 0
            for line in process.stdout:
                passed += line.startswith("test ") and " ... ok" in line
                failed += line.startswith("test ") and " ... FAILED" in line
                with self.printing:
                    print(line, end="", flush=True)
        if process.returncode and not failed:
            failed = 1
            with self.printing:
                print(f"test {topic}::(topic) ... FAILED, it ended with {process.returncode}", flush=True)
        self.passed, self.failed = self.passed + passed, self.failed + failed


def main() -> int:
    topics = [name.removeprefix("test_").removesuffix(".py") for name in sys.argv[1:]]
    everything = sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.py"))
    missing = [topic for topic in topics if topic not in everything]
    if missing:
        print(f"no such topic: {', '.join(missing)}; there are: {', '.join(everything)}", file=sys.stderr)
        return 64
    wanted = topics or [topic for topic in everything if topic not in ON_DEMAND]
    # A topic that nobody has put anywhere runs after all others.
    known = {topic for line in SIDE_BY_SIDE for topic in line}
    lines = [Line([topic for topic in line if topic in wanted]) for line in SIDE_BY_SIDE]
    rest = Line([topic for topic in wanted if topic not in known])
    for line in lines:
        line.start()
    for line in lines:
        line.join()
    rest.run()
    passed = sum(line.passed for line in (*lines, rest))
    failed = sum(line.failed for line in (*lines, rest))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
