"""The wide partition that drivers page through: made on the original, split by hand, dropped at the end.

    partition.py make KEYSPACE | split KEYSPACE CONTROL | drop KEYSPACE CONTROL        of the cluster in DRIVER_CONTACTS
"""
import os
import sys
import time
from pathlib import Path

from cassandra import InvalidRequest, ReadFailure
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import BatchStatement, BatchType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "splitter"))
from splitter import Splitter  # noqa: E402

ROWS = int(os.environ["DRIVER_WIDE_ROWS"])
SHARDS = int(os.environ["DRIVER_SHARDS"])
KEY, TABLE, BUCKETS = "wide", "events", 13
ROWS_PER_BATCH, BATCHES_AT_A_TIME = 200, 16
SEEN_SECONDS_MAX = 30


def connect():
    contacts = [contact.rsplit(":", 1) for contact in os.environ["DRIVER_CONTACTS"].split(",")]
    cluster = Cluster([host for host, _ in contacts], port=int(contacts[0][1]), connect_timeout=15,
                      execution_profiles={EXEC_PROFILE_DEFAULT: ExecutionProfile(request_timeout=60)})
    return cluster.connect()


def make(session, keyspace):
    """Small rows: a text that is sometimes null, and a number."""
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', '{os.environ['DRIVER_DC']}': 1}}")
    session.execute(f"CREATE TABLE {keyspace}.{TABLE} (pk text, ck int, n bigint, v text, PRIMARY KEY (pk, ck))")
    insert = session.prepare(f"INSERT INTO {keyspace}.{TABLE} (pk, ck, n, v) VALUES ('{KEY}', ?, ?, ?)")
    under_way = []
    for at in range(0, ROWS, ROWS_PER_BATCH):
        batch = BatchStatement(BatchType.UNLOGGED)
        for ck in range(at, min(at + ROWS_PER_BATCH, ROWS)):
            batch.add(insert, (ck, ck * 10_000_000_000, None if ck % 7 == 0 else f"grüße {ck}"))
        under_way.append(session.execute_async(batch))
        if len(under_way) > BATCHES_AT_A_TIME:
            under_way.pop(0).result()
    for future in under_way:
        future.result()


def split(session, keyspace, control):
    """Once a proxy has seen the table: splits of one that none has seen are not believed."""
    end = time.monotonic() + SEEN_SECONDS_MAX
    while not is_seen(session, control):
        if time.monotonic() > end:
            sys.exit(f"no proxy saw {keyspace}.{TABLE} within {SEEN_SECONDS_MAX} s")
        time.sleep(0.2)
    splitter = Splitter(session, control, keyspace, TABLE, SHARDS)
    splitter.create()
    # Buckets of different lengths, none of which is a whole number of pages.
    starts = sorted({0, *(ROWS * number // BUCKETS + number % 5 for number in range(1, BUCKETS))})
    copied = splitter.split((KEY,), starts)
    if copied != ROWS:
        sys.exit(f"{copied} of {ROWS} rows were there to be split")


def is_seen(session, control):
    """The proxy makes the control keyspace meanwhile, and not every node knows of it at once."""
    try:
        return any(row.seen_table_id for row in session.execute(f"SELECT seen_table_id FROM {control}.watched_table"))
    except (InvalidRequest, ReadFailure):
        return False


def drop(session, keyspace, control):
    for name in (keyspace, control):
        session.execute(f"DROP KEYSPACE IF EXISTS {name}")


if __name__ == "__main__":
    SESSION = connect()
    {"make": make, "split": split, "drop": drop}[sys.argv[1]](SESSION, *sys.argv[2:])
    SESSION.cluster.shutdown()
