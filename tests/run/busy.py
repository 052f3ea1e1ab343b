"""Processes that only burn CPU, for tests that must pass on a busy machine too."""

from __future__ import annotations

import contextlib
import subprocess
import sys

# Looks now and then whether its parent is still there, so that none is left behind whatever becomes of us.
LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def loops(count: int):
    processes = [subprocess.Popen([sys.executable, "-c", LOOP], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
