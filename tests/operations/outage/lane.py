"""One caller of the load: every operation goes through a proxy and, to a twin partition, straight to Cassandra, at once."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import random
import threading
import time
import traceback

from outage.field import BASE_ROWS, FIRST_WRITTEN, Fate, Kind, Pair, Partition, base_value, written_value
from outage.line import Line, Outcome, Statement, rows
from outage.verdict import Tally

PAUSE_SECONDS = 0.05
# What failed in Cassandra's own words, or in silence, may be the machine's fault: it counts if it comes again and again.
REPEATS, REPEAT_PAUSE_SECONDS = 2, 1.0
NEWEST = 20


@dataclasses.dataclass(frozen=True)
class Rules:
    """How failures are judged."""

    # Splits can be ended all the time, so late writes must succeed.
    can_end: bool
    # Failures are compared as rates, at the end.
    by_rate: bool = False
    # Through a proxy that was started inside the outage, which may not know what is split.
    inside: bool = False
    # A read sees every write that was acknowledged before, by the consistency levels.
    reads_see_writes: bool = False


@dataclasses.dataclass(frozen=True)
class Operation:
    """One statement for each side; the read's checks say what is wrong with a reply."""

    pair: Pair
    what: str
    texts: tuple[Statement, Statement]
    # The row that is written.
    row: int | None = None
    check: object = None


