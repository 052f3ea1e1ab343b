"""One line that tells how far things are: redrawn in place on a terminal, printed now and then elsewhere."""

from __future__ import annotations

import sys
import time

LIVE_SECONDS, PRINTED_SECONDS = 0.1, 15
# To the beginning of the line, and nothing behind it.
AFRESH = "\r\x1b[K"


class Progress:
    def __init__(self, what: str) -> None:
        self.what, self.began, self.printed = what, time.monotonic(), 0.0
        self.is_live = sys.stdout.isatty()

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now - self.printed < (LIVE_SECONDS if self.is_live else PRINTED_SECONDS):
            return
        self.printed = now
        line = f"  {self.what}: {text}, {now - self.began:.0f} s"
        if self.is_live:
            print(f"{AFRESH}{line}", end="", flush=True)
        else:
            print(line, flush=True)

    def done(self, text: str) -> None:
        print(f"{AFRESH if self.is_live else ''}  {self.what}: {text}", flush=True)
