"""What the load writes to: partitions with rows from before, and a note of what became of every row written since.

Every partition has a twin with the same rows. One is used through a proxy, the other only directly, by the same statements."""

from __future__ import annotations

import dataclasses
import enum
import itertools

# Rows from before are 0 to BASE_ROWS, and never change; what the load writes comes behind them.
BASE_ROWS = 40
BUCKET_STARTS = [0, 10, 20, 30]
FIRST_WRITTEN = 1000


class Kind(enum.Enum):
    """What a partition is to the proxies."""

    SPLIT = "split"
    UNSPLIT = "unsplit, in a table with splits"
    WATCHED = "in a watched table without splits"
    BESIDE = "in an unwatched table beside them"
    ELSEWHERE = "in a keyspace without watched tables"


class Fate(enum.Enum):
    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "of an unknown outcome"
    REFUSED = "refused before it was forwarded"


def base_value(row: int) -> str:
    return f"row {row} from before " + "x" * 40


def written_value(key: int, row: int) -> str:
    return f"row {row} of {key}"


class Partition:
    """Of one side. Only one lane writes to it."""

    def __init__(self, table: str, key: int) -> None:
        self.table, self.key = table, key
        self.fates: dict[int, Fate] = {}

    def note(self, row: int, fate: Fate) -> None:
        """What was once possible stays so, unless it is certain by now."""
        before = self.fates.get(row)
        if fate is Fate.ACKNOWLEDGED or before is None:
            self.fates[row] = fate
        elif before is not fate and before is not Fate.ACKNOWLEDGED:
            self.fates[row] = Fate.UNKNOWN

    def with_fate(self, fate: Fate) -> list[int]:
        return [row for row, found in self.fates.items() if found is fate]

    def missing(self, found: dict[int, str]) -> list[int]:
        """Rows that must be there, with their value, and are not."""
        expected = {row: base_value(row) for row in range(BASE_ROWS)}
        expected |= {row: written_value(self.key, row) for row in self.with_fate(Fate.ACKNOWLEDGED)}
        return [row for row, value in expected.items() if found.get(row) != value]

    def made_up(self, found: dict[int, str]) -> list[int]:
        """Rows that are there although nobody wrote them, or a proxy said that it had not forwarded them."""
        possible = {*range(BASE_ROWS), *self.with_fate(Fate.ACKNOWLEDGED), *self.with_fate(Fate.UNKNOWN)}
        return [row for row in found if row not in possible]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A partition that a proxy's clients use, and its twin."""

    kind: Kind
    through: Partition
    direct: Partition
    next_row: itertools.count = dataclasses.field(default_factory=lambda: itertools.count(FIRST_WRITTEN))


class Field:
    """All partitions of one world."""

    def __init__(self, tables: dict[Kind, str]) -> None:
        self.tables = tables
        self.pairs: list[Pair] = []
        self.keys = itertools.count(0, 2)

    def pair(self, kind: Kind) -> Pair:
        key, table = next(self.keys), self.tables[kind]
        pair = Pair(kind, Partition(table, key), Partition(table, key + 1))
        self.pairs.append(pair)
        return pair
