"""What is counted, and when a difference between two failure rates is more than chance."""

from __future__ import annotations

import collections
import dataclasses
import math
import threading

# One-sided 95 %.
Z = 1.6449
EXAMPLES_MAX = 8


def tolerated(direct_failures: int, operations: int) -> int:
    """As many failures as the other side may have in as many operations, by the two-proportion z-test (pooled, one-sided,
    95 %): the largest number that does not show a higher rate than the direct one."""
    most = direct_failures
    while most < operations and not is_higher(most + 1, direct_failures, operations):
        most += 1
    return most


def is_higher(ours: int, direct: int, operations: int) -> bool:
    pooled = (ours + direct) / (2 * operations)
    deviation = math.sqrt(2 * pooled * (1 - pooled) / operations)
    return deviation > 0 and (ours - direct) / operations > Z * deviation


@dataclasses.dataclass
class Totals:
    """The numbers of the last line."""

    operations: int = 0
    failed: int = 0
    late_refused: int = 0
    inside_refused: int = 0
    lost: int = 0
    differences: int = 0

    def add(self, other: Totals) -> None:
        for field in dataclasses.fields(Totals):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def is_good(self) -> bool:
        return self.operations > 0 and (self.failed, self.lost, self.differences) == (0, 0, 0)


class Tally(Totals):
    """Of one scenario. Lanes write into it side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        # By the kind of the partition and of the operation.
        self.by_kind: collections.Counter[tuple[str, str]] = collections.Counter()
        self.failed_by_kind: collections.Counter[tuple[str, str]] = collections.Counter()
        # Of the two sides: operations that failed after all, that needed another attempt, and the slowest.
        self.failures = {"through": 0, "direct": 0}
        self.retried = {"through": 0, "direct": 0}
        self.slowest = {"through": 0.0, "direct": 0.0}
        self.late_operations = 0
        # What went wrong, and how often.
        self.told: collections.Counter[str] = collections.Counter()
        # What makes the whole scenario worthless: Cassandra's own answers are wrong, a proxy logs errors.
        self.trouble: list[str] = []

    def tell(self, what: str) -> None:
        """Whoever calls holds the lock."""
        self.told[what] += 1

    def examples(self) -> list[str]:
        return [f"{count} × {what}" for what, count in self.told.most_common(EXAMPLES_MAX)] + self.trouble[:EXAMPLES_MAX]

    @property
    def is_good(self) -> bool:
        return super().is_good and not self.trouble

    def note(self, side: str, outcome) -> None:
        self.failures[side] += not outcome.ok
        self.retried[side] += bool(outcome.failures)
        self.slowest[side] = max(self.slowest[side], outcome.seconds)

    def compare_rates(self) -> str:
        """For faults that hit both sides at random: only what exceeds the bound counts as failed."""
        compared = self.operations - self.late_operations
        bound = tolerated(self.failures["direct"], compared)
        through = self.failures["through"]
        if not self.failures["direct"]:
            self.trouble.append("nothing failed without a proxy: this was no brown-out")
        self.failed = max(0, through - bound)
        return f"{through} of {compared} failed, {self.failures['direct']} direct; at most {bound} are within its 95 % bound"

    def summary(self) -> str:
        return (f"{self.operations} operations, {self.failed} failed that succeed direct, {self.late_refused} late writes refused, "
                f"{self.inside_refused} refused by a proxy started inside, {self.lost} lost, {self.differences} differences; "
                f"retried {self.retried['through']} (direct {self.retried['direct']}), failed {self.failures['through']} "
                f"({self.failures['direct']}), slowest {self.slowest['through']:.1f} s ({self.slowest['direct']:.1f} s)")
