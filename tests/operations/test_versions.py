"""Cassandra 4.1 through the proxy: every protocol version and compression, equal to what a direct connection gives."""

from __future__ import annotations

import unittest

from cassandra.query import BatchStatement, SimpleStatement, dict_factory

from support import OperationsTest, cluster, host_and_port

# Protocol v5 compresses whole segments, for which only lz4 is defined.
COMBINATIONS = [(version, compression) for version in (3, 4) for compression in (False, "lz4", "snappy")]
COMBINATIONS += [(5, False), (5, "lz4")]
ROWS = 60
# What `single` must say otherwise than the node: who and where it is.
IDENTITY = {"host_id", "tokens", "rpc_address", "rpc_port", "broadcast_address", "broadcast_port", "listen_address", "listen_port"}
# `mirror` differs in ports alone here, as 127.0.3.1 is mirrored at 127.0.3.1.
PORTS = {"rpc_port", "broadcast_port", "listen_port"}


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("old")["contact_points"]


class OldCassandra(OperationsTest):
    def setUp(self) -> None:
        super().setUp()
        self.direct = self.driver(*host_and_port(CONTACTS[0]))

    def connect(self, host: str, port: int, version: int = 5, compression: object = False):
        options = {"protocol_version": version, "compression": compression}
        session = self.driver(host, port, profile={"row_factory": dict_factory}, **options)
        self.assertEqual(session.cluster.protocol_version, version)
        used = session.cluster.control_connection._connection._compression_type
        self.assertEqual(used, compression or None)
        return session

    def scenario(self, session) -> list:
        """A little of everything; the results must not depend on the way."""
        keyspace = self.keyspace(session)
        session.set_keyspace(keyspace)
        created = session.execute_async("CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))")
        created.result()
        insert = session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?)")
        batch = BatchStatement()
        for number in range(ROWS):
            batch.add(insert, [1, number, "x" * 100 * number])
        session.execute(batch)
        pages = SimpleStatement("SELECT c, v FROM t WHERE p = 1", fetch_size=7)
        traced = session.execute("SELECT count(*) FROM t", trace=True)
        # The keyspace is each session's own, so its name is the one difference that an error text may show.
        refusal = self.refusal(session, "SELECT nothing FROM t").replace(keyspace, "…")
        tables = sorted(session.cluster.metadata.keyspaces[keyspace].tables)
        return [created.is_schema_agreed, list(session.execute(pages)), traced.all(), traced.get_query_trace() is not None,
                refusal, tables]

    def refusal(self, session, statement: str) -> str:
        with self.assertRaises(Exception) as caught:
            session.execute(statement)
        return str(caught.exception)

    def test_every_version_and_compression_is_equal_to_direct(self) -> None:
        # The sessions must drop their keyspaces before the proxy stops, so it is started first.
        proxy = self.proxy(CONTACTS)
        for version, compression in COMBINATIONS:
            with self.subTest(version=version, compression=compression):
                direct = self.scenario(self.connect(*host_and_port(CONTACTS[0]), version, compression))
                through = self.scenario(self.connect(proxy.host, proxy.port, version, compression))
                self.assertEqual(through, direct)
                self.assertEqual((through[0], len(through[1])), (True, ROWS))

    def test_version_is_negotiated_as_with_a_direct_connection(self) -> None:
        proxy = self.proxy(CONTACTS)
        session = self.driver(proxy.host, proxy.port)
        self.assertEqual(session.cluster.protocol_version, self.direct.cluster.protocol_version)

    def local(self, host: str, port: int) -> dict:
        return self.connect(host, port).execute("SELECT * FROM system.local").one()

    def test_single_hides_only_who_and_where(self) -> None:
        proxy = self.proxy(CONTACTS)
        self.assert_equal_but(self.local(proxy.host, proxy.port), IDENTITY)

    def test_mirror_hides_only_ports(self) -> None:
        proxy = self.proxy(CONTACTS, {"topology": {"mode": "mirror"}})
        host, _ = host_and_port(CONTACTS[0])
        self.assert_equal_but(self.local(host, proxy.port), PORTS)

    def assert_equal_but(self, shown: dict, hidden: set[str]) -> None:
        real = self.local(*host_and_port(CONTACTS[0]))
        self.assertEqual(list(shown), list(real), "columns")
        differing = {name for name in real if shown[name] != real[name]}
        self.assertLessEqual(differing, hidden)
        for name in hidden & set(real):
            self.assertIsNotNone(shown[name], name)

    def test_peers_of_a_single_node_are_none(self) -> None:
        proxy = self.proxy(CONTACTS)
        session = self.connect(proxy.host, proxy.port)
        for table in ("peers", "peers_v2"):
            self.assertEqual(session.execute(f"SELECT * FROM system.{table}").all(), [])

    def test_schema_agreement_is_reached(self) -> None:
        proxy = self.proxy(CONTACTS)
        session = self.connect(proxy.host, proxy.port)
        keyspace = self.keyspace(session)
        for number in range(3):
            session.execute(f"CREATE TABLE {keyspace}.t{number} (k int PRIMARY KEY)")
            self.assertEqual(session.execute(f"SELECT * FROM {keyspace}.t{number}").all(), [])
        self.assertTrue(session.cluster.control_connection.wait_for_schema_agreement(wait_time=5))


if __name__ == "__main__":
    unittest.main()
