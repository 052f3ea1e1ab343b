"""TLS on either side and both, with client certificates, and certificates replaced while the proxy runs."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import unittest
import uuid

from cassandra.auth import PlainTextAuthProvider

import wire
from certificates import make_authority, make_client, make_server, trust
from support import BINARY, OperationsTest, cluster, cluster_command, eventually, host_and_port, write_toml

SUPERUSER = "cassandra"
OVERLOADED = 0x1001
REFUSALS = (ssl.SSLError, ConnectionError)


def setUpModule() -> None:
    global CONTACTS, NODE
    described = cluster("auth")
    CONTACTS, NODE = described["contact_points"], described["tls"]


class TlsTest(OperationsTest):
    def setUp(self) -> None:
        super().setUp()
        self.authority = make_authority(self.directory / "authority")

    def settings(self, client: dict | None = None, upstream: dict | None = None) -> dict:
        login = {"username": SUPERUSER, "password": SUPERUSER}
        return {"client": client or {}, "upstream": {**login, **(upstream or {})}}

    def log_in(self, proxy, context: ssl.SSLContext | None = None, user: str = SUPERUSER, password: str = SUPERUSER):
        return self.driver(proxy.host, proxy.port, ssl_context=context, auth_provider=PlainTextAuthProvider(user, password))

    def assert_serves(self, proxy, context: ssl.SSLContext | None = None) -> None:
        session = self.log_in(proxy, context)
        self.assertTrue(session.execute("SELECT release_version FROM system.local").one().release_version)

    def assert_refused(self, proxy, context: ssl.SSLContext | None) -> None:
        with self.assertRaises(REFUSALS), wire.Client(proxy.host, proxy.port, context, timeout=5) as client:
            client.start(SUPERUSER, SUPERUSER)

    def server_settings(self, name: str = "proxy") -> dict:
        return make_server(self.authority.parent, name)


class Sides(TlsTest):
    def test_client_side(self) -> None:
        proxy = self.proxy(CONTACTS, self.settings(client=self.server_settings()))
        self.assert_serves(proxy, trust(self.authority))
        self.assert_refused(proxy, None)

    def test_upstream_side(self) -> None:
        proxy = self.proxy(CONTACTS, self.settings(upstream={"tls": True, "tls_ca": NODE["ca"]}))
        self.assert_serves(proxy)
        self.assertEqual(self.encrypted_upstream(proxy, None), {True})

    def test_both_sides(self) -> None:
        upstream = {"tls": True, "tls_ca": NODE["ca"]}
        proxy = self.proxy(CONTACTS, self.settings(self.server_settings(), upstream))
        self.assert_serves(proxy, trust(self.authority))
        self.assertEqual(self.encrypted_upstream(proxy, trust(self.authority)), {True})

    def test_plain_on_both_sides_is_seen_as_plain(self) -> None:
        """Shows that the question which the others ask can be answered with no."""
        proxy = self.proxy(CONTACTS, self.settings())
        self.assertEqual(self.encrypted_upstream(proxy, None), {False})

    def encrypted_upstream(self, proxy, context) -> set[bool]:
        """Whether Cassandra sees the connections of a role, which only this test uses, as encrypted."""
        direct = self.driver(*host_and_port(CONTACTS[0]), auth_provider=PlainTextAuthProvider(SUPERUSER, SUPERUSER))
        role = f"role_{uuid.uuid4().hex[:12]}"
        direct.execute(f"CREATE ROLE {role} WITH LOGIN = true AND PASSWORD = '{role}'")
        self.addCleanup(direct.execute, f"DROP ROLE {role}")
        session = self.log_in(proxy, context, role, role)
        session.execute("SELECT key FROM system.local")
        rows = direct.execute("SELECT username, ssl_enabled FROM system_views.clients").all()
        return {row.ssl_enabled for row in rows if row.username == role}


class ClientCertificates(TlsTest):
    def test_client_must_show_a_certificate_of_the_authority(self) -> None:
        clients = make_authority(self.directory / "clients")
        settings = self.settings({**self.server_settings(), "tls_client_ca": str(clients)})
        proxy = self.proxy(CONTACTS, settings)
        own = make_client(clients.parent, "client")
        self.assert_serves(proxy, trust(self.authority, own))
        self.assert_refused(proxy, trust(self.authority))
        make_authority(self.directory / "strangers")
        self.assert_refused(proxy, trust(self.authority, make_client(self.directory / "strangers", "stranger")))
        self.assert_serves(proxy, trust(self.authority, own))

    def test_upstream_certificate_needs_shared_identity(self) -> None:
        config = self.directory / "narrows.toml"
        upstream = {"contact_points": CONTACTS, "tls": True, "tls_ca": NODE["ca"],
                    "tls_certificate": NODE["client_certificate"], "tls_key": NODE["client_key"]}
        write_toml(config, {"upstream": upstream})
        done = subprocess.run([BINARY, "run", "--config", config], capture_output=True, text=True, timeout=10, check=False)
        self.assertEqual(done.returncode, 64, done.stderr)
        self.assertIn("upstream.shared_identity", done.stderr)


class UpstreamCertificate(TlsTest):
    """A cluster of its own, as only one that insists on certificates shows that ours arrives."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.node = cluster("mtls", "--nodes", "1", "--subnet", "127.0.10", "--tls", "--mtls", "--heap", "512M")
        cls.addClassCleanup(cluster_command, "down", "--name", "mtls")

    def test_shared_identity_is_shown_to_cassandra(self) -> None:
        tls = self.node["tls"]
        upstream = {"tls": True, "tls_ca": tls["ca"], "shared_identity": True,
                    "tls_certificate": tls["client_certificate"], "tls_key": tls["client_key"]}
        proxy = self.proxy(self.node["contact_points"], {"upstream": upstream})
        session = self.driver(proxy.host, proxy.port)
        self.assertTrue(session.execute("SELECT release_version FROM system.local").one().release_version)

    def test_without_it_cassandra_refuses_and_the_log_says_where(self) -> None:
        """Cassandra resets the connection after the handshake, so that there is no reason to pass on."""
        upstream = {"tls": True, "tls_ca": self.node["tls"]["ca"]}
        proxy = self.proxy(self.node["contact_points"], {"upstream": upstream}, ready=False)
        proxy.expect("no control connection", "a client is turned away")
        self.assertTrue(eventually(lambda: proxy.log("no control connection")))
        self.assertEqual(proxy.admin("/readyz")[0], 503)
        self.assertIn(self.node["contact_points"][0], proxy.admin("/readyz")[1])


