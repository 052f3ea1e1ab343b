"""What tests of the control keyspace share: a keyspace of the test's own, splits written by plain CQL, a proxy that follows.

Splits are written as Narrows reads them, in its shards and with its checks, but without its lightweight transactions: a
test is the only author of its rows."""

from __future__ import annotations

import itertools
import struct
import subprocess
import time
import uuid

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import OverloadedErrorMessage
from cassandra.query import BatchStatement, BatchType

from support import BINARY, OperationsTest, Proxy, cluster, eventually, host_and_port
# After `support`, which knows where it is.
from splitter import STRATEGY, layout_checksum, shard_of

NAME = "control"
POLL, STALE_SECONDS = "200ms", 1
# What one request of a bulk load may hold without a warning of Cassandra's.
ROWS_PER_BATCH = 40
GENERATION = 1
# One node cannot have a quorum of five copies.
TOO_MANY = "{'class': 'SimpleStrategy', 'replication_factor': 5}"
ENOUGH = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
FOLLOWING_FAILS = "cannot be followed; writes and reads go on"
SEEDING_FAILS = "the configured tables could not be compared with the control keyspace"
OUT_OF_SERVICE = "the table was changed; all its splits are out of service"


def partition_key(sensor: str, day: int) -> bytes:
    """Two columns as Cassandra hashes them: each as its length, its bytes and a zero."""
    parts = (sensor.encode(), struct.pack(">i", day))
    return b"".join(struct.pack(">H", len(part)) + part + b"\0" for part in parts)


# A bucket of a layout: the serialized clustering values of its first row, rows, bytes. This one begins where all begin.
EMPTY = ((), 0, 0)


class Splits:
    """Writes the splits of one table."""

    def __init__(self, session, control: str, keyspace: str, table: str, shards: int) -> None:
        self.session, self.names, self.shards = session, (keyspace, table), shards
        self.versions = itertools.count(int(time.time() * 1_000_000))
        place = "keyspace_name = ? AND table_name = ? AND shard = ?"
        self.static = session.prepare(f"UPDATE {control}.wide_row SET version = ? WHERE {place}")
        self.begin = session.prepare(f"UPDATE {control}.wide_row SET version = ?, epoch = 0, epoch_version = ? WHERE {place}")
        self.row = session.prepare(f"UPDATE {control}.wide_row SET row_version = ?, row_epoch = 0, state = ?, "
                                   f"generation = {GENERATION} WHERE {place} AND partition_key = ?")
        self.layout = session.prepare(
            f"INSERT INTO {control}.wide_row_layout (keyspace_name, table_name, partition_key, generation, bucket, split_table, "
            f"strategy, bucket_count, checksum, first_clustering, row_count, byte_count) "
            f"VALUES (?, ?, ?, {GENERATION}, ?, ?, '{STRATEGY}', ?, ?, ?, ?, ?)")
        self.read = session.prepare(f"SELECT epoch FROM {control}.wide_row WHERE {place} LIMIT 1")
        version = next(self.versions)
        for shard in range(shards, 2 * shards):
            session.execute(self.begin, (version, version, *self.names, shard))

    def set_version(self, key: bytes) -> int:
        """Only the shard's version, as an author leaves it that is half-way."""
        version = next(self.versions)
        self.session.execute(self.static, (version, *self.names, shard_of(key, self.shards)))
        return version

    def set_row(self, key: bytes, version: int, state: str) -> None:
        self.session.execute(self.row, (version, state, *self.names, shard_of(key, self.shards), key))

    def set(self, key: bytes, state: str) -> None:
        """Version and row in one mutation: nobody sees one without the other."""
        version, shard = next(self.versions), shard_of(key, self.shards)
        batch = BatchStatement(BatchType.UNLOGGED)
        batch.add(self.static, (version, *self.names, shard))
        batch.add(self.row, (version, state, *self.names, shard, key))
        self.session.execute(batch)

    def set_many(self, keys: list[bytes], state: str = "COMPLETED") -> None:
        """Rows first, versions at the end."""
        by_shard: dict[int, list[bytes]] = {}
        for key in keys:
            by_shard.setdefault(shard_of(key, self.shards), []).append(key)
        pieces = [(shard, some[at:at + ROWS_PER_BATCH]) for shard, some in by_shard.items()
                  for at in range(0, len(some), ROWS_PER_BATCH)]
        under_way: list = []
        for shard, some in pieces:
            batch = BatchStatement(BatchType.UNLOGGED)
            for key in some:
                batch.add(self.row, (next(self.versions), state, *self.names, shard, key))
            under_way.append(self.session.execute_async(batch))
            if len(under_way) > 32:
                under_way.pop(0).result()
        for future in under_way:
            future.result()
        statics = [(next(self.versions), *self.names, shard) for shard in by_shard]
        execute_concurrent_with_args(self.session, self.static, statics, raise_on_first_error=True)

    def set_layout(self, key: bytes, buckets=(EMPTY,)) -> None:
        keyspace, table = self.names
        check = layout_checksum(self.names, key, GENERATION, split_table := f"wide_{table}_1", buckets)
        for number, (first, rows, size) in enumerate(buckets):
            place = (keyspace, table, key, number, split_table, len(buckets), check)
            self.session.execute(self.layout, (*place, list(first), rows, size))

    def epochs(self) -> list[int]:
        rows = [self.session.execute(self.read, (*self.names, shard)).one() for shard in range(self.shards, 2 * self.shards)]
        return [row.epoch if row else None for row in rows]


