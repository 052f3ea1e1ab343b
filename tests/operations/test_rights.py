"""Rights on split partitions: who may read the original reads its split, who may not gets Cassandra's own refusal."""

from __future__ import annotations

import subprocess
import time
import unittest
import uuid

from cassandra import ConsistencyLevel, InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster
from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import QueryMessage

import wire
from roles import SUPERUSER, AuthTest
from splitter import Splitter
from support import BINARY, SCRATCH, OperationsTest, Proxy, cluster, cluster_command, eventually, host_and_port

SHARDS, VERSIONS = 4, (3, 4, 5)
ROWS, STARTS = 60, [0, 20, 45]
SPLIT, WHOLE, LATE = ("split", 1), ("whole", 1), ("late", 1)
# How long a proof of the right to read is believed; Cassandra itself remembers no rights on this cluster.
BELIEVED_SECONDS = 2
NULL_IN_KEY = "Invalid null value in condition for column"
# A client that hangs up may be slower than Cassandra's refusal.
HANG_UPS = 10
OLD = "old-auth"


class Made:
    """A watched table with one split partition, made once for all tests; the control keyspace is a DBA's work."""

    def __init__(self) -> None:
        self.contacts = cluster("auth")["contact_points"]
        host, port = host_and_port(self.contacts[0])
        driver = Cluster([host], port=port, auth_provider=PlainTextAuthProvider(SUPERUSER, SUPERUSER), connect_timeout=15)
        unittest.addModuleCleanup(driver.shutdown)
        self.admin = driver.connect()
        self.admin.default_timeout = 60
        self.keyspace, self.control = (f"operations_{uuid.uuid4().hex[:12]}" for _ in range(2))
        self.table = f"{self.keyspace}.reading"
        self.own = f"narrows_{uuid.uuid4().hex[:12]}", f"Pw{uuid.uuid4().hex}"
        self.make_table()
        self.make_control_keyspace()
        self.introduce()
        self.splitter = Splitter(self.admin, self.control, self.keyspace, "reading", SHARDS)
        self.splitter.create()
        if self.splitter.split(SPLIT, STARTS) != ROWS:
            raise AssertionError("the split partition is not as long as it was made")
        self.admin.execute(f"GRANT SELECT ON {self.keyspace}.{self.splitter.split_table} TO {self.own[0]}")

    def make_table(self) -> None:
        self.execute(f"CREATE KEYSPACE {self.keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 1}}",
                     f"DROP KEYSPACE {self.keyspace}")
        self.execute(f"CREATE TABLE {self.table} (sensor text, day int, ts int, value text, PRIMARY KEY ((sensor, day), ts))")
        insert = self.admin.prepare(f"INSERT INTO {self.table} (sensor, day, ts, value) VALUES (?, ?, ?, ?)")
        for key in (SPLIT, WHOLE, LATE):
            for ts in range(ROWS):
                self.admin.execute(insert, (*key, ts, f"{key[0]} {ts}"))

    def make_control_keyspace(self) -> None:
        """What `narrows schema apply` makes, and the rights that README asks for."""
        directory = SCRATCH / "rights"
        directory.mkdir(parents=True, exist_ok=True)
        login = {"contact_points": self.contacts, "username": SUPERUSER, "password": SUPERUSER}
        dba = Proxy(directory, {**self.settings(), "upstream": login})
        subprocess.run([BINARY, "schema", "apply", "--config", dba.config], check=True, capture_output=True)
        unittest.addModuleCleanup(self.admin.execute, f"DROP KEYSPACE {self.control}")
        name, password = self.own
        self.execute(f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = '{password}'", f"DROP ROLE {name}")
        for right in ("SELECT", "MODIFY"):
            self.execute(f"GRANT {right} ON KEYSPACE {self.control} TO {name}")

    def introduce(self) -> None:
        """Lets a proxy see the table: splits of one that none has seen are not believed."""
        login = {"contact_points": self.contacts, "username": self.own[0], "password": self.own[1]}
        proxy = Proxy(SCRATCH / "rights", {**self.settings(), "upstream": login}).start()
        try:
            if not eventually(self.is_seen, 30):
                raise AssertionError(f"no proxy saw the table; log in {proxy.log_file}")
        finally:
            proxy.stop()

    def is_seen(self) -> bool:
        rows = self.admin.execute(f"SELECT seen_table_id FROM {self.control}.watched_table").all()
        return bool(rows) and all(row.seen_table_id for row in rows)

    def settings(self) -> dict:
        return {"control": {"keyspace": self.control, "poll_interval": "500ms"},
                "table": [{"name": self.table, "shards": SHARDS, "mode": "serve"}]}

    def execute(self, statement: str, undo: str = "") -> None:
        self.admin.execute(statement)
        if undo:
            unittest.addModuleCleanup(self.admin.execute, undo)


def setUpModule() -> None:
    global MADE
    MADE = Made()


def refusal(session, statement, *values) -> str:
    """Code and text of Cassandra's error, as the driver shows them; empty for an answer."""
    try:
        session.execute(statement, *values)
    except (Unauthorized, InvalidRequest) as error:
        return f"{type(error).__name__}: {error}"
    return ""


class RightsTest(AuthTest):
    def follower(self) -> Proxy:
        """A proxy that serves the split."""
        proxy = self.proxy(MADE.contacts, {**MADE.settings(), **self.login_of(*MADE.own)})
        session = self.client(proxy, SUPERUSER, SUPERUSER)
        self.assertTrue(eventually(lambda: self.read(session) and self.answered(proxy), 20), "the split never answered")
        return proxy

    def client(self, proxy: Proxy, user: str, password: str, version: int = 5):
        return self.log_in(proxy.host, proxy.port, user, password, protocol_version=version,
                           profile={"retry_policy": FallthroughRetryPolicy()})

    def around(self, user: str, password: str, version: int = 5):
        """The same client without the proxy."""
        return self.log_in(*self.direct, user, password, protocol_version=version)

    def read(self, session, key: tuple = SPLIT) -> list:
        return session.execute(f"SELECT * FROM {MADE.table} WHERE sensor = %s AND day = %s", key).all()

    def refused(self, session, key: tuple = SPLIT) -> str:
        return refusal(session, f"SELECT * FROM {MADE.table} WHERE sensor = %s AND day = %s", key)

    def answered(self, proxy: Proxy) -> float:
        return proxy.metric("narrows_proxy_split_reads_total", outcome="answered")

    def assert_split_answers(self, proxy: Proxy, session, original) -> None:
        """Both as text and prepared, and as the original would."""
        expected = self.read(original)
        self.assertEqual(len(expected), ROWS)
        select = session.prepare(f"SELECT * FROM {MADE.table} WHERE sensor = ? AND day = ?")
        for read in (lambda: self.read(session), lambda: session.execute(select, SPLIT).all()):
            self.assertTrue(eventually(lambda: self.is_from_split(proxy, read, expected)), "the split did not answer")

    def is_from_split(self, proxy: Proxy, read, expected: list) -> bool:
        """On a busy machine the original answers now and then, with the same rows."""
        before = self.answered(proxy)
        self.assertEqual(read(), expected)
        return self.answered(proxy) > before

    def assert_equally_refused(self, session, original) -> None:
        expected = self.refused(original)
        self.assertIn("code=2100", expected)
        self.assertEqual(self.refused(session), expected)
        text = f"SELECT * FROM {MADE.table} WHERE sensor = ? AND day = ?"
        prepared = [(of, of.prepare(text)) for of in (original, session)]
        first, second = (refusal(of, select, SPLIT) for of, select in prepared)
        self.assertEqual(first, second)
        self.assertIn("code=2100", second)


class Reading(RightsTest):
    def test_right_on_the_original_is_enough(self) -> None:
        proxy, (user, password) = self.follower(), self.role()
        self.admin.execute(f"GRANT SELECT ON {MADE.table} TO {user}")
        split_table = f"{MADE.keyspace}.{MADE.splitter.split_table}"
        for version in VERSIONS:
            with self.subTest(version=version):
                session, original = self.client(proxy, user, password, version), self.around(user, password, version)
                self.assert_split_answers(proxy, session, original)
                self.assertIn("code=2100", refusal(session, f"SELECT * FROM {split_table}"))

    def test_own_role_may_not_read_the_original(self) -> None:
        """So whatever a client reads there it reads by a right of its own."""
        user, password = MADE.own
        own = self.around(user, password)
        self.assertIn("code=2100", self.refused(own))
        self.assertTrue(own.execute(f"SELECT * FROM {MADE.keyspace}.{MADE.splitter.split_table} LIMIT 1").one())
        self.assertIn("code=2100", refusal(own, f"DELETE FROM {MADE.keyspace}.{MADE.splitter.split_table} WHERE sensor = 'split' "
                                                f"AND day = 1 AND narrows_generation = 1 AND narrows_bucket = 0"))

    def test_without_the_right_it_is_cassandras_refusal(self) -> None:
        proxy, (user, password) = self.follower(), self.role()
        for version in VERSIONS:
            with self.subTest(version=version):
                before = self.answered(proxy)
                self.assert_equally_refused(self.client(proxy, user, password, version), self.around(user, password, version))
                self.assertEqual(self.answered(proxy), before)
        self.assertGreater(proxy.metric("narrows_proxy_split_fallbacks_total", reason="right"), 0)

    def test_superuser_reads_the_split(self) -> None:
        proxy = self.follower()
        for version in VERSIONS:
            with self.subTest(version=version):
                session = self.client(proxy, SUPERUSER, SUPERUSER, version)
                self.assert_split_answers(proxy, session, self.around(SUPERUSER, SUPERUSER, version))

    def test_rights_of_one_client_are_not_anothers(self) -> None:
        proxy, (user, password) = self.follower(), self.role()
        powerful = self.client(proxy, SUPERUSER, SUPERUSER)
        select = powerful.prepare(f"SELECT * FROM {MADE.table} WHERE sensor = ? AND day = ?")
        weak = self.client(proxy, user, password)
        for _ in range(3):
            self.assertEqual(len(powerful.execute(select, SPLIT).all()), ROWS)
            self.assertIn("code=2100", refusal(weak, select, SPLIT))

    def test_without_an_own_role_the_original_answers(self) -> None:
        proxy = self.proxy(MADE.contacts, MADE.settings(), ready=False)
        proxy.expect("asks for a login", "cannot be followed", "could not be compared", "control keyspace", "no control connection")
        # Not ready, since it knows nothing of its watched table; but it listens.
        self.assertTrue(eventually(lambda: proxy.log("listening for clients")))
        user, password = self.role()
        self.admin.execute(f"GRANT SELECT ON {MADE.table} TO {user}")
        session = self.client(proxy, user, password)
        for key in (SPLIT, WHOLE):
            self.assertEqual(self.read(session, key), self.read(self.admin, key))
        self.assertEqual(self.answered(proxy), 0)
        self.admin.execute(f"REVOKE SELECT ON {MADE.table} FROM {user}")
        self.assertIn("code=2100", self.refused(session))


class GrantedAndRevoked(RightsTest):
    def through_grant_and_revoke(self, grant: str, revoke: str, user: str, password: str, version: int = 5,
                                 proxy: Proxy | None = None) -> None:
        """A grant counts at once, a REVOKE for all that is sent more than two seconds after it."""
        proxy = proxy or self.follower()
        session, original = self.client(proxy, user, password, version), self.around(user, password, version)
        self.assert_equally_refused(session, original)
        self.admin.execute(grant)
        self.assert_split_answers(proxy, session, original)
        self.admin.execute(revoke)
        revoked_at = time.monotonic()
        self.assertIn("code=2100", self.refused(original), "Cassandra itself remembers rights on this cluster")
        # Asking on and on must not keep the proof alive. One that is sent in time is answered or refused.
        while time.monotonic() < revoked_at + BELIEVED_SECONDS:
            self.refused(session)
        before = self.answered(proxy)
        self.assert_equally_refused(session, original)
        self.assertEqual(self.answered(proxy), before)

    def test_on_the_table(self) -> None:
        proxy = self.follower()
        for version in VERSIONS:
            with self.subTest(version=version):
                user, password = self.role()
                self.through_grant_and_revoke(f"GRANT SELECT ON {MADE.table} TO {user}",
                                              f"REVOKE SELECT ON {MADE.table} FROM {user}", user, password, version, proxy)

    def test_on_the_keyspace(self) -> None:
        user, password = self.role()
        self.through_grant_and_revoke(f"GRANT SELECT ON KEYSPACE {MADE.keyspace} TO {user}",
                                      f"REVOKE SELECT ON KEYSPACE {MADE.keyspace} FROM {user}", user, password)

    def test_on_all_keyspaces(self) -> None:
        user, password = self.role()
        self.through_grant_and_revoke(f"GRANT SELECT ON ALL KEYSPACES TO {user}",
                                      f"REVOKE SELECT ON ALL KEYSPACES FROM {user}", user, password)

    def test_by_a_role_that_was_granted(self) -> None:
        (reader, _), (user, password) = self.role(), self.role()
        self.admin.execute(f"GRANT SELECT ON {MADE.table} TO {reader}")
        self.through_grant_and_revoke(f"GRANT {reader} TO {user}", f"REVOKE {reader} FROM {user}", user, password)

    def test_by_a_role_that_loses_its_right(self) -> None:
        (reader, _), (user, password) = self.role(), self.role()
        self.admin.execute(f"GRANT {reader} TO {user}")
        self.through_grant_and_revoke(f"GRANT SELECT ON {MADE.table} TO {reader}",
                                      f"REVOKE SELECT ON {MADE.table} FROM {reader}", user, password)


class Writing(RightsTest):
    def test_who_may_not_write_cannot_invalidate(self) -> None:
        proxy, (user, password) = self.follower(), self.role()
        self.admin.execute(f"GRANT SELECT ON {MADE.table} TO {user}")
        standing, rows = MADE.splitter.standing(SPLIT), self.read(self.admin)
        self.assertEqual(standing[0], "COMPLETED")
        place = "WHERE sensor = 'split' AND day = 1"
        insert = f"INSERT INTO {MADE.table} (sensor, day, ts, value) VALUES ('split', 1, 3, 'late')"
        refusals = [insert, f"{insert} IF NOT EXISTS", f"UPDATE {MADE.table} SET value = 'late' {place} AND ts = 3",
                    f"UPDATE {MADE.table} SET value = 'late' {place} AND ts = 3 IF EXISTS", f"DELETE FROM {MADE.table} {place}",
                    f"BEGIN BATCH {insert}; APPLY BATCH", f"BEGIN UNLOGGED BATCH {insert}; APPLY BATCH",
                    f"TRUNCATE {MADE.table}", f"ALTER TABLE {MADE.table} ADD extra text", f"DROP TABLE {MADE.table}"]
        for version in VERSIONS:
            session, original = self.client(proxy, user, password, version), self.around(user, password, version)
            for statement in refusals:
                with self.subTest(version=version, statement=statement):
                    expected = refusal(original, statement)
                    self.assertIn("code=2100", expected)
                    self.assertEqual(refusal(session, statement), expected)
            prepared = session.prepare(f"UPDATE {MADE.table} SET value = ? {place} AND ts = 3")
            self.assertIn("code=2100", refusal(session, prepared, ["late"]))
            # Long enough for a follower to see what would have changed.
            time.sleep(1)
            self.assertEqual(MADE.splitter.standing(SPLIT), standing)
            self.assert_split_answers(proxy, session, original)
        self.assertEqual(self.read(self.admin), rows)

    def test_who_may_write_ends_the_split_and_sees_what_was_written(self) -> None:
        proxy, (user, password) = self.follower(), self.role()
        for right in ("SELECT", "MODIFY"):
            self.admin.execute(f"GRANT {right} ON {MADE.table} TO {user}")
        session = self.client(proxy, user, password)
        self.assertEqual(MADE.splitter.split(LATE, STARTS), ROWS)
        before = self.answered(proxy)
        self.assertTrue(eventually(lambda: self.read(session, LATE) and self.answered(proxy) > before, 20), "never answered")
        session.execute(f"INSERT INTO {MADE.table} (sensor, day, ts, value) VALUES ('late', 1, {ROWS}, 'late')")
        self.assertEqual(MADE.splitter.standing(LATE)[0], "INVALIDATED")
        self.assertEqual(len(self.read(session, LATE)), ROWS + 1)
        self.assertEqual(self.read(session, LATE), self.read(self.admin, LATE))


    def test_who_may_not_write_and_hangs_up_ends_nothing(self) -> None:
        """An unknown outcome ends what is split only if the client could have written it."""
        proxy, (user, password) = self.follower(), self.role()
        standing, rows = MADE.splitter.standing(SPLIT), self.control_rows()
        into = f"INSERT INTO {MADE.table} (sensor, day, ts, value) VALUES"
        for statement in (f"{into} ('split', 1, 3, 'late')", f"{into} ('nobody', 1, 3, 'late')", f"TRUNCATE {MADE.table}"):
            for _ in range(HANG_UPS):
                with wire.Client(proxy.host, proxy.port) as client:
                    client.start(user, password)
                    # Needs no right, so that its success proves none.
                    self.assertEqual(client.query("BEGIN BATCH APPLY BATCH")[0], wire.RESULT)
                    client.send(wire.QUERY, wire.query_body(statement))
        self.assertTrue(eventually(lambda: proxy.metric("narrows_late_writes_total", outcome="forgotten")), "nobody hung up in time")
        # Long enough for what would have changed.
        time.sleep(2)
        self.assertEqual(MADE.splitter.standing(SPLIT), standing)
        self.assertEqual(self.control_rows(), rows)

    def control_rows(self) -> list:
        return self.admin.execute(f"SELECT partition_key, state, epoch FROM {MADE.control}.wide_row").all()


class Proof(OperationsTest):
    """What a proof relies on, asked of Cassandra alone: it looks at rights before it looks at what a statement says."""

    def check(self, contact: str) -> None:
        host, port = host_and_port(contact)
        admin = self.driver(host, port, auth_provider=PlainTextAuthProvider(SUPERUSER, SUPERUSER))
        keyspace, name, password = self.keyspace(admin), f"role_{uuid.uuid4().hex[:12]}", f"Pw{uuid.uuid4().hex}"
        admin.execute(f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = '{password}'")
        self.addCleanup(admin.execute, f"DROP ROLE {name}")
        admin.execute(f"CREATE TABLE {keyspace}.one (a int, c int, PRIMARY KEY (a, c))")
        admin.execute(f"CREATE TABLE {keyspace}.two (a int, b text, c int, PRIMARY KEY ((a, b), c))")
        asks = [("SELECT", f'SELECT "a" FROM "{keyspace}"."one" WHERE "a" = ?', 1, NULL_IN_KEY),
                ("SELECT", f'SELECT "a", "b" FROM "{keyspace}"."two" WHERE "a" = ? AND "b" = ?', 2, NULL_IN_KEY),
                ("MODIFY", f'DELETE FROM "{keyspace}"."one" WHERE "a" = ?', 1, NULL_IN_KEY),
                ("ALTER", f'ALTER TABLE "{keyspace}"."one" DROP "no such column"', 0, "Column no such column was not found")]
        for version in VERSIONS:
            login = PlainTextAuthProvider(name, password)
            session = self.driver(host, port, auth_provider=login, protocol_version=version)
            for right, text, columns, refusal_text in asks:
                with self.subTest(version=version, text=text):
                    self.assertIn("code=2100", self.null_key(session, text, columns))
                    admin.execute(f"GRANT {right} ON KEYSPACE {keyspace} TO {name}")
                    proven = self.null_key(session, text, columns)
                    self.assertIn("code=2200", proven)
                    self.assertIn(refusal_text, proven)
                    admin.execute(f"REVOKE {right} ON KEYSPACE {keyspace} FROM {name}")
                    self.assertIn("code=2100", self.null_key(session, text, columns))

    @staticmethod
    def null_key(session, text: str, columns: int) -> str:
        """The driver would write values into the text, so the message is made by hand."""
        message = QueryMessage(text, ConsistencyLevel.ONE)
        message.query_params = [None] * columns
        connection = session.cluster.control_connection._connection
        # With fail_on_error the driver would give up the connection after an error.
        _, answer = connection.wait_for_response(message, timeout=15, fail_on_error=False)
        return str(answer)

    def test_rights_come_before_values_on_5_0(self) -> None:
        self.check(cluster("auth")["contact_points"][0])

    def test_rights_come_before_values_on_4_1(self) -> None:
        old = cluster(OLD, "--version", "4.1", "--auth", "--nodes", "1", "--subnet", "127.0.8", "--heap", "512M")
        self.addCleanup(cluster_command, "down", "--name", OLD)
        self.check(old["contact_points"][0])


if __name__ == "__main__":
    unittest.main()
