"""`narrows splits` and `narrows mode`: what people see of splits is what the control keyspace holds, and what they change holds for reads."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time
import unittest
from pathlib import Path

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent_with_args

from control import ControlTest, partition_key
from splitter import shard_of
from support import BINARY, eventually, free_port, write_toml

CONFIGURATION, DIFFERENCE, UPSTREAM_UNAVAILABLE, CONTROL_KEYSPACE = 64, 65, 69, 78
ROWS, PER_BUCKET = 40, 10
SPLIT, COPYING, FAILED, PLAIN = ("s1", 7), ("s1", 8), ("s1", 9), ("s1", 10)
MILLION = 1_000_000


class SplitsTest(ControlTest):
    cluster_name = "people"

    def config(self, contacts: list[str] | None = None) -> Path:
        path = self.directory / "splits.toml"
        write_toml(path, {**self.settings(), "upstream": {"contact_points": contacts or self.contacts}})
        return path

    def command(self, *arguments: str, config: Path | None = None) -> list:
        group = () if arguments[0] in ("mode", "verify") else ("splits",)
        return [BINARY, *group, *arguments, "--config", config or self.config()]

    def narrows(self, *arguments: str, config: Path | None = None, given: str = "") -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*arguments, config=config), input=given, capture_output=True, text=True, timeout=120, check=False)

    def told(self, *arguments: str) -> str:
        done = self.narrows(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refused(self, code: int, *arguments: str, config: Path | None = None) -> str:
        done = self.narrows(*arguments, config=config)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def key(self, key: tuple[str, int]) -> tuple[str, str, str]:
        """As arguments."""
        return self.table, f"'{key[0]}'", str(key[1])

    def write(self, key: tuple[str, int], columns: str) -> None:
        """More of a split than its state."""
        bytes_ = partition_key(*key)
        self.direct.execute(f"UPDATE {self.control}.wide_row SET {columns} WHERE keyspace_name = '{self.watched}' "
                            f"AND table_name = 'reading' AND shard = {shard_of(bytes_, self.shards)} AND partition_key = 0x{bytes_.hex()}")

    def state(self, key: tuple[str, int]):
        bytes_ = partition_key(*key)
        return self.direct.execute(f"SELECT state, generation, reason FROM {self.control}.wide_row WHERE keyspace_name = '{self.watched}' "
                                   f"AND table_name = 'reading' AND shard = {shard_of(bytes_, self.shards)} AND partition_key = 0x{bytes_.hex()}").one()

    def watched_row(self):
        return self.direct.execute(f"SELECT mode, paused, row_version, seen_table_id FROM {self.control}.watched_table").one()

    def progress(self, state: str, rows: int, of: int) -> str:
        now = int(time.time() * 1000)
        return (f"pre_split_data = {{row_count: {of}, byte_count: {of * 1000}}}, progress = {{state: '{state}', row_count: {rows}, "
                f"byte_count: {rows * 1000}, began_at: {now - 10_000}, changed_at: {now}}}")


class Told(SplitsTest):
    """One partition is split, one is being copied, one failed."""

    def setUp(self) -> None:
        super().setUp()
        self.introduce()
        self.written = self.hold_split(SPLIT, ROWS, PER_BUCKET)
        now = int(time.time() * 1000)
        for key, state, columns in (
                (SPLIT, "COMPLETED", f"changed_at = {now - 7_200_000}, pre_split_data = {{row_count: {ROWS}, byte_count: {8 << 20}}}"),
                (COPYING, "COPYING", f"changed_at = {now - 5000}, lease = 'somebody/00ff', {self.progress('COPYING', 42, 100)}"),
                (FAILED, "FAILED", f"changed_at = {now - 3_600_000}, reason = 'bucket 3 differs', failures = 1")):
            self.written.set(partition_key(*key), state)
            self.write(key, columns)

    def test_a_list_has_the_latest_change_first(self) -> None:
        lines = [line.split() for line in self.told("list").splitlines()]
        self.assertEqual([line[3] for line in lines[1:]], ["COPYING", "FAILED", "COMPLETED"])
        self.assertEqual(lines[1][:6], [self.table, "'s1',", "8", "COPYING", "1", "42%"])
        self.assertEqual(lines[2][-3:], ["bucket", "3", "differs"])
        self.assertEqual(lines[3][5:9], ["–", str(ROWS), "8.0", "MiB"])

    def test_a_list_is_narrowed_down_and_read_by_programs(self) -> None:
        done = self.narrows("list", self.table, "--json", "--limit", "1")
        self.assertEqual((done.returncode, done.stderr), (0, "and 2 more; --limit 3 shows all\n"))
        found = json.loads(done.stdout)
        self.assertEqual((found["key"], found["percent"], found["worker"]), (["'s1'", "8"], 42, "somebody"))
        self.assertEqual(found["partition_key"], "0x" + partition_key(*COPYING).hex())
        self.assertIn("FAILED", self.told("list", "--state", "failed", "--keys", "hex"))
        self.assertEqual(self.told("list", "--state", "REFUSED"), "no split is REFUSED; 3 are in other states\n")

    def test_a_split_is_shown_with_its_buckets_and_what_to_do(self) -> None:
        text = self.told("show", *self.key(SPLIT))
        self.assertIn(f"partition    {self.table}: sensor = 's1', day = 7\nstate        COMPLETED at generation 1\n", text)
        self.assertIn(f"4 buckets in {self.watched}.wide_reading_1, by by_hand\n             0  10 rows     2.0 MiB  ███", text)
        self.assertTrue(text.endswith(f"next         narrows splits rollback {self.table} \"'s1'\" 7    # take it out of service\n"), text)
        self.assertEqual(self.told("show", self.table, "--keys", "hex", "0x" + partition_key(*SPLIT).hex()), text)
        self.assertIn("somebody works on it", self.told("show", *self.key(COPYING)))
        self.assertIn("not found wide", self.told("show", *self.key(PLAIN)))

    def test_what_waits_for_hints_is_told_with_the_time(self) -> None:
        later = int(time.time() * 1000) + 7_200_000
        self.written.set(partition_key(*PLAIN), "INVALIDATED")
        self.write(PLAIN, f"unsettled_until = {later}")
        text = self.told("add", *self.key(PLAIN))
        self.assertRegex(text, "it is WAITING until .*, in 2 h: a write to it has an unknown outcome, and a hint may still deliver it\n")
        self.assertEqual(self.state(PLAIN).state, "DETECTED")
        text = self.told("show", *self.key(PLAIN))
        self.assertIn("\nstate        WAITING at generation 2\n", text)
        self.assertRegex(text, "not before   .*, in 2 h: not looked at before then\n")
        self.assertNotIn("splits add", text)
        self.assertIn("waits for 2 h", self.told("list", "--state", "waiting"))
        self.assertIn("waits already", self.told("add", *self.key(PLAIN)))

    def test_a_rollback_holds_for_the_next_read(self) -> None:
        proxy = self.follower()
        client = self.client(proxy)
        statement = f"SELECT ts, value FROM {self.table} WHERE sensor = 's1' AND day = 7"
        count = lambda: proxy.metric("narrows_proxy_split_reads_total", outcome="answered")

        def answered() -> float:
            before = count()
            self.assertEqual(len(client.execute(statement).all()), ROWS)
            return count() - before

        self.assertTrue(eventually(answered))
        text = self.told("rollback", *self.key(SPLIT))
        self.assertIn("is out of service: from now on the original answers", text)
        self.assertEqual(answered(), 0)
        self.assertEqual(tuple(self.state(SPLIT)), ("INVALIDATED", 1, "rolled back by hand"))
        self.assertIn("was out of service already", self.told("rollback", *self.key(SPLIT)))
        self.assertIn("is nominated, as generation 2", self.told("add", *self.key(SPLIT)))
        self.assertEqual(tuple(self.state(SPLIT)), ("DETECTED", 2, None))
        self.assertIn("is in progress already", self.told("add", *self.key(SPLIT)))
        self.assertIn("nothing to roll back", self.refused(CONFIGURATION, "rollback", *self.key(SPLIT)))
        self.assertIn("no split", self.refused(CONFIGURATION, "rollback", *self.key(PLAIN)))

    def test_all_of_a_table_goes_out_of_service_at_once(self) -> None:
        self.assertIn("all splits of", self.told("rollback", "--all", self.table, "--yes"))
        self.assertEqual(self.written.epochs(), [1] * self.shards)
        self.assertIn("(COMPLETED)", self.told("list"))
        self.assertIn("with its whole table already", self.told("rollback", *self.key(SPLIT)))
        self.assertIn("as generation 2", self.told("add", *self.key(SPLIT)))

    def test_without_a_terminal_nothing_is_rolled_back_unasked(self) -> None:
        before = self.state(SPLIT)
        for answer in ("n\n", "yes\n", ""):
            done = self.narrows("rollback", "--all", self.table, given=answer)
            self.assertEqual((done.returncode, done.stdout), (CONFIGURATION, ""), done.stderr)
            self.assertIn("add --yes", done.stderr)
            self.assertIn("nothing was changed", done.stderr)
        done = subprocess.run([BINARY, "schema", "reshard", self.table, str(2 * self.shards), "--config", self.config()],
                              input="yes\n", capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (CONFIGURATION, ""), done.stderr)
        self.assertIn("add --yes", done.stderr)
        self.assertEqual(self.written.epochs(), [0] * self.shards)
        self.assertEqual(self.state(SPLIT), before)
        # One split is made anew by one command, so its rollback needs no --yes.
        self.assertIn("is out of service", self.told("rollback", *self.key(SPLIT)))

    def test_somebody_at_a_terminal_is_asked_first(self) -> None:
        for answer, code, epoch in (("\n", CONFIGURATION, 0), ("no\n", CONFIGURATION, 0), ("yes\n", 0, 1)):
            ours, theirs = pty.openpty()
            self.addCleanup(os.close, ours)
            os.set_blocking(ours, False)
            process = subprocess.Popen(self.command("rollback", "--all", self.table), stdin=theirs, stdout=theirs,
                                       stderr=subprocess.PIPE, text=True)
            os.close(theirs)
            asked = ""

            def is_asked() -> bool:
                nonlocal asked
                try:
                    asked += os.read(ours, 1 << 16).decode(errors="replace")
                except (BlockingIOError, OSError):
                    pass
                return "Type yes to go on" in asked

            self.assertTrue(eventually(is_asked, 60), asked)
            self.assertIn(f"All splits of {self.table} go out of service", asked)
            os.write(ours, answer.encode())
            _, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, code, asked + errors)
            self.assertEqual("nothing was changed" in errors, code == CONFIGURATION, errors)
            self.assertEqual(self.written.epochs(), [epoch] * self.shards)

    def test_a_mode_changes_reads_and_nothing_that_was_seen(self) -> None:
        before = self.watched_row()
        self.assertIn("is in mode serve", self.told("mode", self.table))
        proxy = self.follower()
        client = self.client(proxy)
        statement = f"SELECT ts, value FROM {self.table} WHERE sensor = 's1' AND day = 7"
        count = lambda: proxy.metric("narrows_proxy_split_reads_total", outcome="answered")

        def answered() -> float:
            earlier = count()
            client.execute(statement).all()
            return count() - earlier

        self.assertTrue(eventually(answered))
        self.assertIn("changed from mode serve to detect", self.told("mode", self.table, "detect"))
        self.assertTrue(eventually(lambda: not answered()))
        self.assertIn("narrows mode", self.told("show", *self.key(SPLIT)))
        self.assertIn("changed from mode detect to serve", self.told("mode", self.table, "serve"))
        self.assertTrue(eventually(answered))
        self.assertEqual(self.watched_row()._replace(paused=None), before)

    def test_a_paused_table_is_told_everywhere(self) -> None:
        before = self.watched_row()
        self.assertIn("is paused", self.told("pause", self.table))
        self.assertEqual(self.watched_row(), before._replace(paused=True))
        self.assertIn("was paused already", self.told("pause", self.table))
        self.assertIn("it is paused", self.told("mode", self.table))
        self.assertIn(f"to change that: narrows splits resume {self.table}", self.told("add", *self.key(PLAIN)))
        self.assertIn("so it waits", self.told("show", *self.key(PLAIN)).replace("\n             ", " "))
        text = self.told("watch", "--until-done")
        self.assertTrue(text.endswith("nothing is in progress; 2 splits wait: narrows splits list\n"), text)
        self.assertIn("is resumed", self.told("resume", self.table))
        self.assertEqual(self.watched_row(), before._replace(paused=False))


class Watched(SplitsTest):
    def setUp(self) -> None:
        super().setUp()
        self.introduce()
        self.written = self.splits()
        self.set("COPYING", self.progress("COPYING", 100, 1000))

    def set(self, state: str, columns: str) -> None:
        self.write(COPYING, columns)
        self.written.set(partition_key(*COPYING), state)

    def finish(self, is_seen) -> None:
        """The last change waits until the one before was shown."""
        self.set("VERIFYING", self.progress("VERIFYING", 500, 1000))
        self.assertTrue(eventually(is_seen))
        self.set("COMPLETED", f"post_split_data = {{split_table: 'wide_reading_1', row_count: 1000, byte_count: {MILLION}}}")

    def test_a_pipe_gets_a_line_for_each_change(self) -> None:
        output = (self.directory / "watched").open("w+")
        self.addCleanup(output.close)
        process = subprocess.Popen(self.command("watch", self.table, "--until-done"), stdout=output, stderr=subprocess.STDOUT)
        text = lambda: Path(output.name).read_text()
        self.assertTrue(eventually(lambda: "COPYING 10%" in text(), 60), text())
        self.finish(lambda: "VERIFYING 50%" in text())
        self.assertEqual(process.wait(60), 0)
        name = f"{self.table} 's1', 8"
        self.assertNotIn("\x1b", text())
        found = [line.split("  ", 1)[1] for line in text().splitlines()[:-1]]
        self.assertEqual([line.replace(name, "").split(",")[0].strip() for line in found],
                         ["COPYING", "COPYING 10%", "VERIFYING", "VERIFYING 50%", "COMPLETED: 1000 rows (976.6 KiB) in wide_reading_1"])
        self.assertTrue(text().endswith("\nnothing is in progress\n"), text())

    def test_a_terminal_is_drawn_again_until_somebody_leaves(self) -> None:
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        os.set_blocking(ours, False)
        # 24 lines of 80 columns; one without a size counts as a pipe.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(self.command("watch"), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                   env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        text = ""

        def shows(what: str) -> bool:
            nonlocal text
            try:
                text += os.read(ours, 1 << 16).decode(errors="replace")
            except (BlockingIOError, OSError):
                pass
            return what in text

        self.assertTrue(eventually(lambda: shows("'s1', 8  COPYING    █░░░░░░░░░  10%"), 60), text)
        self.finish(lambda: shows("VERIFYING"))
        self.assertTrue(eventually(lambda: shows("COMPLETED: 1000 rows"), 30), text)
        self.assertTrue(eventually(lambda: shows(f"{self.table}: nothing is in progress"), 30), text)
        self.assertIn("\x1b[2A\r", text)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 0, text)

    def test_whoever_stops_reading_ends_it(self) -> None:
        process = subprocess.Popen(self.command("watch"), stdout=subprocess.PIPE)
        self.assertIn(b"COPYING", process.stdout.readline())
        process.stdout.close()
        self.finish(lambda: True)
        self.assertEqual(process.wait(60), 0)


class ReadTest(SplitsTest):
    """A table whose partitions are wide from 64 KiB on."""

    # Of about 950 bytes.
    wide_rows = 200

    def settings(self, control: dict | None = None, tables: list[str] | None = None, **table) -> dict:
        return super().settings(control, tables, wide_bytes="64KiB", target_bytes="64KiB", **table)

    def config(self, contacts: list[str] | None = None, **pipeline) -> Path:
        path = self.directory / "read.toml"
        write_toml(path, {**self.settings(), "upstream": {"contact_points": contacts or self.contacts},
                          "pipeline": {"throttle": False, **pipeline}})
        return path

    def fill(self, key: tuple[str, int], rows: int, age_days: int = 2) -> None:
        insert = self.direct.prepare(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?")
        insert.consistency_level = ConsistencyLevel.ALL
        written = int(time.time() - age_days * 86_400) * MILLION
        values = [(*key, ts, "x" * 900, written + ts) for ts in range(rows)]
        execute_concurrent_with_args(self.direct, insert, values, raise_on_first_error=True)

    def written(self) -> tuple[int, ...]:
        """Rows that a command could have left behind, and tables."""
        count = lambda table: self.direct.execute(f"SELECT count(*) FROM {self.control}.{table}").one()[0]
        tables = self.direct.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [self.watched])
        return (*map(count, ("wide_row", "wide_row_layout", "split_table")), len(tables.all()))


class Planned(ReadTest):
    def setUp(self) -> None:
        super().setUp()
        self.introduce()

    def plan(self, key: tuple[str, int]) -> dict:
        return json.loads(self.told("add", *self.key(key), "--dry-run", "--json"))

    def test_a_plan_is_told_and_nothing_is_written(self) -> None:
        self.fill(SPLIT, self.wide_rows)
        before = self.written()
        text = self.told("add", *self.key(SPLIT), "--dry-run")
        self.assertIn(f"partition    {self.table}: sensor = 's1', day = 7\nhas          200 rows, ", text)
        self.assertIn(f"decision     it would be split\nsplit table  {self.watched}.wide_reading_1, which would be created\n", text)
        self.assertRegex(text, r"buckets      3 buckets, by EventBucketPartitionSplitStrategy\n {13}0  \d+ rows +\d+\.\d KiB  from the first row\n"
                               r" {13}1  \d+ rows +\d+\.\d KiB  from ts = \d+\n")
        self.assertTrue(text.endswith(f"nothing was written; to split it: narrows splits add {self.table} \"'s1'\" 7\n"), text)
        plan = self.plan(SPLIT)
        self.assertEqual((plan["would_be"], plan["rows"], sum(bucket["rows"] for bucket in plan["buckets"])), ("PLANNED", 200, 200))
        self.assertEqual(self.written(), before)

    def test_what_would_not_be_split_is_told_with_its_reason(self) -> None:
        self.fill(PLAIN, 3)
        text = self.told("add", *self.key(FAILED), "--dry-run")
        self.assertIn("it would not be split: NOT_WIDE, it has no rows\nnothing was written\n", text)
        text = self.told("add", *self.key(PLAIN), "--dry-run").replace("\n             ", " ")
        self.assertIn("it would be split, because you ask; by itself its size would not be enough, since wide_bytes of the table is 64.0 KiB\n", text)
        self.fill(COPYING, self.wide_rows, age_days=0)
        text = self.told("add", *self.key(COPYING), "--dry-run").replace("\n             ", " ")
        self.assertRegex(text, "it would be split, but not yet: WAITING until .*, because it was written to .* ago, and a hint may bring a write")
        plan = self.plan(COPYING)
        self.assertEqual(plan["would_be"], "WAITING")
        self.assertGreater(plan["not_before"], time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()))
        self.direct.execute(f"ALTER TABLE {self.table} ADD unit text static", timeout=60)
        text = self.told("add", *self.key(PLAIN), "--dry-run")
        self.assertIn("it would not be split: REFUSED, it has static columns, which belong to no row\n", text)
        self.assertIn("give 2 literals", self.refused(CONFIGURATION, "add", self.table, "1", "--dry-run"))

    def test_a_worker_does_what_the_plan_says(self) -> None:
        self.fill(SPLIT, self.wide_rows)
        plan = self.plan(SPLIT)
        self.told("add", *self.key(SPLIT))
        pipeline = {"enabled": True, "settle": "0s", "throttle": False}
        proxy = self.follower({**self.settings(), "pipeline": pipeline})
        self.assertTrue(eventually(lambda: self.state(SPLIT).state == "COMPLETED", 120), self.state(SPLIT))
        buckets = self.direct.execute(f"SELECT split_table, row_count, byte_count FROM {self.control}.wide_row_layout").all()
        made = sorted((bucket.row_count, bucket.byte_count) for bucket in buckets)
        self.assertEqual(made, sorted((bucket["rows"], bucket["bytes"]) for bucket in plan["buckets"]))
        self.assertEqual({bucket.split_table for bucket in buckets}, {plan["split_table"]})
        text = self.told("add", *self.key(SPLIT), "--dry-run")
        self.assertIn("wide_reading_1, which exists", text)
        self.assertTrue(text.endswith("nothing was written; it is split already, and in service\n"), text)
        proxy.stop()


class Scanned(ReadTest):
    cluster_name = "main"

    def setUp(self) -> None:
        super().setUp()
        self.introduce()
        for day in range(20, 60):
            self.fill(("s2", day), 2)

    def scan(self, *arguments: str, config: Path | None = None) -> tuple[str, str]:
        done = self.narrows("scan", self.table, *arguments, config=config)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_wide_partitions_are_found_and_nominated(self) -> None:
        text, cost = self.scan()
        self.assertRegex(text, rf"^no partition of 64\.0 KiB or more among 40 partitions of {self.table}; the largest has 1\.\d KiB\n$")
        self.assertIn(f"reading every partition of {self.table} once", cost)
        for key in (SPLIT, COPYING):
            self.fill(key, self.wide_rows)
        before = self.written()
        text, _ = self.scan()
        lines = sorted(text.splitlines()[1:3])
        self.assertEqual([line.split()[:2] for line in lines], [["'s1',", "7"], ["'s1',", "8"]], text)
        self.assertTrue(all(line.endswith("  –") for line in lines), text)
        self.assertIn("\n2 of 42 partitions are wide; ", text)
        self.assertEqual(self.written(), before)
        found, notes = self.scan("--json", "--limit", "1", "--nominate")
        found = json.loads(found)
        self.assertEqual((found["state"], found["key"][0]), ("nominated", "'s1'"))
        self.assertGreaterEqual(found["bytes"], 64 << 10)
        self.assertIn("stopped after 1: there may be more", notes)
        text, _ = self.scan("--nominate")
        self.assertEqual(sorted(line.split()[-1] for line in text.splitlines()[1:3]), ["DETECTED", "nominated"], text)
        self.assertEqual([self.state(key).state for key in (SPLIT, COPYING)], ["DETECTED", "DETECTED"])

    def test_somebody_who_leaves_gets_what_was_found(self) -> None:
        self.fill(SPLIT, self.wide_rows)
        # The first page at once, and the second a quarter of a minute later.
        command = self.command("scan", self.table, config=self.config(bytes_per_second="64KiB"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("reading every partition", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(text, r"\nstopped at \d+\.\d% of the ring: there may be more\n")

    def test_a_table_that_cannot_be_split_is_not_read(self) -> None:
        self.direct.execute(f"ALTER TABLE {self.table} ADD unit text static", timeout=60)
        self.assertIn("can be split: it has static columns", self.refused(CONFIGURATION, "scan", self.table))
        self.assertIn("is not watched", self.refused(CONFIGURATION, "scan", f"{self.watched}.other"))


class ScannedBefore50(Scanned):
    cluster_name = "old"


class Verified(ReadTest):
    """Two partitions are split by a worker, and one of them may be written around the proxies afterwards."""

    def setUp(self) -> None:
        super().setUp()
        self.introduce()
        for key in (SPLIT, COPYING):
            self.fill(key, self.wide_rows)
            self.told("add", *self.key(key))
        proxy = self.follower({**self.settings(), "pipeline": {"enabled": True, "settle": "0s", "throttle": False}})
        for key in (SPLIT, COPYING):
            self.assertTrue(eventually(lambda: self.state(key).state == "COMPLETED", 120), self.state(key))
        self.assertEqual(proxy.stop(), 0)

    def verify(self, code: int, *arguments: str) -> str:
        done = self.narrows("verify", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_a_write_around_the_proxies_is_found(self) -> None:
        text = self.verify(0)
        self.assertRegex(text, r"^2 splits are equal to their originals: 400 rows, \d+\.\d KiB\n$")
        found = json.loads(self.verify(0, *self.key(COPYING), "--json"))
        self.assertEqual((found["key"], found["result"], found["rows"]), (["'s1'", "8"], "equal", 200))
        self.direct.execute(f"DELETE FROM {self.table} WHERE sensor = 's1' AND day = 7 AND ts = 50")
        text = self.verify(DIFFERENCE, *self.key(SPLIT), "--dry-run")
        self.assertIn(f"{self.table} 's1', 7: DIFFERS: the copy differs: bucket 0: there is a row that the original does not have", text)
        self.assertIn("nothing was changed", text)
        self.assertEqual((self.state(SPLIT).state, self.watched_row().mode), ("COMPLETED", "serve"))
        done = self.narrows("verify", "--json")
        self.assertEqual(done.returncode, DIFFERENCE, done.stderr)
        found = sorted(map(json.loads, done.stdout.splitlines()), key=lambda one: one["key"])
        found = [(one["result"], one["taken_out_of_service"], one["table_mode"]) for one in found]
        # The other one goes out of service with it, and may have been compared before.
        self.assertEqual(found[0], ("differs", True, "detect"))
        self.assertIn(found[1:], ([], [("equal", False, None)]))
        self.assertIn(f"{self.table} is in mode detect now", done.stderr)
        state = self.state(SPLIT)
        self.assertEqual(state.state, "INVALIDATED")
        self.assertTrue(state.reason.startswith("compared by narrows verify, the copy differs: bucket 0"), state.reason)
        self.assertEqual((self.state(COPYING).state, self.watched_row().mode), ("COMPLETED", "detect"))
        self.assertEqual(self.verify(0, self.table), "no split is in service, so there is nothing to compare\n")
        self.assertIn("is INVALIDATED, not in service", self.refused(CONFIGURATION, "verify", *self.key(SPLIT)))
        self.assertIn("is not watched", self.refused(CONFIGURATION, "verify", f"{self.watched}.other"))

    def test_somebody_who_leaves_gets_what_was_found(self) -> None:
        command = self.command("verify", config=self.config(bytes_per_second="64KiB"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("comparing 2 splits in service", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, text)
        self.assertRegex(text, r"\nstopped after [01] of 2 splits\n")


class Mistaken(SplitsTest):
    def test_tables_and_keys(self) -> None:
        self.make_control_keyspace()
        self.assertEqual(self.told("list"), "no table is watched; to watch one, add a [[table]] to the configuration of a proxy\n")
        self.assertIn("is not watched; no table is", self.refused(CONFIGURATION, "add", *self.key(SPLIT)))
        self.introduce()
        self.assertIn(f"no partition of {self.table} has been found wide yet", self.told("list"))
        for arguments, advice in (
                (("list", f"{self.watched}.other"), f"the watched tables are {self.table}"),
                (("mode", f"{self.watched}.other", "off"), "is not watched"),
                (("pause", f"{self.watched}.other"), "is not watched"),
                (("add", self.table, "'s1'"), "the partition key is (sensor text, day int): give 2 literals, not 1"),
                (("add", self.table, "s1", "7"), "a text needs its own quotes"),
                (("show", self.table, "--keys", "hex", "7"), "is not a partition key in hex"),
                (("list", "--state", "done"), "the states are DETECTED")):
            self.assertIn(advice, self.refused(CONFIGURATION, *arguments))

    def test_without_a_cluster_or_a_control_keyspace(self) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        self.assertIn(nobody, self.refused(UPSTREAM_UNAVAILABLE, "list", config=self.config(contacts=[nobody])))
        self.assertIn(self.control, self.refused(CONTROL_KEYSPACE, "list"))


if __name__ == "__main__":
    unittest.main()
