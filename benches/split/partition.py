"""A wide partition and how it is written: rows of 1,000 bytes that do not compress, two days old."""

from __future__ import annotations

import random
import threading
import time

from cassandra.query import BatchStatement, BatchType

from progress import Progress

KEYSPACE, TABLE = "bench_split", "reading"
# What is known of splits.
CONTROL = "narrows"
# A timestamp of 8 bytes and a blob.
ROW_BYTES = 1000
VALUE_BYTES = ROW_BYTES - 8
ROWS_PER_BATCH, BATCHES_AT_A_TIME = 64, 24
DAY = 7
# A partition counts as closed when nothing was written to it for some hours.
AGE_MICROS = 2 * 86_400 * 1_000_000
FIRST_MILLIS = 1_700_000_000_000
SEED = 20261116
# Values are pieces of so many random ones: the same one comes again long after a compressor has forgotten it.
POOL_ROWS = 10_000


def make_tables(session) -> None:
    """Afresh, should the node be one that was used before."""
    for keyspace in (KEYSPACE, CONTROL):
        session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.execute(f"CREATE TABLE {KEYSPACE}.{TABLE} (sensor text, day int, ts timestamp, note blob, PRIMARY KEY ((sensor, day), ts))")


class Partition:
    def __init__(self, sensor: str, megabytes: int) -> None:
        self.sensor, self.megabytes = sensor, megabytes
        self.rows = megabytes * 1_000_000 // ROW_BYTES

    def arguments(self) -> list[str]:
        """As `narrows splits` wants them."""
        return [f"{KEYSPACE}.{TABLE}", f"'{self.sensor}'", str(DAY)]

    def load(self, session) -> None:
        progress = Progress(f"loading {self.megabytes} MB in rows of {ROW_BYTES} bytes")
        insert = session.prepare(f"INSERT INTO {KEYSPACE}.{TABLE} (sensor, day, ts, note) VALUES (?, ?, ?, ?) USING TIMESTAMP ?")
        written = int(time.time() * 1_000_000) - AGE_MICROS
        pool = random.Random(SEED).randbytes(POOL_ROWS * VALUE_BYTES)
        values = [pool[at:at + VALUE_BYTES] for at in range(0, len(pool), VALUE_BYTES)]
        pipe = Pipe(session)
        for first in range(0, self.rows, ROWS_PER_BATCH):
            batch = BatchStatement(BatchType.UNLOGGED)
            for row in range(first, min(first + ROWS_PER_BATCH, self.rows)):
                batch.add(insert, (self.sensor, DAY, FIRST_MILLIS + 1000 * row, values[row % POOL_ROWS], written + row))
            pipe.send(batch)
            progress.show(f"{100 * first // self.rows} %")
        pipe.finish()
        progress.done(f"{self.rows} rows in {time.monotonic() - progress.began:.0f} s")


class Pipe:
    """Some statements under way at a time; the first failure ends it."""

    def __init__(self, session) -> None:
        self.session, self.room, self.failure = session, threading.Semaphore(BATCHES_AT_A_TIME), None

    def send(self, statement, values=None) -> None:
        self.room.acquire()
        if self.failure:
            raise self.failure
        self.session.execute_async(statement, values).add_callbacks(self.succeeded, self.failed)

    def succeeded(self, _) -> None:
        self.room.release()

    def failed(self, error) -> None:
        self.failure = error
        self.room.release()

    def finish(self) -> None:
        for _ in range(BATCHES_AT_A_TIME):
            self.room.acquire()
        if self.failure:
            raise self.failure