class WrongAuthority(TlsTest):
    def test_log_and_readiness_say_what_is_wrong_and_the_client_gets_an_error(self) -> None:
        upstream = {"tls": True, "tls_ca": str(self.authority)}
        proxy = self.proxy(CONTACTS, self.settings(upstream=upstream), ready=False)
        proxy.expect("no control connection", "a client is turned away")
        self.assertTrue(eventually(lambda: proxy.log("no control connection")))
        trouble = proxy.log("no control connection")[0]["error"]
        self.assertIn(f"TLS with {CONTACTS[0]} failed", trouble)
        self.assertIn("upstream.tls_ca", trouble)
        with wire.Client(proxy.host, proxy.port) as client:
            opcode, body = client.start()
        self.assertEqual((opcode, wire.error_of(body)[0]), (wire.ERROR, OVERLOADED))
        # The reason is the operator's to know; clients learn no real address.
        self.assertIn("no upstream node answers", wire.error_of(body)[1])
        self.assertNotIn("127.0.2.1", wire.error_of(body)[1])
        status, reason = proxy.admin("/readyz")
        self.assertEqual(status, 503)
        self.assertIn(f"TLS with {CONTACTS[0]} failed", reason)


class Reload(TlsTest):
    def test_new_certificate_for_new_connections_only(self) -> None:
        files = self.server_settings()
        proxy = self.proxy(CONTACTS, self.settings(client=files))
        with wire.Client(proxy.host, proxy.port, trust(self.authority)) as old:
            old.start(SUPERUSER, SUPERUSER)
            before = old.stream.getpeercert(binary_form=True)
            fresh = self.server_settings("fresh")
            for key, file in files.items():
                shutil.copy(fresh[key], file)
            proxy.send(signal.SIGHUP)
            self.assertTrue(eventually(lambda: proxy.log("reloaded")))
            with wire.Client(proxy.host, proxy.port, trust(self.authority)) as new:
                self.assertEqual(new.start(SUPERUSER, SUPERUSER)[0], wire.AUTH_SUCCESS)
                self.assertNotEqual(new.stream.getpeercert(binary_form=True), before)
            self.assertEqual(old.query("SELECT key FROM system.local")[0], wire.RESULT)

    def test_bad_certificate_changes_nothing_and_is_named(self) -> None:
        files = self.server_settings()
        proxy = self.proxy(CONTACTS, self.settings(client=files))
        proxy.expect("not reloaded")
        with open(files["tls_certificate"], "w", encoding="ascii") as file:
            file.write("no certificate\n")
        proxy.send(signal.SIGHUP)
        self.assertTrue(eventually(lambda: proxy.log("not reloaded")))
        self.assertIn(os.path.basename(files["tls_certificate"]), str(proxy.log("not reloaded")))
        self.assert_serves(proxy, trust(self.authority))

    def test_upstream_authority_is_replaced(self) -> None:
        """As when it was wrong at the start: the next attempt takes the new one, for clients and the proxy itself."""
        upstream = {"tls": True, "tls_ca": str(self.authority)}
        proxy = self.proxy(CONTACTS, self.settings(upstream=upstream), ready=False)
        proxy.expect("no control connection", "a client is turned away")
        self.assertTrue(eventually(lambda: proxy.log("no control connection")))
        shutil.copy(NODE["ca"], self.authority)
        proxy.send(signal.SIGHUP)
        self.assertTrue(eventually(lambda: proxy.log("reloaded")))
        with wire.Client(proxy.host, proxy.port) as client:
            self.assertEqual(client.start(SUPERUSER, SUPERUSER)[0], wire.AUTH_SUCCESS)
        # The longest pause between two attempts is ten seconds.
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 200, 60), proxy.admin("/readyz"))


if __name__ == "__main__":
    unittest.main()
