"""`narrows explain`: what it says of a statement is what a proxy does with it, and mistakes come with what to do."""

from __future__ import annotations

import subprocess
import unittest
from pathlib import Path

from control import ControlTest, partition_key
from support import BINARY, Proxy, eventually, free_port, write_toml

CONFIGURATION, UPSTREAM_UNAVAILABLE, CONTROL_KEYSPACE = 64, 69, 78
ANSWERED = "narrows_proxy_split_reads_total"
FALLBACKS = "narrows_proxy_split_fallbacks_total"
ROWS, PER_BUCKET = 40, 10
SPLIT, COPYING, PLAIN = ("s1", 7), ("s1", 8), ("s1", 9)


class ExplainTest(ControlTest):
    cluster_name = "people"

    def config(self, settings: dict | None = None, contacts: list[str] | None = None) -> Path:
        path = self.directory / "explain.toml"
        write_toml(path, {**(settings or self.settings()), "upstream": {"contact_points": contacts or self.contacts}})
        return path

    def narrows(self, statement: str, *options: str, config: Path | None = None) -> subprocess.CompletedProcess:
        command = [BINARY, "explain", "--config", config or self.config(), *options, statement]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def explained(self, statement: str, *options: str, config: Path | None = None) -> dict[str, str]:
        """The lines by their labels; of several with one label the last."""
        done = self.narrows(statement, *options, config=config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines: dict[str, str] = {}
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)
            if label := line[:13].strip():
                lines[label] = line[13:]
            else:
                lines[last] += " " + line[13:]
            last = label or last
        return lines

    def refused(self, code: int, statement: str, *options: str, config: Path | None = None) -> str:
        done = self.narrows(statement, *options, config=config)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def of(self, key: tuple[str, int], rest: str = "") -> str:
        return f"SELECT ts, value FROM {self.table} WHERE sensor = '{key[0]}' AND day = {key[1]} {rest}".strip()


