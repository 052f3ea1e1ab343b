"""Nodes that die, return or hang, under load, through both modes. The cluster is our own, as all this disturbs others."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
import unittest

from cassandra.cluster import Cluster

import wire
from outage import scenarios
from outage.run import Play
from load import ROWS, Load, fill
from support import ROOT, OperationsTest, Proxy, cluster, cluster_command, eventually, host_and_port

NAME, SUBNET, KEYSPACE = "fault", "127.0.6", "operations"
# Until drivers have noticed, reconnected, and reads of the dead replica have run into their limit of 10 s.
CALM_WITHIN_SECONDS = 45
CALM_SECONDS = 3
LOST_CONTROL = "no control connection"
TURNED_AWAY = "a client is turned away"


def setUpModule() -> None:
    global CONTACTS
    cluster_command("down", "--name", NAME)
    CONTACTS = cluster(NAME, "--nodes", "3", "--version", "5.0", "--subnet", SUBNET)["contact_points"]
    unittest.addModuleCleanup(cluster_command, "down", "--name", NAME)
    with Cluster([SUBNET + ".1"]) as driver:
        session = driver.connect()
        session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}}")
        fill(session, KEYSPACE)


def node_pid(number: int) -> int:
    return int((ROOT / "target" / "cluster" / NAME / f"node{number}" / "pid").read_text().split()[0])


def kill(number: int) -> None:
    cluster_command("stop-node", "--name", NAME, "--node", str(number), "--kill")


def bring_back(number: int) -> None:
    cluster_command("start-node", "--name", NAME, "--node", str(number))


def listens(address: str) -> bool:
    try:
        socket.create_connection(host_and_port(address), 2).close()
        return True
    # A listener that closes resets the connections that it has not accepted yet.
    except (ConnectionRefusedError, ConnectionResetError):
        return False


def accepts(proxy: Proxy, number: int) -> bool:
    """Whether a mirrored node's listener is there."""
    return listens(f"{SUBNET}.{number}:{proxy.port}")


def begun(proxy: Proxy, number: int, since: int = 0) -> int:
    """Sessions that began on a node, after so many lines of the log."""
    entries = [entry for entry in proxy.log()[since:] if entry["message"] == "session begins"]
    return sum(entry["upstream"] == CONTACTS[number - 1] for entry in entries)


class Readiness:
    """Asks `/readyz` all the time and keeps whatever was not 200."""

    def __init__(self, *proxies: Proxy) -> None:
        self.bad: list[tuple[int, str]] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch, args=proxies, daemon=True)
        self.thread.start()

    def watch(self, *proxies: Proxy) -> None:
        while not self.stopped.wait(0.05):
            answers = [proxy.admin("/readyz") for proxy in proxies]
            self.bad.extend(answer for answer in answers if answer[0] != 200)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join(10)


class NodeDeath(OperationsTest):
    """The first node is the one that dies: the proxies' own connections are there too."""

    def setUp(self) -> None:
        super().setUp()
        debug = {"log": {"level": "debug"}}
        self.single = self.proxy(CONTACTS, debug, name="single")
        self.mirror = self.proxy(CONTACTS, {"topology": {"mode": "mirror"}, **debug}, name="mirror")
        for proxy in (self.single, self.mirror):
            proxy.expect(LOST_CONTROL, TURNED_AWAY)

    def start_load(self, sessions: list) -> Load:
        load = Load(sessions, KEYSPACE)
        self.addCleanup(load.stop)
        return load

    def assert_calm(self, *loads: Load) -> None:
        """Errors belong to the event; after it all requests succeed again."""
        for load in loads:
            self.assertTrue(load.is_calm(CALM_SECONDS, CALM_WITHIN_SECONDS), f"still failing: {load.errors[-3:]}")

    def coordinators(self, session) -> int:
        futures = [session.execute_async("SELECT key FROM system.local") for _ in range(6)]
        for future in futures:
            future.result()
        return len({future.coordinator_host.endpoint for future in futures})

    def test_node_dies_and_returns(self) -> None:
        # Two connections for each driver, so that every node carries some.
        in_single = [self.driver(self.single.host, self.single.port) for _ in range(3)]
        self.assertTrue(all(begun(self.single, number) for number in (1, 2, 3)))
        in_mirror = self.driver(SUBNET + ".1", self.mirror.port)
        loads = [self.start_load(in_single), self.start_load([in_mirror])]
        self.assert_calm(*loads)
        ready = Readiness(self.single, self.mirror)
        self.addCleanup(ready.stop)
        self.die(*loads)
        self.come_back(in_mirror, *loads)
        ready.stop()
        for load in loads:
            load.stop()
            self.assertEqual((load.wrong, load.unanswered()), ([], []))
        self.assertEqual(ready.bad, [], "two nodes were there all the time")

    def die(self, *loads: Load) -> None:
        before = len(self.single.log())
        kill(1)
        # Whatever becomes of this test, the next one finds the node; starting one that runs does nothing.
        self.addCleanup(bring_back, 1)
        dead = len(self.single.log())
        self.assertTrue(eventually(lambda: not accepts(self.mirror, 1), 30), "its listener refuses")
        self.assert_calm(*loads)
        self.assertEqual(begun(self.single, 1, dead), 0)
        self.assertGreater(begun(self.single, 2, before) + begun(self.single, 3, before), 0, "its connections moved")

    def come_back(self, in_mirror, *loads: Load) -> None:
        bring_back(1)
        self.assertTrue(eventually(lambda: accepts(self.mirror, 1), 20), "its listener returns")
        self.assertTrue(eventually(lambda: self.coordinators(in_mirror) == 3, 60, 1), "the driver uses it again")
        self.assertTrue(eventually(lambda: self.single.log('"state":"up"'), 20))
        self.assert_calm(*loads)
        lines = len(self.single.log())
        for _ in range(2):
            self.driver(self.single.host, self.single.port)
        self.assertGreater(begun(self.single, 1, lines), 0, "new connections take the node with the fewest")


