"""Upstream connections prefer the configured data centre, and leave it only while none of its nodes answers."""

from __future__ import annotations

import unittest

import wire
from support import OperationsTest, Proxy, cluster, cluster_command, eventually

CONNECTIONS = 4
NODES = {"127.0.4.1": "dc1", "127.0.4.2": "dc2"}


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("dc")["contact_points"]


class PreferredDataCenter(OperationsTest):
    def behind(self, proxy: Proxy) -> set[str]:
        """The data centres that new clients are served from."""
        found = set()
        for _ in range(CONNECTIONS):
            client = wire.Client(proxy.host, proxy.port)
            client.start()
            # What drivers see of `system.local` is always the preferred data centre; this is the node's own word.
            _, body = client.query("SELECT value FROM system_views.settings WHERE name = 'listen_address'")
            found.update(name for address, name in NODES.items() if address.encode() in body)
            client.stream.close()
        return found

    def presented(self, proxy: Proxy) -> str:
        session = self.driver(proxy.host, proxy.port)
        return session.execute("SELECT data_center FROM system.local").one().data_center

    def test_unset_it_is_that_of_the_first_contact_point(self) -> None:
        self.assertEqual(self.behind(self.proxy(CONTACTS)), {"dc1"})

    def test_unset_it_stays_when_the_control_connection_moves(self) -> None:
        proxy = self.proxy(CONTACTS)
        self.addCleanup(cluster_command, "up", "--name", "dc")
        cluster_command("stop-node", "--name", "dc", "--node", "1")
        self.assertTrue(eventually(lambda: proxy.metric('narrows_upstream_nodes{state="down"}') == 1, seconds=30))
        self.assertEqual(self.behind(proxy), {"dc2"})
        cluster_command("start-node", "--name", "dc", "--node", "1")
        self.assertTrue(eventually(lambda: self.behind(proxy) == {"dc1"}, seconds=60))

    def test_configured_it_is_kept_whatever_the_contact_point(self) -> None:
        proxy = self.proxy(CONTACTS[:1], {"upstream": {"data_center": "dc2"}})
        self.assertEqual(self.behind(proxy), {"dc2"})

    def test_unknown_data_center_is_served_with_a_warning(self) -> None:
        proxy = self.proxy(CONTACTS[:1], {"upstream": {"data_center": "dc9"}})
        proxy.expect("no node is in the configured upstream.data_center")
        self.assertNotEqual(self.behind(proxy), set())
        self.assertTrue(proxy.log("no node is in the configured upstream.data_center"))

    def test_dead_data_center_is_left_and_returned_to(self) -> None:
        proxy = self.proxy(CONTACTS[:1], {"upstream": {"data_center": "dc2"}})
        self.addCleanup(cluster_command, "up", "--name", "dc")
        cluster_command("stop-node", "--name", "dc", "--node", "2")
        self.assertEqual(self.behind(proxy), {"dc1"})
        self.assertEqual(self.presented(proxy), "dc2", "a driver that wants dc2 must keep its only node")
        cluster_command("start-node", "--name", "dc", "--node", "2")
        self.assertTrue(eventually(lambda: self.behind(proxy) == {"dc2"}, seconds=60))


if __name__ == "__main__":
    unittest.main()
