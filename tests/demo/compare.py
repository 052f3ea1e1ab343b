"""Direct on Cassandra and through Narrows: the same rows, and how long each takes."""

import dataclasses
import statistics
import time

from cassandra import ReadFailure
from cassandra.query import SimpleStatement

import readings
from show import duration
from world import NotAsTold

PAGE_ROWS = 1_000
# native_protocol_v5, "Read_failure": the replica met too many tombstones.
TOO_MANY_TOMBSTONES = 1
FAILS = "ReadFailure 0x1300"
TRIES_MAX = 50

# What leads a read of the valve past its tombstones, so that the original can answer, too.
PAST = f" AND ts < '{readings.DELETED_FROM.isoformat()}Z'"
NOON = f" AND ts <= '{readings.NOON.isoformat()}Z'"

EVERYTHING = "sensor, day, ts, value, note, WRITETIME(value), WRITETIME(note), TTL(value), TTL(note)"


def scan(session, text):
    """All rows as a driver gets them, page by page."""
    return list(session.execute(SimpleStatement(text, fetch_size=PAGE_ROWS)))


def timed(session, text):
    """The rows, or None where Cassandra gives up over tombstones, and how long that took."""
    begin = time.perf_counter()
    try:
        rows = scan(session, text)
    except ReadFailure as failure:
        if TOO_MANY_TOMBSTONES not in (failure.error_code_map or {}).values():
            raise
        rows = None
    return rows, time.perf_counter() - begin


def warned(session, text):
    """How many rows there are, what Cassandra warns of, and how long that took."""
    begin = time.perf_counter()
    result = session.execute(SimpleStatement(text, fetch_size=PAGE_ROWS))
    rows = len(list(result))
    return rows, result.response_future.warnings or [], time.perf_counter() - begin


def prove_equal(direct, through, sensor, rest, bar):
    """Compares every row of both sides, cell by cell with write times and what is left of their TTLs, in pages. Returns the
    number of rows, and of notes that expire."""
    statement = SimpleStatement(readings.select(EVERYTHING, sensor, rest), fetch_size=PAGE_ROWS)
    states, rows, expiring = (None, None), 0, 0
    while True:
        one, other = in_one_second(direct, through, statement, states)
        if one.current_rows != other.current_rows:
            raise NotAsTold(f"{sensor}: rows {rows} to {rows + PAGE_ROWS} are not the same on both sides")
        rows += len(one.current_rows)
        expiring += sum(row.ttl_note is not None for row in one.current_rows)
        bar.add(len(one.current_rows))
        if one.has_more_pages != other.has_more_pages:
            raise NotAsTold(f"{sensor}: after {rows} rows one side has more pages than the other")
        if not one.has_more_pages:
            return rows, expiring
        states = (one.paging_state, other.paging_state)


def in_one_second(direct, through, statement, states):
    """A page of each side, both read within one second of the clock: only then are their TTLs the same."""
    for _ in range(TRIES_MAX):
        second = int(time.time())
        pages = [session.execute(statement, paging_state=state) for session, state in zip((direct, through), states)]
        if int(time.time()) == second:
            return pages
    raise NotAsTold("this machine is too slow to read two pages within one second")


@dataclasses.dataclass
class Case:
    """One SELECT, asked of the original and of its split."""

    name: str
    sensor: str
    what: str
    rest: str = ""
    rounds: int = 7
    # Where the original cannot answer: what it is asked instead, to know which rows are right.
    detour: str | None = None

    def measure(self, direct, through):
        """Medians of both sides, asked in turns."""
        text = readings.select(self.what, self.sensor, self.rest)
        answer = self.expected(direct)
        took = {direct: [], through: []}
        for number in range(self.rounds + 1):
            for session in (direct, through) if number % 2 else (through, direct):
                rows, seconds = timed(session, text)
                self.check(rows, answer, session is direct)
                # The first is for warming up.
                if number:
                    took[session].append(seconds)
        original, split = (duration(statistics.median(times)) for times in took.values())
        return original if self.detour is None else FAILS, split

    def expected(self, direct):
        # Restrictions stand before ORDER BY and LIMIT.
        return scan(direct, readings.select(self.what, self.sensor, (self.detour or "") + self.rest))

    def check(self, rows, answer, is_original):
        should_fail = is_original and self.detour is not None
        if should_fail and rows is not None:
            raise NotAsTold(f"{self.sensor}, {self.name}: the original answers in spite of its tombstones")
        if not should_fail and rows != answer:
            raise NotAsTold(f"{self.sensor}, {self.name}: not the rows of the original")


def cases():
    pump, valve, gate = readings.PUMP, readings.VALVE, readings.GATE
    return [
        Case("newest 10 rows", pump, "*", " LIMIT 10"),
        Case("100 rows before noon", pump, "*", NOON + " LIMIT 100"),
        Case("oldest 10 rows, in reverse", pump, "*", " ORDER BY ts ASC LIMIT 10"),
        Case("count(*)", pump, "count(*)", rounds=3),
        Case("all rows, in pages of 1,000", pump, "*", rounds=3),
        Case("newest 10 rows", valve, "*", " LIMIT 10", detour=PAST),
        Case("count(*)", valve, "count(*)", rounds=3, detour=PAST),
        Case("all rows, in pages of 1,000", valve, "*", rounds=3, detour=PAST),
        Case("newest 10 rows", gate, "*", " LIMIT 10"),
        Case("count(*)", gate, "count(*)", rounds=3),
        Case("all rows, in pages of 1,000", gate, "*", rounds=3),
    ]