class Explained(ExplainTest):
    """One table with a partition that is split, one that is being copied, and one that is neither."""

    def setUp(self) -> None:
        super().setUp()
        self.introduce()
        splits = self.hold_split(SPLIT, ROWS, PER_BUCKET)
        splits.set(partition_key(*SPLIT), "COMPLETED")
        splits.set(partition_key(*COPYING), "COPYING")

    def test_what_is_said_is_what_a_proxy_does(self) -> None:
        proxy = self.follower()
        client = self.client(proxy)
        for rest, decision, buckets in (
                ("AND ts >= 20 LIMIT 15", "rewritten: answered from 2 of 4 buckets", "2, 3: the restriction of ts"),
                ("ORDER BY ts DESC", "rewritten: answered from 4 of 4 buckets", "0 to 3, the last one first: no clustering"),
                ("AND ts IN (1, 35)", "rewritten: answered from 2 of 4 buckets", "0, 3: the restriction of ts"),
                ("AND value = 'value 7' ALLOW FILTERING", "rewritten: answered from 4 of 4 buckets", "0 to 3: "),
                ("GROUP BY ts", "forwarded", None)):
            with self.subTest(rest):
                statement = self.of(SPLIT, rest)
                lines = self.explained(statement)
                self.assertTrue(lines["decision"].startswith(decision), lines)
                self.assertTrue(buckets is None or lines["buckets"].startswith(buckets), lines)
                read = lambda: self.answered(proxy, client, statement)
                if decision == "forwarded":
                    self.assertEqual(read(), 0)
                else:
                    # A busy cluster lets a proxy doubt now and then, and the original answers.
                    self.assertTrue(eventually(read), self.fallbacks(proxy))

    def answered(self, proxy: Proxy, client, statement: str) -> float:
        """Reads like a client; says how many reads were answered from a split meanwhile."""
        before = proxy.metric(ANSWERED, outcome="answered")
        self.assertEqual(client.execute(statement).all(), self.direct.execute(statement).all())
        return proxy.metric(ANSWERED, outcome="answered") - before

    def fallbacks(self, proxy: Proxy) -> list[str]:
        lines = proxy.admin("/metrics")[1].splitlines()
        return [line for line in lines if FALLBACKS in line and not line.endswith(" 0")]

    def test_the_layout_and_the_question_to_each_bucket_are_shown(self) -> None:
        lines = self.explained(self.of(SPLIT, "AND ts >= 20"))
        self.assertEqual(lines["table"], f"{self.table}, watched in mode serve")
        self.assertEqual(lines["partition"], "sensor = 's1', day = 7")
        self.assertEqual(lines["standing"], f"COMPLETED at generation 1: 4 buckets in {self.watched}.wide_reading_1, made by by_hand")
        self.assertIn("20 rows (4.0 MiB) of 40 rows (8.0 MiB)", lines["holding"])
        asked = lines["each bucket"]
        found = self.direct.execute(self.direct.prepare(asked), (*SPLIT, 1, 2, 20)).all()
        self.assertEqual([row.ts for row in found], list(range(20, 30)))

    def test_values_stand_for_markers(self) -> None:
        statement = "SELECT * FROM reading WHERE sensor = ? AND day = ? AND ts > ?"
        keyspace = ("--keyspace", self.watched)
        lines = self.explained(statement, *keyspace, "--value", "'s1'", "--value", "7", "--value", "-5")
        self.assertIn("AND ts > -5", lines["statement"])
        self.assertIn("rewritten", lines["decision"])
        named = "SELECT * FROM reading WHERE sensor = :sensor AND day IN :days"
        lines = self.explained(named, *keyspace, "-v", "days=[9, 7]", "-v", "sensor='s1'")
        self.assertIn("1 of 2 partitions", lines["decision"])
        lines = self.explained(statement, *keyspace)
        self.assertIn("depends on the partition", lines["decision"])
        self.assertIn("give its 3 values", lines["form"])

    def test_a_partition_that_is_not_split_is_told_with_its_state(self) -> None:
        for key, standing in ((COPYING, "COPYING at generation 1, being copied"), (PLAIN, "not split, and no split is in progress")):
            lines = self.explained(self.of(key))
            self.assertEqual((lines["decision"], lines["because"]),
                             ("forwarded: the original answers", "the partition is not split"))
            self.assertIn(standing, lines["standing"])
            self.assertEqual(lines["form"], "it could be answered from buckets")

    def test_a_table_that_serves_nothing_says_why(self) -> None:
        self.direct.execute(f"UPDATE {self.control}.watched_table SET mode = 'detect' "
                            f"WHERE catalog = 'watched' AND keyspace_name = %s AND table_name = %s", (self.watched, "reading"))
        lines = self.explained(self.of(SPLIT))
        self.assertIn("mode detect", lines["because"])
        self.assertIn("COMPLETED", lines["standing"])
        self.make_table("other")
        lines = self.explained(self.of(SPLIT).replace(".reading", ".other"))
        self.assertIn("not watched", lines["because"])
        self.assertEqual(lines["form"], "it could be answered from buckets")


class Mistaken(ExplainTest):
    def test_statements_and_values(self) -> None:
        self.make_control_keyspace()
        one = f"SELECT * FROM {self.table} WHERE sensor = ?"
        for arguments, advice in (
                ((f"DELETE FROM {self.table} WHERE sensor = 's'",), "only SELECTs can be explained"),
                (("SELECT * FROM reading",), "add --keyspace"),
                (("SELECT * FROM reading", "--keyspace", "nowhere"), "there is no table nowhere.reading"),
                ((one, "--value", "s1"), "a text needs its own quotes"),
                ((one, "--value", "'a'", "--value", "'b'"), "one --value for each")):
            self.assertIn(advice, self.refused(CONFIGURATION, *arguments))

    def test_without_a_cluster_or_a_control_keyspace(self) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        text = self.refused(UPSTREAM_UNAVAILABLE, self.of(SPLIT), config=self.config(contacts=[nobody]))
        self.assertIn(nobody, text)
        self.assertIn("only the cluster knows the table's columns", text)
        self.assertIn(self.control, self.refused(CONTROL_KEYSPACE, self.of(SPLIT)))


if __name__ == "__main__":
    unittest.main()
