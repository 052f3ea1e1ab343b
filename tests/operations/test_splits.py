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

from control import ControlTest, partition_key
from splitter import shard_of
from support import BINARY, eventually, free_port, write_toml

CONFIGURATION, UPSTREAM_UNAVAILABLE, CONTROL_KEYSPACE = 64, 69, 78
ROWS, PER_BUCKET = 40, 10
SPLIT, COPYING, FAILED, PLAIN = ("s1", 7), ("s1", 8), ("s1", 9), ("s1", 10)
MILLION = 1_000_000


class SplitsTest(ControlTest):
    cluster_name = "main"

    def config(self, contacts: list[str] | None = None) -> Path:
        path = self.directory / "splits.toml"
        write_toml(path, {**self.settings(), "upstream": {"contact_points": contacts or self.contacts}})
        return path

    def command(self, *arguments: str, config: Path | None = None) -> list:
        group = () if arguments[0] == "mode" else ("splits",)
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
        self.assertIn("is on its way already", self.told("add", *self.key(SPLIT)))
        self.assertIn("nothing to roll back", self.refused(CONFIGURATION, "rollback", *self.key(SPLIT)))
        self.assertIn("no split", self.refused(CONFIGURATION, "rollback", *self.key(PLAIN)))

    def test_all_of_a_table_goes_out_of_service_at_once(self) -> None:
        self.assertIn("all splits of", self.told("rollback", "--all", self.table))
        self.assertEqual(self.written.epochs(), [1] * self.shards)
        self.assertIn("(COMPLETED)", self.told("list"))
        self.assertIn("with its whole table already", self.told("rollback", *self.key(SPLIT)))
        self.assertIn("as generation 2", self.told("add", *self.key(SPLIT)))

    def test_somebody_at_a_terminal_is_asked_first(self) -> None:
        for answer, code, epoch in (("no\n", CONFIGURATION, 0), ("yes\n", 0, 1)):
            ours, theirs = pty.openpty()
            self.addCleanup(os.close, ours)
            process = subprocess.Popen(self.command("rollback", "--all", self.table), stdin=theirs, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            os.close(theirs)
            os.write(ours, answer.encode())
            _, asked = process.communicate(timeout=120)
            self.assertEqual(process.returncode, code, asked)
            self.assertIn("Type yes to go on", asked)
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
        self.assertIn("and paused", self.told("mode", self.table))
        self.assertIn(f"until: narrows splits resume {self.table}", self.told("add", *self.key(PLAIN)))
        self.assertIn("so it waits", self.told("show", *self.key(PLAIN)).replace("\n             ", " "))
        text = self.told("watch", "--until-done")
        self.assertTrue(text.endswith("nothing is under way; 2 splits wait: narrows splits list\n"), text)
        self.assertIn("goes on", self.told("resume", self.table))
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

    def finish(self) -> None:
        self.set("VERIFYING", self.progress("VERIFYING", 500, 1000))
        time.sleep(2)
        self.set("COMPLETED", f"post_split_data = {{split_table: 'wide_reading_1', row_count: 1000, byte_count: {MILLION}}}")

    def test_a_pipe_gets_a_line_for_each_change(self) -> None:
        output = (self.directory / "watched").open("w+")
        self.addCleanup(output.close)
        process = subprocess.Popen(self.command("watch", self.table, "--until-done"), stdout=output, stderr=subprocess.STDOUT)
        text = lambda: Path(output.name).read_text()
        self.assertTrue(eventually(lambda: "COPYING 10%" in text(), 60), text())
        self.finish()
        self.assertEqual(process.wait(60), 0)
        name = f"{self.table} 's1', 8"
        self.assertNotIn("\x1b", text())
        found = [line.split("  ", 1)[1] for line in text().splitlines()[:-1]]
        self.assertEqual([line.replace(name, "").split(",")[0].strip() for line in found],
                         ["COPYING", "COPYING 10%", "VERIFYING", "VERIFYING 50%", "COMPLETED: 1000 rows (976.6 KiB) in wide_reading_1"])
        self.assertTrue(text().endswith("\nnothing is under way\n"), text())

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
        self.finish()
        self.assertTrue(eventually(lambda: shows("COMPLETED: 1000 rows"), 30), text)
        self.assertTrue(eventually(lambda: shows(f"{self.table}: nothing is under way"), 30), text)
        self.assertIn("\x1b[2A\r", text)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 0, text)

    def test_whoever_stops_reading_ends_it(self) -> None:
        process = subprocess.Popen(self.command("watch"), stdout=subprocess.PIPE)
        self.assertIn(b"COPYING", process.stdout.readline())
        process.stdout.close()
        self.finish()
        self.assertEqual(process.wait(60), 0)


class Mistaken(SplitsTest):
    def test_tables_and_keys(self) -> None:
        self.make_control_keyspace()
        self.assertEqual(self.told("list"), "no table is watched; a [[table]] in the configuration of a proxy begins that\n")
        self.assertIn("is not watched; no table is", self.refused(CONFIGURATION, "add", *self.key(SPLIT)))
        self.introduce()
        self.assertIn(f"no partition of {self.table} was found wide yet", self.told("list"))
        for arguments, advice in (
                (("list", f"{self.watched}.other"), f"watched are {self.table}"),
                (("mode", f"{self.watched}.other", "off"), "is not watched"),
                (("pause", f"{self.watched}.other"), "is not watched"),
                (("add", self.table, "'s1'"), "the partition key is (sensor text, day int): give 2 constants, not 1"),
                (("add", self.table, "s1", "7"), "a text has quotes of its own"),
                (("show", self.table, "--keys", "hex", "7"), "not the bytes of a partition key"),
                (("list", "--state", "done"), "there are DETECTED")):
            self.assertIn(advice, self.refused(CONFIGURATION, *arguments))

    def test_without_a_cluster_or_a_control_keyspace(self) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        self.assertIn(nobody, self.refused(UPSTREAM_UNAVAILABLE, "list", config=self.config(contacts=[nobody])))
        self.assertIn(self.control, self.refused(CONTROL_KEYSPACE, "list"))


if __name__ == "__main__":
    unittest.main()
