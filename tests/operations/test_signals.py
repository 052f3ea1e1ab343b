"""Signals and starting: SIGTERM drains, SIGHUP reloads what it can and names the rest, a taken port is an error."""

from __future__ import annotations

import signal
import subprocess
import time
import unittest

import wire
from certificates import make_authority, make_server
from load import Load, fill
from support import OperationsTest, Proxy, cluster, eventually, free_port, host_and_port

OVERLOADED = 0x1001
CANNOT_LISTEN = 71
DRAIN_SECONDS = 5


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("main")["contact_points"]


class Stopping(OperationsTest):
    def test_sigterm_under_load_loses_no_request_silently(self) -> None:
        direct = self.driver(*host_and_port(CONTACTS[0]))
        keyspace = self.keyspace(direct)
        fill(direct, keyspace)
        proxy = self.proxy(CONTACTS, {"limits": {"drain_timeout": f"{DRAIN_SECONDS}s"}})
        sessions = [self.driver(proxy.host, proxy.port) for _ in range(3)]
        load = Load(sessions, keyspace)
        eventually(lambda: len(load.successes) > 300)
        began = time.monotonic()
        self.assertEqual(proxy.stop(), 0)
        self.assertLess(time.monotonic() - began, DRAIN_SECONDS + 1)
        load.stop()
        self.assertGreater(len(load.successes), 300)
        self.assertEqual([repr(error) for at, error in load.errors if at < began], [], "errors before the signal")
        self.assertEqual(load.wrong, [])
        self.assertEqual(load.unanswered(), [])

    def test_requests_under_way_are_answered(self) -> None:
        """A schema change takes long enough to be still under way when the signal arrives."""
        direct = self.driver(*host_and_port(CONTACTS[0]))
        keyspace = self.keyspace(direct)
        proxy = self.proxy(CONTACTS)
        with wire.Client(proxy.host, proxy.port) as client:
            client.start()
            client.send(wire.QUERY, wire.query_body(f"CREATE TABLE {keyspace}.t (k int PRIMARY KEY)"))
            self.assertTrue(eventually(lambda: proxy.metric("narrows_proxy_requests_total") >= 2, pause=0.01))
            proxy.send(signal.SIGTERM)
            self.assertEqual(client.receive()[1], wire.RESULT)
            with self.assertRaises(ConnectionError):
                client.receive()
        self.assertEqual(proxy.stop(), 0)

    def test_sigint_ends_it_too(self) -> None:
        proxy = self.proxy(CONTACTS)
        self.assertEqual(proxy.stop(signal.SIGINT), 0)
        self.assertTrue(proxy.log("stopped"))


class Reloading(OperationsTest):
    def reload(self, proxy, changes: dict) -> dict:
        """What the log says about it."""
        before = len(proxy.log("configuration and TLS files reloaded"))
        proxy.reconfigure(changes)
        self.assertTrue(eventually(lambda: len(proxy.log("configuration and TLS files reloaded")) > before))
        return proxy.log("configuration and TLS files reloaded")[-1]

    def test_log_level_changes_at_once(self) -> None:
        proxy = self.proxy(CONTACTS)
        self.assertEqual(proxy.log("session begins"), [])
        self.assertEqual(self.reload(proxy, {"log": {"level": "debug"}})["changed"], "log.level")
        with wire.Client(proxy.host, proxy.port) as client:
            client.start()
        self.assertTrue(eventually(lambda: proxy.log("session begins")))

    def test_going_back_is_a_change_too(self) -> None:
        proxy = self.proxy(CONTACTS)
        self.reload(proxy, {"log": {"level": "debug"}})
        self.assertEqual(self.reload(proxy, {"log": {"level": "info"}})["changed"], "log.level")
        self.assertEqual(self.reload(proxy, {})["changed"], "")

    def test_limit_on_connections_changes_at_once(self) -> None:
        proxy = self.proxy(CONTACTS)
        with wire.Client(proxy.host, proxy.port) as first:
            self.assertEqual(first.start()[0], wire.READY)
            self.reload(proxy, {"limits": {"connections": 1}})
            with wire.Client(proxy.host, proxy.port) as second:
                opcode, body = second.start()
                self.assertEqual((opcode, wire.error_of(body)[0]), (wire.ERROR, OVERLOADED))
                self.assertIn("limits.connections", wire.error_of(body)[1])
            self.assertEqual(first.query("SELECT key FROM system.local")[0], wire.RESULT)
            self.reload(proxy, {"limits": {"connections": 2}})
            with wire.Client(proxy.host, proxy.port) as third:
                self.assertEqual(third.start()[0], wire.READY)

    def test_settings_that_need_a_restart_are_named(self) -> None:
        proxy = self.proxy(CONTACTS)
        proxy.expect("need a restart")
        self.reload(proxy, {"limits": {"request_bytes": "1MiB", "idle_timeout": "5m"}, "runtime": {"threads": 1}})
        [warning] = eventually(lambda: proxy.log("need a restart"))
        self.assertEqual(set(warning["settings"].split(", ")), {"limits.request_bytes", "runtime.threads"})

    def test_settings_that_need_a_restart_do_not_change_before(self) -> None:
        """Switching TLS on is one; plain clients stay welcome until the restart."""
        proxy = self.proxy(CONTACTS)
        proxy.expect("need a restart")
        make_authority(self.directory / "authority")
        self.reload(proxy, {"client": make_server(self.directory / "authority", "proxy")})
        [warning] = eventually(lambda: proxy.log("need a restart"))
        self.assertIn("client.tls_certificate", warning["settings"])
        with wire.Client(proxy.host, proxy.port, timeout=5) as client:
            self.assertEqual(client.start()[0], wire.READY)

    def test_broken_file_changes_nothing_and_is_explained(self) -> None:
        proxy = self.proxy(CONTACTS)
        proxy.expect("not reloaded")
        proxy.reconfigure({"log": {"level": "debug"}, "limits": {"connections": 1, "conections": 5}})
        self.assertTrue(eventually(lambda: proxy.log("not reloaded")))
        [error] = proxy.log("not reloaded")
        self.assertIn("limits.conections", error["mistakes"])
        clients = [wire.Client(proxy.host, proxy.port) for _ in range(2)]
        self.assertEqual([client.start()[0] for client in clients], [wire.READY] * 2)
        for client in clients:
            client.close()
        self.assertEqual(proxy.log("session begins"), [], "log.level changed")
        self.assertEqual(proxy.admin("/readyz")[0], 200)


class TakenPorts(OperationsTest):
    def second(self, first: Proxy, free: str) -> subprocess.CompletedProcess:
        """Starts another with the same file, but for one address to listen on."""
        environment = {**first.environment, free: f"127.0.0.1:{free_port()}"}
        return subprocess.run(first.command, env=environment, capture_output=True, text=True, timeout=10, check=False)

    def test_second_start_on_a_taken_port_ends_with_71(self) -> None:
        first = self.proxy(CONTACTS)
        for taken, free in (("client", "NARROWS__ADMIN__LISTEN"), ("admin", "NARROWS__CLIENT__LISTEN")):
            with self.subTest(taken):
                done = self.second(first, free)
                self.assertEqual(done.returncode, CANNOT_LISTEN, done.stderr)
                address = first.settings[taken]["listen"]
                self.assertIn(f"cannot listen on {address} ({taken}.listen)", done.stderr)
        with wire.Client(first.host, first.port) as client:
            self.assertEqual(client.start()[0], wire.READY, "the first is not disturbed")


if __name__ == "__main__":
    unittest.main()
