"""`narrows check`: every mistake at once, nothing bound, upstream looked at, unsupported versions refused, missing tables and
few replicas told."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import unittest

import wire
from support import BINARY, OperationsTest, Proxy, cluster, free_port, host_and_port, variables, write_toml

CONFIGURATION, UPSTREAM_UNAVAILABLE = 64, 69
VARCHAR, UUID, INET = 0x000D, 0x000C, 0x0010


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("main")["contact_points"]


class CheckTest(OperationsTest):
    def narrows(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run([BINARY, *arguments], env={**os.environ, **environment}, capture_output=True, text=True,
                              timeout=30, check=False)

    def check(self, settings: dict) -> subprocess.CompletedProcess:
        config = self.directory / "narrows.toml"
        write_toml(config, settings)
        return self.narrows("check", "--config", str(config))


class Mistakes(CheckTest):
    def test_all_are_printed_at_once(self) -> None:
        missing = str(self.directory / "missing.pem")
        done = self.check({
            "client": {"listen": "nowhere", "tls_certificate": missing},
            "upstream": {"contact_points": [], "conect_timeout": "5s"},
            "topology": {"mode": "mirrored"},
            "limits": {"connections": 0, "idle_timeout": "soon"},
        })
        self.assertEqual(done.returncode, CONFIGURATION)
        wrong = ("client.listen", "client.tls_certificate", "client.tls_key", "upstream.contact_points",
                 "upstream.conect_timeout", "topology.mode", "limits.connections", "limits.idle_timeout")
        lines = done.stderr.splitlines()
        for setting in wrong:
            self.assertTrue(any(setting in line for line in lines), f"{setting} is not in:\n{done.stderr}")
        [unknown] = [line for line in lines if "conect_timeout" in line]
        self.assertIn("connect_timeout", unknown.replace("conect_timeout", ""), "an unknown key gets a suggestion")

    def test_run_refuses_the_same_and_binds_nothing(self) -> None:
        config, port = self.directory / "narrows.toml", free_port()
        write_toml(config, {"client": {"listen": f"127.0.0.1:{port}"}, "log": {"level": "loud", "colour": True}})
        check, run = self.narrows("check", "--config", str(config)), self.narrows("run", "--config", str(config))
        self.assertEqual((check.returncode, run.returncode), (CONFIGURATION, CONFIGURATION))
        self.assertEqual(check.stderr, run.stderr)

    def test_missing_file_is_named(self) -> None:
        done = self.narrows("check", "--config", str(self.directory / "absent.toml"))
        self.assertEqual(done.returncode, CONFIGURATION)
        self.assertIn("absent.toml", done.stderr)

    def test_wrong_variable_is_named(self) -> None:
        done = self.narrows("check", NARROWS__LIMITS__CONECTIONS="1")
        self.assertEqual(done.returncode, CONFIGURATION)
        self.assertIn("NARROWS__LIMITS__CONECTIONS", done.stderr)


class Upstream(CheckTest):
    def test_cluster_is_described(self) -> None:
        done = self.check({"upstream": {"contact_points": CONTACTS[:1]}, "topology": {"mode": "mirror"},
                           "client": {"listen": "127.0.0.1:9242"}})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("3 node(s)", done.stdout)
        for contact in CONTACTS:
            [line] = [line for line in done.stdout.splitlines() if line.strip().startswith(contact)]
            self.assertIn("Cassandra 5.0", line)
            self.assertIn(contact.replace(":9042", ":9242"), line, "where clients see it")

    def test_taken_ports_do_not_matter(self) -> None:
        """They would if it bound anything, as a proxy that runs already holds them."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = self.check({"client": {"listen": address}, "upstream": {"contact_points": CONTACTS}})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_unreachable_upstream_is_named(self) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        done = self.check({"upstream": {"contact_points": [nobody]}})
        self.assertEqual(done.returncode, UPSTREAM_UNAVAILABLE)
        self.assertIn(f"cannot connect to {nobody}", done.stderr)

    def test_something_else_than_cassandra_is_told(self) -> None:
        fake = wire.FakeNode(lambda opcode, body: (0x7F, b""))
        self.addCleanup(fake.close)
        done = self.check({"upstream": {"contact_points": [fake.address]}})
        self.assertEqual(done.returncode, UPSTREAM_UNAVAILABLE)
        self.assertIn(fake.address, done.stderr)

    def test_cassandra_3_is_refused_with_the_reason(self) -> None:
        """Faked is the one row that matters: 3.x runs on Java 8 only, which the tests do not install."""
        fake = wire.FakeNode(cassandra_3)
        self.addCleanup(fake.close)
        done = self.check({"upstream": {"contact_points": [fake.address]}})
        self.assertEqual(done.returncode, UPSTREAM_UNAVAILABLE, done.stdout + done.stderr)
        self.assertIn("Cassandra 3.11.17", done.stderr)
        self.assertIn("4.0 or newer", done.stderr)


