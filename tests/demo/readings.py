"""The data of the demo: one day of three sensors, as it was written days ago. Two are in the table of cql/examples/legacy.cql,
one is in a table like it."""

import datetime
import pathlib
import random
import string

from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType

SCHEMA = pathlib.Path("cql/examples/legacy.cql")
TABLE = "plant.reading"
# Watched without any settings.
ALARMS = "plant.alarm"
CREATE_ALARMS = (f"CREATE TABLE IF NOT EXISTS {ALARMS} (sensor text, day date, ts timestamp, value double, note text, "
                 "PRIMARY KEY ((sensor, day), ts)) WITH CLUSTERING ORDER BY (ts DESC)")
# A partition that was written within the last hours may still be written, and is not split.
DAY = datetime.datetime.now(datetime.timezone.utc).date() - datetime.timedelta(days=3)
MIDNIGHT = datetime.datetime.combine(DAY, datetime.time())
NOON = MIDNIGHT + datetime.timedelta(hours=12)

# Wide: a reading every two seconds.
PUMP, PUMP_ROWS = "pump-7", 40_000
# A few readings of the night; everything later was deleted. The table's order is newest first, so that every read of
# the newest rows must pass the deletions, and Cassandra gives up at 100,000 of them.
VALVE, VALVE_ROWS, DELETIONS = "valve-3", 5_000, 110_000
# Small, and Cassandra still answers, but only with a warning.
GATE, GATE_ROWS, GATE_DELETIONS = "gate-5", 2_000, 50_000
DELETED_FROM = MIDNIGHT + datetime.timedelta(hours=3)

NOTE_BYTES = 1_000
# Each so many-th note expires; the reading itself stays.
EXPIRES_EVERY = 50
EXPIRY_SECONDS = 90 * 24 * 3600

ROWS_PER_BATCH = 50
DELETIONS_PER_BATCH = 1_000
BATCHES_AT_A_TIME = 8

INSERT = "INSERT INTO {} (sensor, day, ts, value, note) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
INSERT_VALUE = "INSERT INTO {} (sensor, day, ts, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
SET_NOTE = f"UPDATE {{}} USING TIMESTAMP ? AND TTL {EXPIRY_SECONDS} SET note = ? WHERE sensor = ? AND day = ? AND ts = ?"
DELETE = "DELETE FROM {} USING TIMESTAMP ? WHERE sensor = ? AND day = ? AND ts = ?"


def table_of(sensor):
    return ALARMS if sensor == GATE else TABLE


def select(what, sensor, rest=""):
    return f"SELECT {what} FROM {table_of(sensor)} WHERE sensor = '{sensor}' AND day = '{DAY}'{rest}"


def micros(moment):
    return int(moment.replace(tzinfo=datetime.timezone.utc).timestamp() * 1_000_000)


def create(session):
    text = "\n".join(line for line in SCHEMA.read_text().splitlines() if not line.startswith("--"))
    for statement in [*filter(str.strip, text.split(";")), CREATE_ALARMS]:
        session.execute(statement)


def load_rows(session, sensor, count, bar):
    """Each row with the time of its reading as its write time."""
    table = table_of(sensor)
    insert, insert_value, set_note = (session.prepare(text.format(table)) for text in (INSERT, INSERT_VALUE, SET_NOTE))
    letters = "".join(random.Random(sensor).choices(string.ascii_letters + " ", k=64 * NOTE_BYTES))

    def add(batch, number):
        ts = MIDNIGHT + datetime.timedelta(seconds=2 * number)
        value, start = number / 10, number * 37 % (63 * NOTE_BYTES)
        note = f"reading {number}: {letters[start:start + NOTE_BYTES]}"
        if number % EXPIRES_EVERY:
            batch.add(insert, (sensor, DAY, ts, value, note, micros(ts)))
        else:
            batch.add(insert_value, (sensor, DAY, ts, value, micros(ts)))
            batch.add(set_note, (micros(ts), note, sensor, DAY, ts))

    execute(session, add, count, ROWS_PER_BATCH, bar)


def load_deletions(session, sensor, count, bar):
    """Single rows, one every half second, deleted at the end of the day."""
    delete, end = session.prepare(DELETE.format(table_of(sensor))), micros(MIDNIGHT + datetime.timedelta(days=1))

    def add(batch, number):
        ts = DELETED_FROM + datetime.timedelta(seconds=number / 2)
        batch.add(delete, (end, sensor, DAY, ts))

    execute(session, add, count, DELETIONS_PER_BATCH, bar)


def execute(session, add, count, per_batch, bar):
    """Batches of one partition, a few at a time."""
    def batches():
        for start in range(0, count, per_batch):
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for number in range(start, min(start + per_batch, count)):
                add(batch, number)
            yield batch, ()

    for _ in execute_concurrent(session, batches(), concurrency=BATCHES_AT_A_TIME, results_generator=True):
        bar.add(per_batch)
