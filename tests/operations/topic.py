#!/usr/bin/env python3
"""Runs the tests of one topic (`topic.py auth`), and says of each in a line how it ended: `test NAME ... ok <1.234s>`."""

from __future__ import annotations

import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Result(unittest.TestResult):
    """Whatever did not pass failed, also what was left out: nothing may look green that did not run."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic, self.passed, self.began = topic, 0, time.monotonic()

    def startTest(self, test) -> None:
        super().startTest(test)
        self.began = time.monotonic()

    def addSuccess(self, test) -> None:
        self.passed += 1
        self.tell(test, "ok")

    def addFailure(self, test, error) -> None:
        super().addFailure(test, error)
        self.tell(test, "FAILED", self.failures[-1][1])

    def addError(self, test, error) -> None:
        super().addError(test, error)
        self.tell(test, "FAILED", self.errors[-1][1])

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self.tell(test, "FAILED", f"left out: {reason}\n")

    def addSubTest(self, test, subtest, error) -> None:
        """One that fails does not end its test, and the test is then not a success."""
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.tell(test, "FAILED", f"{subtest}\n{(self.failures + self.errors)[-1][1]}")

    def tell(self, test, result: str, why: str = "") -> None:
        # What fails outside of any test, such as the start of a cluster, has a name with blanks.
        name = "::".join(test.id().split(".")[-2:]) if isinstance(test, unittest.TestCase) else test.id().replace(" ", "_")
        print(f"{why}test {self.topic}::{name} ... {result} <{time.monotonic() - self.began:.3f}s>", flush=True)


def main() -> int:
    sys.path.insert(0, str(HERE))
    topic = sys.argv[1]
    suite = unittest.TestLoader().loadTestsFromName(f"test_{topic}")
    asked, result = suite.countTestCases(), Result(topic)
    suite.run(result)
    return 0 if result.passed == asked and result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
