"""`narrows schema`: the control keyspace printed for a DBA, made where it is missing, and compared with what is needed."""

from __future__ import annotations

import subprocess
import sys
import unittest
import uuid
from pathlib import Path

from cassandra.auth import PlainTextAuthProvider

from support import BINARY, OperationsTest, cluster, free_port, host_and_port, write_toml

CONFIGURATION, UPSTREAM_UNAVAILABLE, CONTROL_KEYSPACE = 64, 69, 78
CQLSH = Path(sys.executable).parent / "cqlsh"
TABLES = ["fleet", "split_table", "watched_table", "wide_row", "wide_row_layout"]
TYPES = ["post_split_data", "pre_split_data", "progress"]
# The keyspace itself, its tables and its types.
OBJECTS = 1 + len(TABLES) + len(TYPES)
SUPERUSER = "cassandra"


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("people")["contact_points"]


class SchemaTest(OperationsTest):
    """A control keyspace of the test's own, dropped at its end."""

    contacts: list[str] | None = None

    def setUp(self) -> None:
        super().setUp()
        self.contacts = self.contacts or CONTACTS
        self.session = self.connect()
        self.control = f"operations_{uuid.uuid4().hex[:12]}"
        self.addCleanup(self.session.execute, f"DROP KEYSPACE IF EXISTS {self.control}", timeout=60)

    def connect(self):
        return self.driver(*host_and_port(self.contacts[0]))

    def config(self, control: dict | None = None, tables: list[dict] | None = None, **upstream) -> Path:
        settings = {"upstream": {"contact_points": self.contacts, **upstream},
                    "control": {"keyspace": self.control, **(control or {})},
                    "table": tables or []}
        path = self.directory / f"{uuid.uuid4().hex[:8]}.toml"
        write_toml(path, settings)
        return path

    def narrows(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120, check=False)

    def apply(self, config: Path) -> subprocess.CompletedProcess:
        return self.narrows("schema", "apply", "--config", str(config))

    def applied(self, config: Path) -> tuple[list[str], list[str]]:
        """What was made and what existed."""
        done = self.apply(config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        words = [line.split() for line in done.stdout.splitlines()]
        return tuple([" ".join(rest) for first, *rest in words if first == word] for word in ("created", "existed"))

    def names(self, kind: str) -> list[str]:
        rows = self.session.execute(f"SELECT {kind}_name FROM system_schema.{kind}s WHERE keyspace_name = %s", [self.control])
        return sorted(row[0] for row in rows)

    def replication(self, keyspace: str) -> dict:
        rows = self.session.execute("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", [keyspace])
        return dict(rows.one().replication)


class Printed(SchemaTest):
    def printed(self, *control: dict) -> Path:
        """As for a DBA: without any cluster."""
        config = self.config(*control, contact_points=[f"127.0.0.1:{free_port()}"])
        done = self.narrows("schema", "print", "--config", str(config))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = self.directory / "control.cql"
        path.write_text(done.stdout)
        return path

    def cqlsh(self, path: Path) -> None:
        done = subprocess.run([CQLSH, "-f", str(path), *map(str, host_and_port(self.contacts[0]))], capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_cqlsh_runs_it_as_often_as_one_likes(self) -> None:
        path = self.printed({"replication": "{'class': 'NetworkTopologyStrategy', 'dc1': 1}"})
        self.cqlsh(path)
        self.cqlsh(path)
        self.assertEqual((self.names("table"), self.names("type")), (TABLES, TYPES))
        self.assertEqual(self.replication(self.control)["dc1"], "1")
        made, existed = self.applied(self.config())
        self.assertEqual((made, len(existed)), ([], OBJECTS))

    def test_defaults_are_complete_and_explained(self) -> None:
        text = self.printed().read_text()
        self.assertIn("'replication_factor': 3", text)
        for table in TABLES:
            self.assertIn(f'CREATE TABLE IF NOT EXISTS "{self.control}".{table} (', text)
        self.assertGreater(sum(line.startswith("--") for line in text.splitlines()), 20)


class Applied(SchemaTest):
    def test_twice_makes_it_once(self) -> None:
        config = self.config()
        made, existed = self.applied(config)
        self.assertEqual((len(made), existed), (OBJECTS, []))
        self.assertEqual((self.names("table"), self.names("type")), (TABLES, TYPES))
        ids = self.table_ids()
        self.assertEqual(self.applied(config), ([], made))
        self.assertEqual(self.table_ids(), ids)

    def test_only_what_is_missing_is_made(self) -> None:
        config = self.config()
        self.applied(config)
        self.session.execute(f"DROP TABLE {self.control}.wide_row_layout", timeout=60)
        made, existed = self.applied(config)
        self.assertEqual((made, len(existed)), ([f"table {self.control}.wide_row_layout"], OBJECTS - 1))

    def test_a_fleet_that_starts_together_makes_one_schema(self) -> None:
        command = [BINARY, "schema", "apply", "--config", str(self.config())]
        fleet = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        ended = [(one.communicate(timeout=120)[1], one.returncode) for one in fleet]
        self.assertEqual(ended, [("", 0)] * len(fleet))
        self.assertEqual((self.names("table"), self.names("type")), (TABLES, TYPES))

    def test_replication_is_that_of_the_first_watched_table(self) -> None:
        watched = f"operations_{uuid.uuid4().hex[:12]}"
        self.session.execute(f"CREATE KEYSPACE {watched} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        self.addCleanup(self.session.execute, f"DROP KEYSPACE {watched}", timeout=60)
        self.applied(self.config(tables=[{"name": f"{watched}.reading"}]))
        self.assertEqual(self.replication(self.control), self.replication(watched))

    def test_replication_without_a_watched_table_fits_the_nodes(self) -> None:
        self.applied(self.config())
        found = self.replication(self.control)
        self.assertTrue(found.pop("class").endswith("NetworkTopologyStrategy"))
        self.assertEqual(found, {"dc1": "1"})

    def test_capitals_in_the_name_are_kept(self) -> None:
        self.control = "Operations_" + uuid.uuid4().hex[:8]
        self.addCleanup(self.session.execute, f'DROP KEYSPACE IF EXISTS "{self.control}"', timeout=60)
        made, _ = self.applied(self.config())
        self.assertEqual(made[0], f"keyspace {self.control}")
        self.assertEqual(self.names("table"), TABLES)

    def table_ids(self) -> list:
        rows = self.session.execute("SELECT id FROM system_schema.tables WHERE keyspace_name = %s", [self.control])
        return sorted(row.id for row in rows)


class Refused(SchemaTest):
    def refused(self, config: Path, code: int) -> str:
        done = self.apply(config)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def test_wrong_columns_are_all_named_with_their_file(self) -> None:
        config = self.config()
        self.applied(config)
        for change in ("watched_table DROP mode", "watched_table ADD mood text", "wide_row WITH read_repair = 'BLOCKING'"):
            self.session.execute(f"ALTER TABLE {self.control}.{change}", timeout=60)
        self.session.execute(f"DROP TABLE {self.control}.wide_row_layout", timeout=60)
        self.session.execute(f"CREATE TABLE {self.control}.wide_row_layout (keyspace_name text PRIMARY KEY, bucket text)", timeout=60)
        text = self.refused(config, CONTROL_KEYSPACE)
        self.assertIn(f"keyspace {self.control} does not have the schema that Narrows needs", text)
        for line in ("watched_table lacks the column mode text (see cql/002_watched_table.cql)",
                     "wide_row has read_repair = 'BLOCKING', expected 'NONE' (see cql/003_wide_row.cql)",
                     "wide_row_layout has the column bucket text, expected bucket int (clustering 0) (see cql/004_wide_row_layout.cql)",
                     "wide_row_layout lacks the column generation int (partition_key 3) (see cql/004_wide_row_layout.cql)"):
            self.assertIn(line, text)
        self.assertNotIn("mood", text)

    def test_replication_that_cassandra_refuses_is_told_in_its_words(self) -> None:
        config = self.config({"replication": "{'class': 'NetworkTopologyStrategy', 'nowhere': 1}"})
        text = self.refused(config, CONTROL_KEYSPACE)
        self.assertIn("cql/001_keyspace.cql", text)
        self.assertIn("nowhere", text)

    def test_unreachable_upstream_is_named(self) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        self.assertIn(nobody, self.refused(self.config(contact_points=[nobody]), UPSTREAM_UNAVAILABLE))

    def test_unknown_data_center_is_named(self) -> None:
        text = self.refused(self.config(data_center="nowhere"), CONFIGURATION)
        self.assertIn("nowhere", text)
        self.assertIn("dc1", text)

    def test_mistakes_come_before_any_connection(self) -> None:
        text = self.refused(self.config(tables=[{"name": "reading"}, {"name": "a.b", "shard": 1}]), CONFIGURATION)
        self.assertIn("table[1].name", text)
        self.assertIn("table[2].shard: unknown setting; did you mean shards?", text)


class Rights(SchemaTest):
    @classmethod
    def setUpClass(cls) -> None:
        found = cluster("auth")
        cls.contacts, cls.tls = found["contact_points"], found["tls"]

    def connect(self):
        provider = PlainTextAuthProvider(SUPERUSER, SUPERUSER)
        return self.driver(*host_and_port(self.contacts[0]), auth_provider=provider)

    def role(self) -> tuple[str, str]:
        """A role that may log in and nothing else."""
        name, password = f"role_{uuid.uuid4().hex[:12]}", f"Pw{uuid.uuid4().hex}"
        self.session.execute(f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = '{password}'")
        self.addCleanup(self.session.execute, f"DROP ROLE {name}")
        return name, password

    def test_role_without_rights_is_told_what_to_do(self) -> None:
        user, password = self.role()
        done = self.apply(self.config(username=user, password=password))
        self.assertEqual((done.returncode, done.stdout), (CONTROL_KEYSPACE, ""), done.stderr)
        for part in (f"may not create keyspace {self.control}", user, "narrows schema print", "GRANT CREATE ON ALL KEYSPACES"):
            self.assertIn(part, done.stderr)
        self.assertNotIn(password, done.stderr)

    def test_role_without_rights_is_enough_once_all_is_there(self) -> None:
        self.applied(self.config(username=SUPERUSER, password=SUPERUSER))
        user, password = self.role()
        made, existed = self.applied(self.config(username=user, password=password))
        self.assertEqual((made, len(existed)), ([], OBJECTS))

    def test_no_table_is_made_without_the_right(self) -> None:
        self.applied(self.config(username=SUPERUSER, password=SUPERUSER))
        self.session.execute(f"DROP TABLE {self.control}.wide_row", timeout=60)
        user, password = self.role()
        done = self.apply(self.config(username=user, password=password))
        self.assertEqual(done.returncode, CONTROL_KEYSPACE, done.stderr)
        self.assertIn(f"may not create table {self.control}.wide_row", done.stderr)
        self.assertIn(f'GRANT CREATE ON KEYSPACE "{self.control}"', done.stderr)

    def test_missing_login_is_named(self) -> None:
        done = self.apply(self.config())
        self.assertEqual(done.returncode, UPSTREAM_UNAVAILABLE, done.stdout)
        self.assertIn("upstream.username", done.stderr)

    def test_tls_is_used_where_configured(self) -> None:
        login = {"username": SUPERUSER, "password": SUPERUSER, "tls": True}
        made, _ = self.applied(self.config(**login, tls_ca=self.tls["ca"]))
        self.assertEqual(len(made), OBJECTS)
        foreign = self.apply(self.config(**login, tls_ca=self.tls["proxy_certificate"]))
        self.assertEqual(foreign.returncode, UPSTREAM_UNAVAILABLE, foreign.stdout)
        self.assertIn("upstream.tls_ca", foreign.stderr)

    def test_wrong_password_is_told_and_not_shown(self) -> None:
        secret = f"Pw{uuid.uuid4().hex}"
        done = self.apply(self.config(username=SUPERUSER, password=secret))
        self.assertEqual(done.returncode, UPSTREAM_UNAVAILABLE, done.stdout)
        self.assertIn("password", done.stderr)
        self.assertNotIn(secret, done.stderr)


if __name__ == "__main__":
    unittest.main()