class Keyspaces(CheckTest):
    def setUp(self) -> None:
        super().setUp()
        self.session = self.driver(*host_and_port(CONTACTS[0]))

    def warnings(self, control: str, tables: list[str], **more: str) -> list[str]:
        done = self.check({"upstream": {"contact_points": CONTACTS}, "control": {"keyspace": control, **more},
                           "table": [{"name": table} for table in tables]})
        self.assertEqual((done.returncode, done.stderr), (0, ""), "a warning is no error")
        return [line for line in done.stdout.splitlines() if line.startswith("warning: ")]

    def test_tables_that_do_not_exist_are_told(self) -> None:
        watched, replication = self.keyspace(self.session, replication=3), "{'class': 'NetworkTopologyStrategy', 'dc1': 3}"
        self.session.execute(f"CREATE TABLE {watched}.reading (k text PRIMARY KEY)")
        settings = {"control": "operations_absent", "replication": replication}
        self.assertEqual(self.warnings(tables=[f"{watched}.reading"], **settings), [])
        missing = self.warnings(tables=[f"{watched}.reading", f"{watched}.raeding", "operations_nowhere.t"], **settings)
        self.assertEqual(len(missing), 2, missing)
        self.assertIn(f"table {watched}.raeding does not exist in the cluster: its keyspace has no such table", missing[0])
        self.assertIn("there is no keyspace operations_nowhere", missing[1])

    def test_few_replicas_are_told_with_what_to_do(self) -> None:
        few = self.keyspace(self.session, replication=2)
        self.session.execute(f"CREATE TABLE {few}.t (k text PRIMARY KEY)")
        future, watched = self.warnings("operations_absent", [f"{few}.t"])
        self.assertIn("would be created with 2 replicas in data centre dc1", future)
        self.assertIn("set control.replication = \"{'class': 'NetworkTopologyStrategy', 'dc1': '3'}\"", future)
        enough = f'run ALTER KEYSPACE "{few}" WITH replication = {{\'class\': \'NetworkTopologyStrategy\', \'dc1\': \'3\'}}'
        self.assertIn(enough, watched)
        [existing, *_] = self.warnings(few, ["operations_nowhere.t"])[1:]
        self.assertIn(f"the control keyspace {few} has 2 replicas in data centre dc1. When one node is lost", existing)
        self.assertIn(enough, existing)


class Defaults(CheckTest):
    def test_check_without_a_file_shows_them(self) -> None:
        """Whether anything answers at the default address is not asked here."""
        done = self.narrows("check")
        self.assertIn(done.returncode, (0, UPSTREAM_UNAVAILABLE))
        for part in ("127.0.0.1:9142", "127.0.0.1:9042", "127.0.0.1:9180"):
            self.assertIn(part, done.stdout)

    def test_run_needs_no_file(self) -> None:
        proxy = Proxy(self.directory, {"upstream": {"contact_points": CONTACTS}})
        proxy.environment |= variables(proxy.settings)
        proxy.command = [str(BINARY), "run"]
        proxy.start()
        self.addCleanup(self.end, proxy)
        proxy.wait_ready()
        session = self.driver(proxy.host, proxy.port)
        self.assertTrue(session.execute("SELECT release_version FROM system.local").one().release_version.startswith("5.0"))

    def test_version(self) -> None:
        done = self.narrows("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^narrows \d+\.\d+\.\d+")


def cassandra_3(opcode: int, body: bytes) -> tuple[int, bytes]:
    if opcode == wire.STARTUP:
        return wire.READY, b""
    text = body[4:4 + struct.unpack(">i", body[:4])[0]].decode().lower()
    if "peers_v2" in text:
        return wire.ERROR, struct.pack(">i", 0x2200) + string("unconfigured table peers_v2")
    return wire.RESULT, rows([LOCAL_3_11] if "system.local" in text else [])


LOCAL_3_11 = {
    "cluster_name": (VARCHAR, b"old"), "data_center": (VARCHAR, b"dc1"), "rack": (VARCHAR, b"rack1"),
    "release_version": (VARCHAR, b"3.11.17"), "host_id": (UUID, bytes(range(16))), "key": (VARCHAR, b"local"),
    "rpc_address": (INET, b"\x7f\0\0\x01"), "broadcast_address": (INET, b"\x7f\0\0\x01"), "listen_address": (INET, b"\x7f\0\0\x01"),
    "schema_version": (UUID, bytes(range(16))),
}


def string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def rows(found: list[dict]) -> bytes:
    """A ROWS result with all columns."""
    body = struct.pack(">iii", 2, 1, len(LOCAL_3_11)) + string("system") + string("local")
    for name, (kind, _) in LOCAL_3_11.items():
        body += string(name) + struct.pack(">H", kind)
    body += struct.pack(">i", len(found))
    for row in found:
        body += b"".join(struct.pack(">i", len(value)) + value for _, value in row.values())
    return body


if __name__ == "__main__":
    unittest.main()
