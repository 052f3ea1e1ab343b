#!/usr/bin/env python3
"""Runs the tests of whole processes: all, or the topics named (`run.py auth tls`). Ends with `N passed, M failed`."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test) -> None:
        super().addSuccess(test)
        self.passed += 1


def main() -> int:
    sys.path.insert(0, str(HERE))
    topics = [name.removeprefix("test_").removesuffix(".py") for name in sys.argv[1:]]
    missing = [topic for topic in topics if not (HERE / f"test_{topic}.py").exists()]
    if missing:
        print(f"no such topic: {', '.join(missing)}; there are: {', '.join(sorted(known()))}", file=sys.stderr)
        return 64
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames([f"test_{topic}" for topic in topics or sorted(known())])
    asked = suite.countTestCases()
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    # Whatever did not pass failed, also what was left out or never began: nothing may look green that did not run.
    failed = max(asked - result.passed, len(result.errors) and 1)
    print(f"{result.passed} passed, {failed} failed", flush=True)
    return 1 if failed or not result.passed else 0


def known() -> list[str]:
    return [path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")]


if __name__ == "__main__":
    sys.exit(main())
