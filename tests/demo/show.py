"""How the demo looks: headings, a progress bar, a table. Bold and drawn in place on a terminal, plain lines on a pipe."""

import sys
import time

BAR_WIDTH = 30
REDRAW_SECONDS = 0.1
# On a pipe, a line for each such part of the work.
PARTS = 4


def bold(text):
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def heading(title, *why):
    print(f"\n{bold('▸ ' + title)}")
    say(*why)


def say(*lines):
    for line in lines:
        print(f"  {line}")


def duration(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


class Bar:
    """How far something is; `done` replaces it with what came of it."""

    def __init__(self, name, total):
        self.name, self.total = name, total
        self.at = self.drawn = 0
        self.began = time.monotonic()
        self.next_drawing = self.began

    def add(self, count):
        self.at += count
        if sys.stdout.isatty():
            self.draw()
        elif self.at * PARTS // self.total > self.drawn:
            self.drawn = self.at * PARTS // self.total
            if self.at < self.total:
                say(f"{self.name}  {self.at:,} of {self.total:,}")

    def draw(self):
        now = time.monotonic()
        if now < self.next_drawing and self.at < self.total:
            return
        self.next_drawing = now + REDRAW_SECONDS
        full = self.at * BAR_WIDTH // self.total
        drawing = "█" * full + "░" * (BAR_WIDTH - full)
        print(f"\r  {self.name}  {drawing} {self.at:,} of {self.total:,}\033[K", end="", flush=True)

    def done(self, text):
        clear = "\r\033[K" if sys.stdout.isatty() else ""
        print(f"{clear}  {self.name}  {text} in {duration(time.monotonic() - self.began)}")


def table(head, rows):
    """Rows of one cell are titles of those below them; numbers stand on the right."""
    full = [row for row in rows if len(row) > 1]
    widths = [max(len(cell) for cell in column) for column in zip(head, *full)]
    for row in [head, *rows]:
        if len(row) == 1:
            say(bold(row[0]))
            continue
        first, *others = (cell.ljust(width) if number == 0 else cell.rjust(width)
                          for number, (cell, width) in enumerate(zip(row, widths)))
        say("   ".join([f"  {first}", *others]).rstrip())
