"""A proxy that restarts or crashes under live sessions: the same session object goes on, statements included."""

from __future__ import annotations

import signal
import unittest

from load import Load, fill
from support import OperationsTest, Proxy, cluster, host_and_port

CALM_SECONDS, CALM_WITHIN_SECONDS = 2, 30
UNPREPARED = 'narrows_proxy_requests_total{decision="unprepared"}'


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("main")["contact_points"]


class ProxyRestart(OperationsTest):
    def restart_under(self, mode: str, number: int, **options) -> Proxy:
        direct = self.driver(*host_and_port(CONTACTS[0]))
        keyspace = self.keyspace(direct, replication=3)
        fill(direct, keyspace)
        proxy = self.proxy(CONTACTS, {"topology": {"mode": mode}})
        host = proxy.host if mode == "single" else host_and_port(CONTACTS[0])[0]
        load = Load([self.driver(host, proxy.port, **options)], keyspace)
        self.addCleanup(load.stop)
        self.assertTrue(load.is_calm(1, 10), f"before anything happens: {load.errors}")
        proxy.stop(number)
        proxy.start().wait_ready()
        self.assertTrue(load.is_calm(CALM_SECONDS, CALM_WITHIN_SECONDS), f"requests still fail: {load.errors[-3:]}")
        load.stop()
        self.assertEqual((load.wrong, load.unanswered()), ([], []))
        return proxy

    def test_session_recovers_after_a_restart(self) -> None:
        self.restart_under("single", signal.SIGTERM)

    def test_session_recovers_after_a_crash(self) -> None:
        self.restart_under("single", signal.SIGKILL)

    def test_session_recovers_in_mirror(self) -> None:
        self.restart_under("mirror", signal.SIGTERM)

    def test_statements_are_prepared_again_on_first_use(self) -> None:
        """A driver that does not prepare again by itself is told UNPREPARED, which it handles without the application."""
        proxy = self.restart_under("single", signal.SIGTERM, reprepare_on_up=False)
        self.assertGreater(proxy.metric(UNPREPARED), 0)


if __name__ == "__main__":
    unittest.main()