class ControlTest(OperationsTest):
    """A keyspace with a table `reading`, and the name of a control keyspace that is not made yet; both dropped at the end."""

    shards = 4
    cluster_name = NAME

    def setUp(self) -> None:
        super().setUp()
        self.contacts = cluster(self.cluster_name)["contact_points"]
        # Sessions of its own for everything that a test does around the proxy.
        self.direct = self.driver(*host_and_port(self.contacts[0]))
        self.watched = self.keyspace(self.direct)
        self.control = f"operations_{uuid.uuid4().hex[:12]}"
        self.addCleanup(self.direct.execute, f"DROP KEYSPACE IF EXISTS {self.control}", timeout=60)
        self.table = self.make_table("reading")

    def make_table(self, name: str) -> str:
        self.direct.execute(f"CREATE TABLE {self.watched}.{name} (sensor text, day int, ts int, value text, "
                            f"PRIMARY KEY ((sensor, day), ts))", timeout=60)
        return f"{self.watched}.{name}"

    def make_split_table(self) -> None:
        """Without one, writes go on whatever a proxy knows: nothing of the table can be split."""
        self.direct.execute(f"CREATE TABLE {self.watched}.wide_reading_1 (k int PRIMARY KEY)", timeout=60)

    def settings(self, control: dict | None = None, tables: list[str] | None = None, **table) -> dict:
        """Of a proxy that notices soon what it does not know any more."""
        tables = [self.table] if tables is None else tables
        control = {"keyspace": self.control, "poll_interval": POLL, "max_staleness": f"{STALE_SECONDS}s", **(control or {})}
        return {"control": control,
                "table": [{"name": name, "shards": self.shards, **table} for name in tables]}

    def follower(self, settings: dict | None = None, **options) -> Proxy:
        return self.proxy(self.contacts, settings or self.settings(), **options)

    def client(self, proxy: Proxy):
        """Through the proxy; the driver's own attempts would hide what a first one was answered."""
        return self.driver(proxy.host, proxy.port, profile={"retry_policy": FallthroughRetryPolicy()})

    def make_control_keyspace(self) -> None:
        """As a DBA does."""
        settings = {**self.settings(), "upstream": {"contact_points": self.contacts}}
        directory = self.directory / "dba"
        directory.mkdir()
        proxy = Proxy(directory, settings)
        done = subprocess.run([BINARY, "schema", "apply", "--config", proxy.config], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def introduce(self, settings: dict | None = None) -> None:
        """Lets a proxy see the tables, and ends it: splits of a table that none has seen are not believed."""
        proxy = self.follower(settings, name="before")
        self.assertTrue(eventually(self.is_seen))
        self.assertEqual(proxy.stop(), 0)

    def is_seen(self) -> bool:
        rows = self.direct.execute(f"SELECT seen_table_id FROM {self.control}.watched_table").all()
        return bool(rows) and all(row.seen_table_id for row in rows)

    def splits(self, table: str = "reading") -> Splits:
        self.assertTrue(eventually(self.is_seen))
        return Splits(self.direct, self.control, self.watched, table, self.shards)

    def hold_split(self, key: tuple[str, int], rows: int, per_bucket: int) -> Splits:
        """Rows in a partition and in the buckets of a split of it, whose state is still to be set."""
        self.direct.execute(f"CREATE TABLE {self.watched}.wide_reading_1 (sensor text, day int, narrows_generation int, narrows_bucket int, "
                            f"ts int, value text, PRIMARY KEY ((sensor, day, narrows_generation, narrows_bucket), ts))", timeout=60)
        for ts in range(rows):
            values = (*key, ts, f"value {ts}")
            self.direct.execute(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES (%s, %s, %s, %s)", values)
            self.direct.execute(f"INSERT INTO {self.watched}.wide_reading_1 (sensor, day, ts, value, narrows_generation, narrows_bucket) "
                                f"VALUES (%s, %s, %s, %s, 1, %s)", (*values, ts // per_bucket))
        splits = self.splits()
        firsts = [()] + [(struct.pack(">i", ts),) for ts in range(per_bucket, rows, per_bucket)]
        splits.set_layout(partition_key(*key), [(first, per_bucket, 2 << 20) for first in firsts])
        return splits

    def replicate_control(self, replication: str) -> None:
        """With TOO_MANY nobody can read the control keyspace, with ENOUGH all can again."""
        self.direct.execute(f"ALTER KEYSPACE {self.control} WITH replication = {replication}", timeout=60)

    def rows(self, table: str | None = None) -> list:
        """What is in Cassandra, asked around the proxy."""
        return sorted(self.direct.execute(f"SELECT * FROM {table or self.table}"))

    def assert_refused(self, session, statement, *values) -> None:
        with self.assertRaises(OverloadedErrorMessage) as caught:
            session.execute(statement, *values)
        self.assertIn("narrows: ", caught.exception.message)
        self.assertIn("was not forwarded", caught.exception.message)
