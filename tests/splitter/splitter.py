"""A small splitter in plain CQL: copies one partition into buckets and tells proxies of it, as they read it.

It shares no code with Narrows: shards, layouts and their checks are computed here once more. It is the only author of its
rows, so it needs no lightweight transactions. A row must have a regular column that is not null, and was written by INSERT:
the time of a row marker cannot be read, and the newest cell's is taken for it. Collections that are not frozen, lists,
counters and static columns are not for it."""

from __future__ import annotations

import itertools
import struct
import time

from cassandra import ConsistencyLevel
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType
from xxhash import xxh3_64_intdigest

HIDDEN = ("narrows_generation", "narrows_bucket")
STRATEGY = "by_hand"
# What one batch may hold: they are of one bucket, so only their size counts.
ROWS_PER_BATCH = 200
BATCHES_AT_A_TIME = 16


def shard_of(key: bytes, shards: int) -> int:
    """Of 16 shards the numbers are 16 to 31."""
    return shards + (xxh3_64_intdigest(key) * shards >> 64)


def partition_key(parts: list[bytes]) -> bytes:
    """As Cassandra hashes it: one column as it is, several each as their length, their bytes and a zero."""
    if len(parts) == 1:
        return parts[0]
    return b"".join(struct.pack(">H", len(part)) + part + b"\0" for part in parts)


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def layout_checksum(names: tuple[str, str], key: bytes, generation: int, split_table: str,
                    buckets: list[tuple[list[bytes], int, int]]) -> int:
    """Of all that a layout says, as a signed number; a bucket is its first clustering values, its rows and its bytes."""
    body = b"NLT\x01" + b"".join(sized(data) for data in (*(name.encode() for name in names), key))
    body += struct.pack("<i", generation) + sized(split_table.encode()) + sized(STRATEGY.encode())
    body += struct.pack("<I", len(buckets))
    for first, rows, size in buckets:
        body += struct.pack("<I", len(first)) + b"".join(map(sized, first)) + struct.pack("<QQ", rows, size)
    check = xxh3_64_intdigest(body)
    return check - (check >> 63 << 64)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Splitter:
    """Splits partitions of one table, whose keyspace the driver's metadata must know."""

    def __init__(self, session, control: str, keyspace: str, table: str, shards: int, generation: int = 1) -> None:
        self.session, self.names, self.shards, self.generation = session, (keyspace, table), shards, generation
        self.split_table = f"wide_{table}_1"
        metadata = session.cluster.metadata.keyspaces[keyspace].tables[table]
        self.key = [column.name for column in metadata.partition_key]
        self.clustering = [column.name for column in metadata.clustering_key]
        self.types = {column.name: column.cql_type for column in metadata.columns.values()}
        self.reversed = {column.name: column.is_reversed for column in metadata.clustering_key}
        self.regular = [name for name in self.types if name not in self.key + self.clustering]
        self.versions = itertools.count(int(time.time() * 1_000_000))
        self.prepare_control(quoted(control))
        self.prepare_original()

    def prepare_control(self, control: str) -> None:
        place = "keyspace_name = ? AND table_name = ? AND shard = ?"
        prepare = self.session.prepare
        self.begin = prepare(f"UPDATE {control}.wide_row SET version = ?, epoch = 0, epoch_version = ? WHERE {place}")
        self.static = prepare(f"UPDATE {control}.wide_row SET version = ? WHERE {place}")
        self.row = prepare(f"UPDATE {control}.wide_row SET row_version = ?, row_epoch = 0, state = ?, generation = ? "
                           f"WHERE {place} AND partition_key = ?")
        self.read = prepare(f"SELECT state, generation, row_epoch, epoch FROM {control}.wide_row WHERE {place} AND partition_key = ?")
        self.layout = prepare(
            f"INSERT INTO {control}.wide_row_layout (keyspace_name, table_name, partition_key, generation, bucket, split_table, "
            f"strategy, bucket_count, checksum, first_clustering, row_count, byte_count) VALUES ({', '.join('?' * 12)})")

    def prepare_original(self) -> None:
        """Every row: its clustering values, and each regular column with its write time and TTL."""
        cells = [f"{name}, WRITETIME({name}), TTL({name})" for name in map(quoted, self.regular)]
        columns = ", ".join([*map(quoted, self.clustering), *cells])
        key = " AND ".join(f"{quoted(name)} = ?" for name in self.key)
        self.select = self.session.prepare(f"SELECT {columns} FROM {self.name(self.names[1])} WHERE {key}")
        self.select.consistency_level = ConsistencyLevel.ALL
        # The types that serialize the key's and the clustering columns' values.
        self.kinds = {name: kind for _, _, name, kind in [*self.select.column_metadata, *self.select.result_metadata]}

    def create(self) -> None:
        """The table for the buckets, and shards that nothing is in yet."""
        columns = [f"{quoted(name)} {kind}" for name, kind in self.types.items()] + [f"{name} int" for name in HIDDEN]
        key = ", ".join([*map(quoted, self.key), *HIDDEN])
        clustering = ", ".join(map(quoted, self.clustering))
        order = ", ".join(f"{quoted(name)} {'DESC' if backwards else 'ASC'}" for name, backwards in self.reversed.items())
        self.session.execute(f"CREATE TABLE {self.name(self.split_table)} ({', '.join(columns)}, "
                             f"PRIMARY KEY (({key}), {clustering})) WITH CLUSTERING ORDER BY ({order})", timeout=60)
        version = next(self.versions)
        for shard in range(self.shards, 2 * self.shards):
            self.session.execute(self.begin, (version, version, *self.names, shard))

    def name(self, table: str) -> str:
        return f"{quoted(self.names[0])}.{quoted(table)}"

    def split(self, values: tuple, starts: list[int]) -> int:
        """Copies the partition into buckets that begin at these rows, and puts them into service. Says how many rows."""
        rows, key = self.original(values), self.serialized(values)
        if starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= len(rows):
            raise ValueError(f"buckets of {len(rows)} rows cannot begin at {starts}")
        ranges = list(zip(starts, [*starts[1:], len(rows)]))
        self.copy(values, rows, ranges)
        self.write_layout(key, rows, ranges)
        self.set(key, "COMPLETED")
        return len(rows)

    def serialized(self, values: tuple) -> bytes:
        return partition_key([self.serialize(name, value) for name, value in zip(self.key, values)])

    def serialize(self, column: str, value) -> bytes:
        return self.kinds[column].serialize(value, self.session.cluster.protocol_version)

    def original(self, values: tuple) -> list[tuple]:
        return list(self.session.execute(self.select, values))

    def copy(self, values: tuple, rows: list[tuple], ranges: list[tuple[int, int]]) -> None:
        columns = [*map(quoted, [*self.key, *self.clustering, *self.regular]), *HIDDEN]
        insert = self.session.prepare(f"INSERT INTO {self.name(self.split_table)} ({', '.join(columns)}) "
                                      f"VALUES ({', '.join('?' * len(columns))}) USING TIMESTAMP ? AND TTL ?")
        under_way: list = []
        for bucket, (start, end) in enumerate(ranges):
            for at in range(start, end, ROWS_PER_BATCH):
                batch = BatchStatement(BatchType.UNLOGGED, consistency_level=ConsistencyLevel.ALL)
                for row in rows[at:min(at + ROWS_PER_BATCH, end)]:
                    for cells, timestamp, ttl in self.writes(row):
                        clustering = row[:len(self.clustering)]
                        batch.add(insert, (*values, *clustering, *cells, self.generation, bucket, timestamp, ttl))
                under_way.append(self.session.execute_async(batch))
                if len(under_way) > BATCHES_AT_A_TIME:
                    under_way.pop(0).result()
        for future in under_way:
            future.result()

    def writes(self, row: tuple):
        """The cells of a row by when they were written and expire; what is not of the same write stays unset."""
        cells = [row[at:at + 3] for at in range(len(self.clustering), len(row), 3)]
        times = {(timestamp, ttl or 0) for _, timestamp, ttl in cells if timestamp is not None}
        if not times:
            raise ValueError("a row of nothing but its key has a time that cannot be read")
        for timestamp, ttl in sorted(times):
            yield [value if (time_, ttl_ or 0) == (timestamp, ttl) else UNSET_VALUE for value, time_, ttl_ in cells], timestamp, ttl

    def write_layout(self, key: bytes, rows: list[tuple], ranges: list[tuple[int, int]]) -> None:
        buckets = []
        for start, end in ranges:
            values = zip(self.clustering, rows[start]) if start else ()
            buckets.append(([self.serialize(name, value) for name, value in values], end - start, 1000))
        check = layout_checksum(self.names, key, self.generation, self.split_table, buckets)
        for number, (first, count, size) in enumerate(buckets):
            self.session.execute(self.layout, (*self.names, key, self.generation, number, self.split_table, STRATEGY,
                                               len(buckets), check, first, count, size))

    def set(self, key: bytes, state: str) -> None:
        """Version and row in one mutation: nobody sees one without the other."""
        version, shard = next(self.versions), shard_of(key, self.shards)
        batch = BatchStatement(BatchType.UNLOGGED)
        batch.add(self.static, (version, *self.names, shard))
        batch.add(self.row, (version, state, self.generation, *self.names, shard, key))
        self.session.execute(batch)

    def standing(self, values: tuple) -> tuple:
        """What the control keyspace says of the partition: state, generation, and the epochs of row and shard."""
        key = self.serialized(values)
        return tuple(self.session.execute(self.read, (*self.names, shard_of(key, self.shards), key)).one())
