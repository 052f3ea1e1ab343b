"""The check when all is well again: every acknowledged write is there, and both ways to every partition give the same."""

from __future__ import annotations

import random
import time

from outage.field import BASE_ROWS, Pair, Partition
from outage.line import ALL, Line, Statement, rows
from outage.verdict import Tally
from outage.world import RECOVERY_SECONDS_MAX, World

RANDOM_READS = 3
# A write of an unknown outcome may still arrive, between two reads that are compared.
REREADS, REREAD_PAUSE_SECONDS = 3, 2.0
THROUGH = ("single", "mirror")


def check(world: World, tally: Tally, seed: int) -> None:
    aftermath = Aftermath(world, tally, random.Random(seed))
    for pair in world.field.pairs:
        aftermath.check_pair(pair)
    aftermath.close()


class Aftermath:
    def __init__(self, world: World, tally: Tally, choices: random.Random) -> None:
        self.tally, self.random = tally, choices
        self.direct = world.line("direct")
        self.through = {name: world.line(name) for name in THROUGH}

    def close(self) -> None:
        for line in (self.direct, *self.through.values()):
            line.close()

    def check_pair(self, pair: Pair) -> None:
        lost: set[int] = set()
        for name, line in self.through.items():
            lost |= self.look(pair.through, line, f"through {name}")
            for text, values in [("", ()), *(self.shape() for _ in range(RANDOM_READS))]:
                for side in (pair.through, pair.direct):
                    self.compare(side, name, line, text, values)
        lost |= self.look(pair.through, self.direct, "directly")
        self.tally.lost += len(lost)
        found = dict(rows(self.ask(self.direct, self.statement(pair.direct, "", ()))))
        if missing := pair.direct.missing(found):
            self.tally.trouble.append(f"Cassandra itself lost rows {missing} of {pair.direct.table} {pair.direct.key}")

    def look(self, side: Partition, line: Line, where: str) -> set[int]:
        found = dict(rows(self.ask(line, self.statement(side, "", ()))))
        missing, made_up = side.missing(found), side.made_up(found)
        if missing:
            self.tally.tell(f"rows {missing} of {side.table} {side.key} were acknowledged and are not found {where}")
        if made_up:
            self.tally.differences += 1
            self.tally.tell(f"rows {made_up} of {side.table} {side.key} were refused, and are found {where}")
        return set(missing)

    def shape(self) -> tuple[str, tuple]:
        """What may follow the partition key in a SELECT."""
        low, limit = self.random.randrange(BASE_ROWS), self.random.randrange(1, 30)
        order = self.random.choice(["", " ORDER BY c DESC"])
        return self.random.choice([(" AND c = ?", (low,)), (" AND c >= ?" + order, (low,)),
                                   (f" AND c < ?{order} LIMIT {limit}", (low,)), (f"{order} LIMIT {limit}", ())])

    def statement(self, side: Partition, rest: str, values: tuple) -> Statement:
        return Statement(f"SELECT c, v FROM {side.table} WHERE k = ?{rest}", (side.key, *values), ALL)

    def compare(self, side: Partition, name: str, line: Line, rest: str, values: tuple) -> None:
        """The replies byte by byte: metadata, order and rows."""
        statement = self.statement(side, rest, values)
        for _ in range(REREADS):
            through, direct = self.ask(line, statement), self.ask(self.direct, statement)
            if through == direct:
                return
            time.sleep(REREAD_PAUSE_SECONDS)
        self.tally.differences += 1
        self.tally.tell(f"{statement.literal()} differs through {name}")

    def ask(self, line: Line, statement: Statement) -> bytes:
        """Until all replicas answer, which nodes that have just returned may not do at once."""
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while not (outcome := line.run(statement)).ok:
            assert time.monotonic() < deadline, f"{statement.literal()}: {outcome.failures[-1]}"
            time.sleep(0.5)
        return outcome.body
