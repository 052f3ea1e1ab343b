"""Knowing what is split: the control keyspace made, followed, lost and found again, while drivers read and write."""

from __future__ import annotations

import os
import re
import signal
import time
import unittest
import uuid
from pathlib import Path

from cassandra.query import BatchStatement, BatchType

import wire
from control import (ENOUGH, FOLLOWING_FAILS, NAME, OUT_OF_SERVICE, SEEDING_FAILS, STALE_SECONDS, TOO_MANY, ControlTest,
                     partition_key)
from support import Proxy, cluster, cluster_command, eventually

OVERLOADED = 0x1001
SCALE = int(os.environ.get("SCALE", "1"))
TABLES = ["fleet", "split_table", "watched_table", "wide_row", "wide_row_layout"]
CHECKS, ANSWERS, KEYS = "narrows_filter_checks_total", "narrows_lookup_answers_total", "narrows_filter_keys"
HELD, REFRESHES, ROWS = "narrows_proxy_held_writes_total", "narrows_follow_refreshes_total", "narrows_follow_rows_total"
# Between attempts to reach a control keyspace at first there may be 10 s.
RECOVERY_SECONDS = 30


def setUpModule() -> None:
    unittest.addModuleCleanup(cluster_command, "down", "--name", NAME)
    cluster(NAME)


def polls(proxy: Proxy, count: int, outcome: str = "ok") -> bool:
    """Waits for so many more polls."""
    before = proxy.metric(REFRESHES, outcome=outcome)
    return eventually(lambda: proxy.metric(REFRESHES, outcome=outcome) >= before + count)


def stands_still(proxy: Proxy) -> bool:
    """Every thread has noticed SIGSTOP, which takes a moment."""
    states = [file.read_text().rsplit(")", 1)[1].split()[0] for file in Path(f"/proc/{proxy.process.pid}/task").glob("*/stat")]
    return set(states) == {"T"}


