"""Two versions on one control keyspace: the first one (`NARROWS_OLD`, built by `make upgrade`) and this one, before and after the schema is
brought up to date. Whatever either of them answers is what Cassandra answers."""

from __future__ import annotations

import os
import subprocess
import unittest
from pathlib import Path

from cassandra.concurrent import execute_concurrent_with_args

from control import ControlTest
from support import BINARY, Proxy, eventually

OLD = Path(os.environ.get("NARROWS_OLD", ""))
ROWS, ROW_BYTES = 3_000, 1_000
# In 2020, so that the partitions are closed.
WRITTEN_MICROS = 1_600_000_000_000_000
# The pipeline splits what a scan finds, at once.
PIPELINE = {"enabled": True, "throttle": False}
QUICK = {"max_staleness": "2s"}
SELECTIONS = ("*", "ts, value", "ts", "ts, note", "count(*)", "ts, ttl(note), writetime(value)")


def columns(session, control: str) -> set[str]:
    rows = session.execute("SELECT column_name FROM system_schema.columns WHERE keyspace_name = %s", [control])
    return {row.column_name for row in rows}


@unittest.skipUnless(OLD.is_file(), "run `make upgrade`")
class SideBySide(ControlTest):
    cluster_name = "people"

    def setUp(self) -> None:
        super().setUp()
        self.written = 0

    def make_table(self, name: str) -> str:
        self.direct.execute(f"CREATE TABLE {self.watched}.{name} (sensor text, day int, ts int, value int, note text, "
                            f"PRIMARY KEY ((sensor, day), ts))", timeout=60)
        return f"{self.watched}.{name}"

    def version(self, name: str, binary: Path, control: dict | None = None, pipeline: dict | None = None) -> Proxy:
        settings = self.settings({**QUICK, **(control or {})}, wide_bytes="1MiB", target_bytes="256KiB")
        settings["pipeline"] = pipeline or {}
        return self.proxy(self.contacts, settings, name=name, binary=binary)

    def fill(self, client, sensor: str) -> None:
        """All rows are first written without a note. Every fourth stays so. The others are written again with one, and of those every row with at % 8 == 1 with a TTL of a day."""
        insert = client.prepare(f"INSERT INTO {self.table} (sensor, day, ts, value, note) VALUES (?, 1, ?, ?, ?) USING TIMESTAMP ? AND TTL ?")
        bare = client.prepare(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES (?, 1, ?, ?) USING TIMESTAMP ?")
        note = "n" * ROW_BYTES
        execute_concurrent_with_args(client, bare, [(sensor, at, at, WRITTEN_MICROS + at) for at in range(ROWS)])
        rows = [at for at in range(ROWS) if at % 4]
        ttl = lambda at: 86_400 if at % 8 == 1 else 0
        execute_concurrent_with_args(client, insert, [(sensor, at, at, note, WRITTEN_MICROS + ROWS + at, ttl(at)) for at in rows])

    def scan(self, client, sensor: str) -> None:
        self.assertEqual(len(client.execute(f"SELECT * FROM {self.table} WHERE sensor = '{sensor}' AND day = 1").all()), ROWS)

    def await_split(self, proxy: Proxy, client, sensor: str) -> None:
        """Reads the partition until it is answered from a split."""
        def answered() -> bool:
            before = proxy.metric("narrows_proxy_split_reads_total", outcome="answered")
            self.scan(client, sensor)
            return proxy.metric("narrows_proxy_split_reads_total", outcome="answered") > before
        self.assertTrue(eventually(answered, 120, 0.5), "it is not split")

    def assert_exact(self, clients: dict, sensors: list[str]) -> None:
        for sensor in sensors:
            for selection in SELECTIONS:
                text = f"SELECT {selection} FROM {self.table} WHERE sensor = '{sensor}' AND day = 1"
                # A TTL counts down between two reads.
                rows = lambda client: [[value for name, value in zip(row._fields, row) if "ttl" not in name] for row in client.execute(text)]
                direct = rows(self.direct)
                for name, client in clients.items():
                    self.assertEqual(rows(client), direct, f"{name}: {text}")

    def assert_a_write_is_seen(self, writer, reader, sensor: str) -> None:
        """A write through one version takes the split out of service for the other."""
        self.written += 1
        value = 1_000_000 + self.written
        writer.execute(f"UPDATE {self.table} SET value = {value} WHERE sensor = '{sensor}' AND day = 1 AND ts = 5")
        found = reader.execute(f"SELECT value FROM {self.table} WHERE sensor = '{sensor}' AND day = 1 AND ts = 5").one()
        self.assertEqual(found.value, value)

    def test_both_versions_are_exact_before_and_after_the_schema_changes(self) -> None:
        old = self.version("old", OLD, pipeline=PIPELINE)
        clients = {"old": self.client(old)}
        self.fill(clients["old"], "first")
        self.await_split(old, clients["old"], "first")
        self.assertNotIn("seal", columns(self.direct, self.control))

        # The new version on the old schema, which it may not change.
        new = self.version("new", BINARY, {"apply_schema": False}, PIPELINE)
        clients["new"] = self.client(new)
        self.await_split(new, clients["new"], "first")
        self.fill(clients["new"], "second")
        self.await_split(new, clients["new"], "second")
        self.await_split(old, clients["old"], "second")
        self.assert_exact(clients, ["first", "second"])
        self.assert_a_write_is_seen(clients["old"], clients["new"], "first")
        self.assert_a_write_is_seen(clients["new"], clients["old"], "second")
        self.assert_exact(clients, ["first", "second"])

        applied = subprocess.run([BINARY, "schema", "apply", "--config", str(new.config)], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((applied.returncode, applied.stderr), (0, ""))
        self.assertIn(f"created  column {self.control}.wide_row.seal", applied.stdout)
        self.assertIn("seal", columns(self.direct, self.control))

        # Both go on where they are, and a new one of each starts on the new schema.
        self.assert_exact(clients, ["first", "second"])
        newer = self.version("newer", BINARY, pipeline=PIPELINE)
        older = self.version("older", OLD, pipeline=PIPELINE)
        clients |= {"newer": self.client(newer), "older": self.client(older)}
        for sensor, maker in (("third", "newer"), ("fourth", "older")):
            self.fill(clients[maker], sensor)
            for proxy, name in ((newer, "newer"), (older, "older"), (old, "old"), (new, "new")):
                self.await_split(proxy, clients[name], sensor)
        self.assert_exact(clients, ["first", "second", "third", "fourth"])
        self.assert_a_write_is_seen(clients["older"], clients["newer"], "third")
        self.assert_a_write_is_seen(clients["newer"], clients["older"], "fourth")
        self.assert_exact(clients, ["third", "fourth"])