class WholeCluster(OperationsTest):
    def test_it_dies_and_one_node_returns(self) -> None:
        """The last class here, as two nodes stay dead. An error frame ends a driver's handshake at once, a bare close does not."""
        proxy = self.proxy(CONTACTS[:1], {"upstream": {"connect_timeout": "1s"}})
        proxy.expect(LOST_CONTROL, TURNED_AWAY)
        for number in (1, 2, 3):
            kill(number)
        # A killed process is gone some milliseconds before its sockets are.
        self.assertTrue(eventually(lambda: not any(map(listens, CONTACTS))))
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 503, 20))
        with wire.Client(proxy.host, proxy.port) as client:
            began = time.monotonic()
            opcode, body = client.start()
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(opcode, wire.ERROR)
        self.assertIn("no upstream node answers", wire.error_of(body)[1])
        bring_back(1)
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 200, 60), proxy.admin("/readyz"))
        session = self.driver(proxy.host, proxy.port)
        self.assertEqual(len(session.execute(f"SELECT * FROM {KEYSPACE}.facts").all()), ROWS)


class Outage(OperationsTest):
    def test_writes_and_reads_go_on_without_a_quorum(self) -> None:
        """One scenario of `make outage`, in small."""
        [scenario] = [scenario for scenario in scenarios.ALL if scenario.name == "quorum"]
        seed = random.randrange(1 << 32)
        tally = Play(scenario, CONTACTS, seed, scale=0.15, cluster_name=NAME).perform()
        self.assertTrue(tally.is_good, f"seed {seed}: {tally.summary()}\n" + "\n".join(tally.examples()))


class HangingNode(OperationsTest):
    """A node that is stopped, not dead, keeps a request under way for as long as a test wants."""

    def asked(self, settings: dict | None = None) -> tuple[Proxy, wire.Client]:
        proxy = self.proxy(CONTACTS, {"topology": {"mode": "mirror"}, **(settings or {})})
        self.assertTrue(eventually(lambda: accepts(proxy, 2)))
        client = wire.Client(f"{SUBNET}.2", proxy.port)
        self.addCleanup(client.close)
        client.start()
        before = proxy.metric("narrows_proxy_requests_total")
        os.kill(node_pid(2), signal.SIGSTOP)
        self.addCleanup(os.kill, node_pid(2), signal.SIGCONT)
        client.send(wire.QUERY, wire.query_body(f"SELECT v FROM {KEYSPACE}.facts WHERE k = 1"))
        self.assertTrue(eventually(lambda: proxy.metric("narrows_proxy_requests_total") > before))
        return proxy, client

    def test_draining_is_not_ready_and_waits(self) -> None:
        proxy, client = self.asked()
        proxy.send(signal.SIGTERM)
        self.assertTrue(eventually(lambda: proxy.admin("/readyz")[0] == 503, 4), f"while draining: {proxy.admin('/readyz')}")
        self.assertFalse(accepts(proxy, 3), "a draining proxy takes no new clients")
        self.assertIsNone(proxy.process.poll(), "it waits for the answer")
        os.kill(node_pid(2), signal.SIGCONT)
        self.assertEqual(client.receive()[1], wire.RESULT)
        self.assertEqual(proxy.stop(), 0)

    def test_draining_ends_at_its_limit(self) -> None:
        proxy, client = self.asked({"limits": {"drain_timeout": "2s"}})
        proxy.expect("limits.drain_timeout is over")
        began = time.monotonic()
        self.assertEqual(proxy.stop(), 0)
        self.assertGreater(time.monotonic() - began, 1.5)
        self.assertLess(time.monotonic() - began, 10)
        with self.assertRaises(ConnectionError):
            client.receive()
        self.assertTrue(proxy.log("limits.drain_timeout is over"))


class BrokenHandshake(OperationsTest):
    def test_node_that_closes_during_the_handshake_gives_an_error_frame(self) -> None:
        """A dying node does this for some milliseconds, too short to meet them; so it is a fake one."""
        def hang_up(opcode: int, body: bytes) -> tuple[int, bytes]:
            raise ConnectionError
        fake = wire.FakeNode(hang_up)
        self.addCleanup(fake.close)
        proxy = self.proxy([fake.address], ready=False)
        proxy.expect(LOST_CONTROL, TURNED_AWAY)
        self.assertTrue(eventually(lambda: proxy.log(LOST_CONTROL)))
        with wire.Client(proxy.host, proxy.port) as client:
            self.assertEqual(client.start()[0], wire.ERROR)


if __name__ == "__main__":
    unittest.main()