class Started(ControlTest):
    def tables(self) -> list[str]:
        rows = self.direct.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [self.control])
        return sorted(row.table_name for row in rows)

    def in_store(self) -> dict:
        rows = self.direct.execute(f"SELECT * FROM {self.control}.watched_table")
        return {f"{row.keyspace_name}.{row.table_name}": row for row in rows}

    def test_first_start_makes_the_keyspace_and_the_second_finds_it(self) -> None:
        other = self.make_table("other")
        proxy = self.follower(self.settings(tables=[self.table, other], wide_bytes="10MiB", target_bytes="1MiB"))
        self.assertEqual(self.tables(), TABLES)
        self.assertEqual(len(proxy.log("control keyspace created")), 1)
        found = self.in_store()
        self.assertEqual(sorted(found), sorted([self.table, other]))
        self.assertEqual((found[other].shards, found[other].wide_bytes, found[other].mode), (self.shards, 10 << 20, "serve"))
        self.assertEqual(proxy.stop(), 0)
        proxy.start().wait_ready()
        self.assertEqual(len(proxy.log("control keyspace created")), 1, "made twice")
        self.client(proxy).execute(f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(len(self.rows()), 1)

    def test_relay_makes_none(self) -> None:
        proxy = self.follower({"control": {"keyspace": self.control}})
        self.client(proxy).execute(f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(self.tables(), [])
        self.assertEqual(proxy.metric(REFRESHES), 0)

    def test_without_apply_schema_it_waits_for_the_dba_and_says_so(self) -> None:
        self.make_split_table()
        proxy = self.follower(self.settings({"apply_schema": False}), ready=False)
        proxy.expect("the control keyspace cannot be used yet")
        self.assertTrue(eventually(lambda: "it is not known yet which partitions are split" in proxy.admin("/readyz")[1]), proxy.admin("/readyz"))
        self.assertEqual(proxy.admin("/readyz")[0], 503)
        self.assertTrue(eventually(lambda: proxy.log("the control keyspace cannot be used yet")))
        [warning] = proxy.log("the control keyspace cannot be used yet")
        self.assertIn(self.control, warning["error"])
        self.assertEqual(self.tables(), [])
        session = self.client(proxy)
        self.assert_refused(session, f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(session.execute(f"SELECT * FROM {self.table}").all(), [])
        self.make_control_keyspace()
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 200, RECOVERY_SECONDS), proxy.admin("/readyz"))
        session.execute(f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(len(self.rows()), 1)

    def test_store_wins_over_another_file_and_the_log_names_the_settings(self) -> None:
        self.follower(name="first")
        second = self.follower(self.settings(shards=8, quiet_for="7h", late_writes="reject"), name="second")
        second.expect("differs from watched_table")
        [warning] = second.log("the configuration file differs from watched_table, which wins")
        self.assertEqual((warning["table"], warning["settings"]), (self.table, "late_writes, shards, quiet_for"))
        row = self.in_store()[self.table]
        self.assertEqual((row.shards, row.late_writes, row.quiet_for_seconds), (self.shards, "invalidate", 6 * 3600))
        self.assertEqual(second.log('"watching"')[-1]["shards"], self.shards)


class Unreachable(ControlTest):
    """The control keyspace cannot be read; what it speaks of can."""

    def setUp(self) -> None:
        super().setUp()
        for key in ("kept", "also"):
            self.direct.execute(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES ('{key}', 1, 1, 'old')")
        self.before = self.rows()

    def every_write(self, session) -> list[tuple]:
        """Statement and values: text and prepared, alone and in batches."""
        texts = [f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES ('kept', 1, 2, 'new')",
                 f"UPDATE {self.table} SET value = 'new' WHERE sensor = 'kept' AND day = 1 AND ts = 1",
                 f"DELETE FROM {self.table} WHERE sensor = 'kept' AND day = 1",
                 f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('kept', 1, 3) IF NOT EXISTS"]
        insert = session.prepare(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES (?, ?, ?, ?)")
        update = session.prepare(f"UPDATE {self.table} SET value = ? WHERE sensor = ? AND day = ? AND ts = ?")
        delete = session.prepare(f"DELETE FROM {self.table} WHERE sensor = ? AND day = ? AND ts = ?")
        bound = [(insert, ("also", 1, 2, "new")), (update, ("new", "also", 1, 1)), (delete, ("also", 1, 1))]
        batches = []
        for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
            for parts in (bound, [(text, ()) for text in texts[:3]]):
                batch = BatchStatement(kind)
                for statement, values in parts:
                    batch.add(statement, values or None)
                batches.append((batch, ()))
        whole = [f"BEGIN {kind}BATCH {'; '.join(texts[:3])}; APPLY BATCH" for kind in ("", "UNLOGGED ")]
        return [(text, ()) for text in texts + whole] + bound + batches

    def assert_all_refused(self, proxy: Proxy, session, writes: list[tuple]) -> None:
        before = proxy.metric(HELD, outcome="refused")
        for statement, values in writes:
            with self.subTest(statement=str(statement)):
                self.assert_refused(session, statement, *([values] if values else []))
        self.assertEqual(proxy.metric(HELD, outcome="refused"), before + len(writes))
        self.assertEqual(self.rows(), self.before, "a refused write was made")

    def assert_reads_go_on(self, session, select) -> None:
        self.assertEqual(sorted(session.execute(f"SELECT * FROM {self.table}")), self.before)
        self.assertEqual(len(session.execute(select, ("kept", 1)).all()), 1)

    def assert_all_made(self, session, writes: list[tuple]) -> None:
        for statement, values in writes:
            session.execute(statement, *([values] if values else []))
        self.assertNotEqual(self.rows(), self.before)

    def test_writes_to_tables_without_a_split_table_go_on(self) -> None:
        proxy = self.follower()
        proxy.expect(FOLLOWING_FAILS)
        session = self.client(proxy)
        writes = self.every_write(session)
        other = self.make_table("other")
        self.replicate_control(TOO_MANY)
        self.assertTrue(eventually(lambda: proxy.metric("narrows_follow_catalog_age_seconds") > STALE_SECONDS))
        self.assert_all_made(session, writes)
        session.execute(f"INSERT INTO {other} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(proxy.metric(HELD, outcome="refused"), 0)

    def test_a_proxy_that_knows_nothing_lets_writes_to_tables_without_a_split_table_pass(self) -> None:
        self.make_control_keyspace()
        self.replicate_control(TOO_MANY)
        proxy = self.follower(ready=False)
        proxy.expect(SEEDING_FAILS, FOLLOWING_FAILS)
        self.assertTrue(eventually(lambda: proxy.log(SEEDING_FAILS)))
        session = self.client(proxy)
        self.assert_all_made(session, self.every_write(session))
        self.assertEqual(proxy.metric(HELD, outcome="refused"), 0)

    def test_writes_are_refused_after_max_staleness_and_work_again_after_it(self) -> None:
        self.make_split_table()
        proxy = self.follower()
        proxy.expect(FOLLOWING_FAILS)
        session = self.client(proxy)
        writes = self.every_write(session)
        select = session.prepare(f"SELECT * FROM {self.table} WHERE sensor = ? AND day = ?")
        self.replicate_control(TOO_MANY)
        self.assertTrue(eventually(lambda: proxy.metric("narrows_follow_age_seconds") > STALE_SECONDS), "the age does not grow")
        self.assert_all_refused(proxy, session, writes)
        self.assert_reads_go_on(session, select)
        self.assertGreater(proxy.metric(REFRESHES, outcome="failed"), 0)
        age = proxy.metric("narrows_follow_age_seconds")
        self.assertTrue(eventually(lambda: proxy.metric("narrows_follow_age_seconds") > age))
        self.assertEqual(proxy.admin("/readyz")[0], 200, "reads are served all the time")
        self.replicate_control(ENOUGH)
        self.assertTrue(eventually(lambda: proxy.log("can be followed again")))
        self.assertTrue(eventually(lambda: proxy.metric("narrows_follow_age_seconds") < STALE_SECONDS))
        self.assert_all_made(session, writes)

    def test_before_the_first_load_writes_are_refused_and_reads_work(self) -> None:
        self.make_split_table()
        self.make_control_keyspace()
        self.replicate_control(TOO_MANY)
        proxy = self.follower(ready=False)
        proxy.expect(SEEDING_FAILS, FOLLOWING_FAILS)
        self.assertTrue(eventually(lambda: proxy.log(SEEDING_FAILS)))
        session = self.client(proxy)
        writes = self.every_write(session)
        select = session.prepare(f"SELECT * FROM {self.table} WHERE sensor = ? AND day = ?")
        self.assert_all_refused(proxy, session, writes)
        self.assert_reads_go_on(session, select)
        self.assertEqual(proxy.metric(ANSWERS), 0, "what is not known is not looked up")
        self.assertEqual(proxy.admin("/readyz")[0], 503)
        self.replicate_control(ENOUGH)
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 200, RECOVERY_SECONDS), proxy.admin("/readyz"))
        self.assert_all_made(session, writes)


class Paused(ControlTest):
    """A proxy that was stopped for longer than `max_staleness`, with a write already in its socket."""

    def answered_after_a_pause(self, proxy: Proxy, meanwhile=lambda: None) -> tuple[int, bytes]:
        with wire.Client(proxy.host, proxy.port) as client:
            self.assertEqual(client.start()[0], wire.READY)
            proxy.send(signal.SIGSTOP)
            self.addCleanup(proxy.send, signal.SIGCONT)
            self.assertTrue(eventually(lambda: stands_still(proxy)))
            stopped = time.monotonic()
            client.send(wire.QUERY, wire.query_body(f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('late', 1, 1)"))
            meanwhile()
            time.sleep(max(0.0, stopped + 1.5 * STALE_SECONDS - time.monotonic()))
            self.assertEqual(self.rows(), [])
            proxy.send(signal.SIGCONT)
            _, opcode, body = client.receive()
            return opcode, body

    def test_write_is_released_by_a_refresh(self) -> None:
        proxy = self.follower()
        opcode, _ = self.answered_after_a_pause(proxy)
        self.assertEqual(opcode, wire.RESULT)
        self.assertEqual(len(self.rows()), 1)
        self.assertEqual((proxy.metric(HELD, outcome="released"), proxy.metric(HELD, outcome="refused")), (1, 0))

    def test_write_is_refused_when_the_store_was_lost_meanwhile(self) -> None:
        self.make_split_table()
        proxy = self.follower()
        proxy.expect(FOLLOWING_FAILS)
        opcode, body = self.answered_after_a_pause(proxy, lambda: self.replicate_control(TOO_MANY))
        self.assertEqual((opcode, wire.error_of(body)[0]), (wire.ERROR, OVERLOADED))
        self.assertEqual(self.rows(), [])
        self.assertEqual((proxy.metric(HELD, outcome="released"), proxy.metric(HELD, outcome="refused")), (0, 1))


class Followed(ControlTest):
    def reading(self, proxy: Proxy):
        """Reads one partition and says how the filter and the look-up answered."""
        session = self.client(proxy)
        select = session.prepare(f"SELECT * FROM {self.table} WHERE sensor = ? AND day = ?")

        def counts() -> dict[str, float]:
            checks = {answer: proxy.metric(CHECKS, answer=answer) for answer in ("no", "maybe")}
            return checks | {answer: proxy.metric(ANSWERS, answer=answer) for answer in ("split", "not_split", "doubt")}

        def read(sensor: str, day: int) -> list[str]:
            before = counts()
            session.execute(select, (sensor, day))
            # The look-up goes on beside the answer.
            eventually(lambda: (now := counts())["no"] > before["no"] or sum(now.values()) == sum(before.values()) + 2, 10)
            now = counts()
            return [answer for answer, count in now.items() if count != before[answer]]
        return read

    def test_changes_are_followed(self) -> None:
        proxy = self.follower()
        splits, read = self.splits(), self.reading(proxy)
        states = {"whole": "COMPLETED", "bare": "COMPLETED", "guarded": "GUARDED", "seen": "DETECTED"}
        self.assertEqual(proxy.metric(KEYS), 0)
        splits.set_layout(partition_key("whole", 1))
        for name, state in states.items():
            splits.set(partition_key(name, 1), state)
        self.assertTrue(eventually(lambda: proxy.metric(KEYS) == 3), proxy.metric(KEYS))
        self.assertTrue(eventually(lambda: read("whole", 1) == ["maybe", "split"]))
        self.assertEqual(read("bare", 1), ["maybe", "doubt"], "without a layout")
        self.assertTrue(eventually(lambda: read("guarded", 1) == ["maybe", "not_split"]))
        for sensor, day in (("seen", 1), ("whole", 2), ("nobody", 1)):
            self.assertEqual(read(sensor, day), ["no"])

    def test_invalidated_split_is_not_split_at_once(self) -> None:
        """However old the filter is: polls are far apart here."""
        self.introduce()
        splits, key = self.splits(), partition_key("whole", 1)
        splits.set_layout(key)
        splits.set(key, "COMPLETED")
        proxy = self.follower(self.settings({"poll_interval": "10s", "max_staleness": "2h"}))
        read = self.reading(proxy)
        for _ in range(2):
            self.assertTrue(eventually(lambda: read("whole", 1) == ["maybe", "split"]))
        splits.set(key, "INVALIDATED")
        answers = read("whole", 1)
        self.assertNotIn("split", answers)
        self.assertTrue(answers == ["maybe", "not_split"] or eventually(lambda: "not_split" in read("whole", 1)))

    def test_row_that_comes_after_its_version_is_not_missed(self) -> None:
        proxy = self.follower()
        splits, key = self.splits(), partition_key("half", 1)
        version = splits.set_version(key)
        self.assertTrue(polls(proxy, 3))
        self.assertEqual(proxy.metric(KEYS), 0)
        splits.set_row(key, version, "COMPLETED")
        self.assertTrue(eventually(lambda: proxy.metric(KEYS) == 1), "the author's second half was missed")
        self.assertEqual(self.reading(proxy)("half", 1)[0], "maybe")

    def test_shards_that_never_had_a_row_are_loaded(self) -> None:
        """Taking a table out of service gives every shard a version."""
        proxy = self.follower()
        proxy.expect(OUT_OF_SERVICE)
        seen = f"SELECT seen_table_id FROM {self.control}.watched_table"
        self.assertTrue(eventually(lambda: self.direct.execute(seen).one().seen_table_id))
        self.direct.execute(f"TRUNCATE {self.table}", timeout=60)
        self.assertTrue(eventually(lambda: proxy.log(OUT_OF_SERVICE)))
        self.assertEqual(proxy.stop(), 0)
        proxy.start().wait_ready()
        self.assertEqual(proxy.metric(KEYS), 0)
        self.client(proxy).execute(f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(len(self.rows()), 1)

    def test_following_costs_no_more_than_its_changes(self) -> None:
        self.introduce()
        splits, keys = self.splits(), [partition_key("many", day) for day in range(2000)]
        splits.set_many(keys)
        proxy = self.follower()
        self.assertEqual(proxy.metric(KEYS), len(keys))
        self.assertTrue(polls(proxy, 2))
        loaded = proxy.metric(ROWS)
        self.assertTrue(polls(proxy, 5))
        self.assertEqual(proxy.metric(ROWS), loaded, "rows were read again though nothing changed")
        for key in keys[:3]:
            splits.set(key, "INVALIDATED")
        self.assertTrue(eventually(lambda: proxy.metric(ROWS) >= loaded + 3))
        self.assertTrue(polls(proxy, 5))
        self.assertEqual(proxy.metric(ROWS), loaded + 3)

    def test_a_hundred_thousand_splits_are_loaded(self) -> None:
        self.introduce()
        keys = [partition_key(f"sensor-{number % 1000}", number) for number in range(100_000 * SCALE)]
        began = time.monotonic()
        self.splits().set_many(keys)
        written = time.monotonic() - began
        proxy = self.follower(ready=False)
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 200, 60 * SCALE), proxy.admin("/readyz"))
        [loaded] = proxy.log("loaded the splits of a table")
        self.assertEqual((loaded["keys"], proxy.metric(KEYS)), (len(keys), len(keys)))
        print(f"{len(keys)} splits written in {written:.1f} s, loaded in {loaded['took']} ... ", end="", flush=True)


class Restarted(ControlTest):
    """Filters on disk."""

    def setUp(self) -> None:
        super().setUp()
        self.kept = self.directory / "filters"
        self.kept.mkdir()
        self.introduce()
        self.splits().set_many([partition_key("split", day) for day in range(100)])
        self.first = self.follower(self.settings({"snapshot_directory": str(self.kept)}))
        self.assertEqual(self.first.metric(KEYS), 100)
        self.assertEqual(self.first.stop(), 0)
        [self.file] = self.kept.iterdir()

    def test_filter_is_there_though_the_store_is_not(self) -> None:
        self.make_split_table()
        proxy = self.first
        proxy.expect(SEEDING_FAILS)
        self.replicate_control(TOO_MANY)
        proxy.start()
        self.assertTrue(eventually(lambda: proxy.log(SEEDING_FAILS)))
        self.assertEqual(proxy.metric(KEYS), 100)
        session = self.client(proxy)
        select = session.prepare(f"SELECT * FROM {self.table} WHERE sensor = ? AND day = ?")
        for day in range(200):
            self.assertEqual(session.execute(select, ("split", day)).all(), [])
        # Without the store no split can be validated, so nobody asks whether there is one.
        self.assertEqual((proxy.metric(CHECKS, answer="maybe"), proxy.metric(CHECKS, answer="no")), (0, 0))
        self.assert_refused(session, f"INSERT INTO {self.table} (sensor, day, ts) VALUES ('a', 1, 1)")
        self.assertEqual(self.rows(), [])

    def test_damaged_file_is_ignored_with_one_warning(self) -> None:
        data = bytearray(self.file.read_bytes())
        data[len(data) // 2] ^= 0xFF
        self.file.write_bytes(data)
        proxy = self.first
        proxy.expect("a stored filter is ignored")
        proxy.start().wait_ready()
        [warning] = proxy.log("a stored filter is ignored")
        self.assertEqual(warning["table"], self.table)
        self.assertEqual(proxy.metric(KEYS), 100)


class Originals(ControlTest):
    """The watched tables themselves are changed around the proxy."""

    def setUp(self) -> None:
        super().setUp()
        self.names = ("truncated", "altered", "remade")
        tables = [self.make_table(name) for name in self.names]
        self.follow = self.settings(tables=[self.table, *tables])
        self.introduce(self.follow)
        self.of = {name: self.splits(name) for name in ("reading", *self.names)}
        for splits in self.of.values():
            splits.set(partition_key("split", 1), "COMPLETED")
        self.first = self.follower(self.follow)
        self.first.expect(OUT_OF_SERVICE)
        self.assertEqual(self.first.metric(KEYS), len(self.of))

    def change(self) -> None:
        self.direct.execute(f"TRUNCATE {self.watched}.truncated", timeout=60)
        self.direct.execute(f"ALTER TABLE {self.watched}.altered ADD more int", timeout=60)
        self.direct.execute(f"DROP TABLE {self.watched}.remade", timeout=60)
        self.make_table("remade")

    def changes(self) -> set[tuple[str, str]]:
        return {(entry["table"].split(".")[1], entry["change"]) for entry in self.first.log(OUT_OF_SERVICE)}

    def assert_out_of_service(self) -> None:
        def moved() -> bool:
            return all(min(self.of[name].epochs()) > 0 for name in self.names)
        self.assertTrue(eventually(moved), {name: splits.epochs() for name, splits in self.of.items()})
        self.assertEqual(self.of["reading"].epochs(), [0] * self.shards, "the table that nobody changed")
        for name in self.names:
            counted = lambda: self.first.metric("narrows_follow_out_of_service_total", table=f"{self.watched}.{name}")
            self.assertTrue(eventually(counted), name)
        # Their keys leave the filters.
        self.assertTrue(eventually(lambda: self.first.metric(KEYS) == 1), self.first.metric(KEYS))
        epochs = {name: splits.epochs() for name, splits in self.of.items()}
        self.assertTrue(polls(self.first, 3))
        self.assertEqual({name: splits.epochs() for name, splits in self.of.items()}, epochs, "the same change was found again")

    def test_changes_take_all_splits_out_of_service(self) -> None:
        self.change()
        self.assert_out_of_service()
        changes = self.changes()
        self.assertLessEqual({("truncated", "Truncated"), ("altered", "Altered")}, changes)
        # Whether a poll came between its end and its beginning is chance.
        self.assertTrue({("remade", "Dropped"), ("remade", "MadeAnew")} & changes, changes)

    def test_changes_made_while_no_proxy_ran_are_noticed(self) -> None:
        self.assertEqual(self.first.stop(), 0)
        self.change()
        self.first.start().wait_ready()
        self.assert_out_of_service()
        self.assertEqual(self.changes(), {("truncated", "Truncated"), ("altered", "Altered"), ("remade", "MadeAnew")})


class Secrets(ControlTest):
    def test_no_key_value_or_password_is_logged_at_the_loudest_level(self) -> None:
        self.make_split_table()
        self.introduce()
        names = [uuid.uuid4().hex for _ in range(4)]
        values, password = [uuid.uuid4().hex for _ in range(2)], f"Pw{uuid.uuid4().hex}"
        splits = self.splits()
        for name in names:
            splits.set_layout(partition_key(name, 1))
            splits.set(partition_key(name, 1), "COMPLETED")
        settings = self.settings({"snapshot_directory": str(self.directory)})
        settings["upstream"] = {"username": "narrows", "password": password}
        proxy = self.follower(settings, environment={"NARROWS__LOG__LEVEL": "trace"})
        proxy.expect(FOLLOWING_FAILS, OUT_OF_SERVICE)
        session = self.client(proxy)
        select = session.prepare(f"SELECT * FROM {self.table} WHERE sensor = ? AND day = ?")
        insert = session.prepare(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES (?, 1, 1, ?)")
        for name in names:
            session.execute(select, (name, 1))
        session.execute(insert, (names[0], values[0]))
        splits.set(partition_key(names[1], 1), "INVALIDATED")
        self.replicate_control(TOO_MANY)
        self.assertTrue(eventually(lambda: proxy.metric("narrows_follow_age_seconds") > STALE_SECONDS))
        self.assert_refused(session, insert, (names[2], values[1]))
        session.execute(select, (names[3], 1))
        self.assertTrue(eventually(lambda: proxy.metric(ANSWERS, answer="doubt") > 0))
        self.replicate_control(ENOUGH)
        self.assertTrue(eventually(lambda: proxy.log("can be followed again")))
        self.direct.execute(f"TRUNCATE {self.table}", timeout=60)
        self.assertTrue(eventually(lambda: proxy.log(OUT_OF_SERVICE)))
        metrics = proxy.admin("/metrics")[1]
        session.cluster.shutdown()
        self.assertEqual(proxy.stop(), 0)
        self.assertTrue(proxy.log("session ended"), "the log is not at its loudest")
        written = proxy.log_file.read_text() + metrics
        for secret in [*names, *values, password]:
            # As text, in hexadecimal, and as a list of bytes.
            forms = (secret, secret.encode().hex(), re.sub(r"[\[\]]", "", str(list(secret.encode()))))
            for form in forms:
                self.assertNotIn(form, written)


if __name__ == "__main__":
    unittest.main()
