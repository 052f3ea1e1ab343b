"""Logins and permissions: Cassandra decides, in its own words; the proxy keeps no secret and logs none."""

from __future__ import annotations

import subprocess
import unittest
import uuid

from cassandra import AuthenticationFailed, Unauthorized
from cassandra.cluster import NoHostAvailable

import wire
from roles import SUPERUSER, AuthTest
from support import BINARY, cluster, eventually, write_toml

BAD_CREDENTIALS, UNAUTHORIZED = 0x0100, 0x2100
ASKS_FOR_LOGIN = "asks for a login"


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("auth")["contact_points"]


class RelayThatFindsAControlKeyspace(AuthTest):
    def setUp(self) -> None:
        super().setUp()
        self.control = f"operations_{uuid.uuid4().hex[:12]}"
        self.addCleanup(self.admin.execute, f"DROP KEYSPACE IF EXISTS {self.control}", timeout=60)
        config = self.directory / "dba.toml"
        login = {"contact_points": CONTACTS, "username": SUPERUSER, "password": SUPERUSER}
        write_toml(config, {"upstream": login, "control": {"keyspace": self.control}})
        done = subprocess.run([BINARY, "schema", "apply", "--config", config], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def relay(self, login: dict):
        proxy = self.proxy(CONTACTS, {**login, "control": {"keyspace": self.control}}, name="relay")
        proxy.expect("this proxy cannot use it", ASKS_FOR_LOGIN)
        return proxy

    def write(self, proxy, table: str) -> None:
        self.log_in(proxy.host, proxy.port, SUPERUSER, SUPERUSER).execute(f"INSERT INTO {table} (k, v) VALUES ('a', 'b')")

    def test_without_rights_it_says_so_and_stays_a_relay_until_it_has_them(self) -> None:
        user, password = self.role()
        proxy, table = self.relay(self.login_of(user, password)), self.table()
        [warning] = proxy.log("this proxy cannot use it")
        self.assertIn("permission", warning["error"])
        self.assertIn(self.control, warning["error"])
        self.write(proxy, table)
        self.assertEqual(proxy.metric("narrows_follow_refreshes_total"), 0)
        for right in ("SELECT", "MODIFY"):
            self.admin.execute(f"GRANT {right} ON KEYSPACE {self.control} TO {user}")
        self.admin.execute(f"GRANT SELECT ON system_views.settings TO {user}")
        self.assertTrue(eventually(lambda: proxy.log("a control keyspace was found")))
        self.write(proxy, table)
        self.assertGreater(proxy.metric("narrows_follow_refreshes_total"), 0)

    def test_without_a_login_it_is_a_relay_as_ever(self) -> None:
        proxy, table = self.relay({}), self.table()
        self.assertIn("the control keyspace stay unknown", proxy.log(ASKS_FOR_LOGIN)[0]["error"])
        self.write(proxy, table)


class ClientLogins(AuthTest):
    def test_role_logs_in_and_reads(self) -> None:
        proxy = self.proxy(CONTACTS, self.own_login())
        user, password = self.role()
        session = self.log_in(proxy.host, proxy.port, user, password)
        self.assertTrue(session.execute("SELECT release_version FROM system.local").one().release_version)
        mine = session.execute("LIST ROLES").all()
        self.assertEqual([row.role for row in mine], [user], "the client is itself, not the proxy's role")

    def test_wrong_password_gets_cassandras_error(self) -> None:
        proxy = self.proxy(CONTACTS, self.own_login())
        user, _ = self.role()
        refusals = []
        for host, port in (self.direct, (proxy.host, proxy.port)):
            with wire.Client(host, port) as client:
                opcode, body = client.start(user, "wrong")
                self.assertEqual(opcode, wire.ERROR)
                refusals.append(wire.error_of(body))
        self.assertEqual(refusals[0], refusals[1])
        self.assertEqual(refusals[1][0], BAD_CREDENTIALS)
        with self.assertRaises(NoHostAvailable) as caught:
            self.log_in(proxy.host, proxy.port, user, "wrong")
        self.assertIsInstance(next(iter(caught.exception.errors.values())), AuthenticationFailed)

    def test_role_without_rights_gets_cassandras_error(self) -> None:
        proxy = self.proxy(CONTACTS, self.own_login())
        (user, password), table = self.role(), self.table()
        refusals = []
        for host, port in (self.direct, (proxy.host, proxy.port)):
            with wire.Client(host, port) as client:
                self.assertEqual(client.start(user, password)[0], wire.AUTH_SUCCESS)
                opcode, body = client.query(f"SELECT * FROM {table}")
                self.assertEqual(opcode, wire.ERROR)
                refusals.append(wire.error_of(body))
        self.assertEqual(refusals[0], refusals[1])
        self.assertEqual(refusals[1][0], UNAUTHORIZED)

    def test_revoke_holds_at_once(self) -> None:
        """Also for statements that were prepared while they were allowed."""
        proxy = self.proxy(CONTACTS, self.own_login())
        (user, password), table = self.role(), self.table()
        session = self.log_in(proxy.host, proxy.port, user, password)
        for _ in range(3):
            self.admin.execute(f"GRANT SELECT ON {table} TO {user}")
            select = session.prepare(f"SELECT * FROM {table} WHERE k = ?")
            self.assertEqual(session.execute(select, ["a"]).all(), [])
            self.admin.execute(f"REVOKE SELECT ON {table} FROM {user}")
            with self.assertRaises(Unauthorized):
                session.execute(select, ["a"])
            with self.assertRaises(Unauthorized):
                session.execute(f"SELECT * FROM {table}")

    def test_statement_of_another_role_gives_no_rights(self) -> None:
        """The registry of prepared statements is shared by all sessions; rights are not."""
        proxy = self.proxy(CONTACTS, self.own_login())
        (user, password), table = self.role(), self.table()
        powerful = self.log_in(proxy.host, proxy.port, SUPERUSER, SUPERUSER)
        select = powerful.prepare(f"SELECT * FROM {table}")
        self.assertEqual(powerful.execute(select).all(), [])
        weak = self.log_in(proxy.host, proxy.port, user, password)
        with self.assertRaises(Unauthorized):
            weak.execute(select)


class OwnLogin(AuthTest):
    def test_own_role_follows_the_cluster(self) -> None:
        proxy = self.proxy(CONTACTS, self.own_login())
        self.assertTrue(proxy.log("cluster found"))

    def test_without_own_role_it_serves_and_says_once_what_to_do(self) -> None:
        proxy = self.proxy(CONTACTS)
        proxy.expect(ASKS_FOR_LOGIN)
        session = self.log_in(proxy.host, proxy.port, SUPERUSER, SUPERUSER)
        session.execute("SELECT key FROM system.local").one()
        # Long enough for several attempts of the control connection.
        eventually(lambda: False, 3)
        [warning] = [entry for entry in proxy.log(ASKS_FOR_LOGIN) if entry["level"] == "WARN"]
        self.assertIn("upstream.username", warning["error"])
        self.assertIn("upstream.password_file", warning["error"])

    def test_without_own_role_mirror_is_not_ready_and_says_why(self) -> None:
        proxy = self.proxy(CONTACTS, {"topology": {"mode": "mirror"}}, ready=False)
        proxy.expect(ASKS_FOR_LOGIN)
        self.assertTrue(eventually(lambda: "upstream.username" in proxy.admin("/readyz")[1]), proxy.admin("/readyz"))
        self.assertEqual(proxy.admin("/readyz")[0], 503)

    def test_wrong_own_password_is_named_not_shown(self) -> None:
        secret = f"Pw{uuid.uuid4().hex}"
        own = {"upstream": {"username": SUPERUSER, "password": secret}}
        proxy = self.proxy(CONTACTS, own, ready=False)
        proxy.expect("no control connection")
        self.assertTrue(eventually(lambda: "and/or password are incorrect" in proxy.admin("/readyz")[1]), proxy.admin("/readyz"))
        self.assertEqual(proxy.admin("/readyz")[0], 503)
        self.assertNotIn(secret, proxy.log_file.read_text() + proxy.admin("/readyz")[1])


class Secrets(AuthTest):
    def test_nothing_secret_is_logged_at_the_loudest_level(self) -> None:
        own = self.own_login()
        proxy = self.proxy(CONTACTS, own, environment={"NARROWS__LOG__LEVEL": "trace"})
        user, password = self.role()
        table = self.table()
        self.admin.execute(f"GRANT ALL ON {table} TO {user}")
        values = [uuid.uuid4().hex for _ in range(4)]
        session = self.log_in(proxy.host, proxy.port, user, password)
        session.execute(f"INSERT INTO {table} (k, v) VALUES (%s, %s)", values[:2])
        insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        session.execute(insert, values[2:])
        self.assertEqual(len(session.execute(f"SELECT * FROM {table}").all()), 2)
        with wire.Client(proxy.host, proxy.port) as client:
            self.assertEqual(client.start(user, "Wrong" + password)[0], wire.ERROR)
        self.assertTrue(eventually(lambda: proxy.log("session ended")), "the log is not at its loudest")
        written = proxy.log_file.read_text() + proxy.admin("/metrics")[1]
        own_password = (self.directory / "password").read_text().strip()
        for secret in [password, own_password, *values]:
            self.assertNotIn(secret, written)


if __name__ == "__main__":
    unittest.main()