class Lane(threading.Thread):
    def __init__(self, pairs: list[Pair], lines: tuple[Line, Line], consistency: int, rules: Rules, tally: Tally, seed: int,
                 pause: float = PAUSE_SECONDS) -> None:
        super().__init__(daemon=True)
        self.pairs, self.consistency, self.rules, self.tally, self.pause = pairs, consistency, rules, tally, pause
        self.through, self.direct = lines
        self.random = random.Random(seed)
        self.stopped, self.homewards = threading.Event(), threading.Event()
        self.broken: str | None = None
        self.sides = concurrent.futures.ThreadPoolExecutor(1)

    def run(self) -> None:
        try:
            while not self.stopped.wait(self.pause * self.random.uniform(0.5, 1.5)):
                if self.homewards.is_set():
                    self.homewards.clear()
                    self.through.go_home()
                    self.direct.go_home()
                self.operate(self.choose())
        except Exception:  # a mistake here must not pass for a quiet lane
            self.broken = traceback.format_exc()
        finally:
            self.sides.shutdown()

    def stop(self) -> None:
        self.stopped.set()

    def choose(self) -> Operation:
        pair, prepared = self.random.choice(self.pairs), self.random.random() < 0.5
        ways = [self.write] if self.random.random() < 0.5 and self.may_write(pair) else [self.slice, self.point, self.newest]
        return self.random.choice(ways)(pair, prepared)

    def may_write(self, pair: Pair) -> bool:
        """Writes to split partitions have lanes of their own, since they may wait for seconds."""
        return pair.kind is not Kind.SPLIT or all(other.kind is Kind.SPLIT for other in self.pairs)

    def statements(self, pair: Pair, text: str, values, prepared: bool) -> tuple[Statement, Statement]:
        """`values` says them for a partition."""
        text = text.format(pair.through.table)
        return tuple(Statement(text, values(side), self.consistency, prepared) for side in (pair.through, pair.direct))

    def write(self, pair: Pair, prepared: bool) -> Operation:
        row = next(pair.next_row)
        values = lambda side: (side.key, row, written_value(side.key, row))
        return Operation(pair, "write", self.statements(pair, "INSERT INTO {} (k, c, v) VALUES (?, ?, ?)", values, prepared), row)

    def slice(self, pair: Pair, prepared: bool) -> Operation:
        """Of rows that never change."""
        first = self.random.randrange(BASE_ROWS)
        end = self.random.randrange(first, BASE_ROWS) + 1
        expected = [(row, base_value(row)) for row in range(first, end)]
        texts = self.statements(pair, "SELECT c, v FROM {} WHERE k = ? AND c >= ? AND c < ?", lambda side: (side.key, first, end), prepared)
        return Operation(pair, "slice", texts, check=lambda _, found: found == expected)

    def point(self, pair: Pair, prepared: bool) -> Operation:
        """A row that both sides have acknowledged, or one from before."""
        both = [row for row, fate in pair.through.fates.items()
                if fate is Fate.ACKNOWLEDGED and pair.direct.fates.get(row) is Fate.ACKNOWLEDGED]
        row = self.random.choice(both) if both and self.random.random() < 0.7 else self.random.randrange(BASE_ROWS)
        texts = self.statements(pair, "SELECT c, v FROM {} WHERE k = ? AND c = ?", lambda side: (side.key, row), prepared)

        def check(side: Partition, found: list) -> bool:
            value = base_value(row) if row < FIRST_WRITTEN else written_value(side.key, row)
            is_certain = row < FIRST_WRITTEN or self.rules.reads_see_writes
            return found == [(row, value)] or not is_certain and found == []
        return Operation(pair, "point", texts, check=check)

    def newest(self, pair: Pair, prepared: bool) -> Operation:
        texts = self.statements(pair, f"SELECT c, v FROM {{}} WHERE k = ? ORDER BY c DESC LIMIT {NEWEST}", lambda side: (side.key,), prepared)
        acknowledged = {id(side): max(side.with_fate(Fate.ACKNOWLEDGED), default=0) for side in (pair.through, pair.direct)}

        def check(side: Partition, found: list) -> bool:
            last = acknowledged[id(side)] if self.rules.reads_see_writes else 0
            return len(found) == NEWEST and found == sorted(found, reverse=True) and found[0][0] >= max(last, BASE_ROWS - 1)
        return Operation(pair, "newest", texts, check=check)

    def operate(self, operation: Operation) -> None:
        through, direct = self.send(operation)
        is_late = operation.row is not None and operation.pair.kind is Kind.SPLIT
        with self.tally.lock:
            self.tally.operations += 1
            self.tally.late_operations += is_late
            self.tally.by_kind[operation.pair.kind.name, operation.what] += 1
            if not is_late:
                self.tally.note("through", through)
                self.tally.note("direct", direct)
        if not through.ok and direct.ok:
            self.judge(operation, is_late, through)

    def send(self, operation: Operation) -> tuple[Outcome, Outcome]:
        """Both at the same time, and notes what became of them."""
        future = self.sides.submit(self.direct.run, operation.texts[1])
        through, direct = self.through.run(operation.texts[0]), future.result()
        self.look_at(operation, operation.pair.through, through)
        self.look_at(operation, operation.pair.direct, direct)
        return through, direct

    def look_at(self, operation: Operation, side: Partition, outcome: Outcome) -> None:
        if operation.row is not None:
            side.note(operation.row, fate(outcome))
        elif outcome.ok and not operation.check(side, found := rows(outcome.body)):
            what = f"{operation.what} of {side.table} {side.key}, {operation.pair.kind.value}: {operation.texts[0]} found {found}"
            with self.tally.lock:
                if side is operation.pair.direct:
                    self.tally.trouble.append(f"wrong answer without a proxy to a {what}")
                else:
                    self.tally.differences += 1
                    self.tally.tell(f"wrong answer to a {what}")

    def judge(self, operation: Operation, is_late: bool, through: Outcome) -> None:
        """Of an operation that failed through the proxy and succeeded directly."""
        is_ours = through.failures[-1].is_ours
        is_unsure = operation.row is not None and operation.pair.kind is not Kind.ELSEWHERE
        counter = "failed"
        if is_late and is_ours and not self.rules.can_end:
            counter = "late_refused"
        elif self.rules.inside and is_unsure and is_ours:
            counter = "inside_refused"
        elif self.rules.by_rate:
            # The rates have it already.
            return
        elif not is_ours and not self.comes_again(operation):
            return
        with self.tally.lock:
            setattr(self.tally, counter, getattr(self.tally, counter) + 1)
            if counter == "failed":
                self.tally.failed_by_kind[operation.pair.kind.name, operation.what] += 1
                whose = " through a proxy started inside" if self.rules.inside else ""
                self.tally.tell(f"{operation.what}{whose}, partition {operation.pair.kind.value}: {through.failures[-1]}")

    def comes_again(self, operation: Operation) -> bool:
        for _ in range(REPEATS):
            time.sleep(REPEAT_PAUSE_SECONDS)
            through, direct = self.send(operation)
            if through.ok or not direct.ok:
                return False
            if through.failures[-1].is_ours:
                return True
        return True


def fate(outcome: Outcome) -> Fate:
    if outcome.ok:
        return Fate.ACKNOWLEDGED
    is_refused = all(failure.is_not_forwarded for failure in outcome.failures)
    return Fate.REFUSED if is_refused else Fate.UNKNOWN
