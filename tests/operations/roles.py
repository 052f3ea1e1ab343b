"""What tests of logins and rights share: roles of a test's own on the cluster `auth`, sessions that log in as them."""

from __future__ import annotations

import uuid

from cassandra.auth import PlainTextAuthProvider

from support import OperationsTest, cluster, host_and_port

SUPERUSER = "cassandra"


class AuthTest(OperationsTest):
    def setUp(self) -> None:
        super().setUp()
        self.direct = host_and_port(cluster("auth")["contact_points"][0])
        self.admin = self.log_in(*self.direct, SUPERUSER, SUPERUSER)

    def log_in(self, host: str, port: int, user: str, password: str, **options):
        return self.driver(host, port, auth_provider=PlainTextAuthProvider(user, password), **options)

    def role(self) -> tuple[str, str]:
        """A role that may log in and nothing else."""
        name, password = f"role_{uuid.uuid4().hex[:12]}", f"Pw{uuid.uuid4().hex}"
        self.admin.execute(f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = '{password}'")
        self.addCleanup(self.admin.execute, f"DROP ROLE {name}")
        return name, password

    def table(self) -> str:
        name = self.keyspace(self.admin) + ".t"
        self.admin.execute(f"CREATE TABLE {name} (k text PRIMARY KEY, v text)")
        return name

    def own_login(self) -> dict:
        """Settings with a role of the proxy's own; it has no grants."""
        return self.login_of(*self.role())

    def login_of(self, user: str, password: str) -> dict:
        file = self.directory / "password"
        file.write_text(password + "\n")
        return {"upstream": {"username": user, "password_file": str(file)}}
