"""The static binary: no libraries, no files around it, and still a proxy. `make static` builds it."""

from __future__ import annotations

import shutil
import subprocess
import unittest
from pathlib import Path

from support import ROOT, OperationsTest, Proxy, cluster, variables

STATIC = ROOT / "target" / "x86_64-unknown-linux-musl" / "release" / "narrows"


def setUpModule() -> None:
    if not STATIC.exists():
        raise FileNotFoundError(f"{STATIC} is missing: run `make static` first")


class EmptyRoot(OperationsTest):
    def setUp(self) -> None:
        super().setUp()
        self.root = self.directory / "root"
        self.root.mkdir()
        shutil.copy(STATIC, self.root / "narrows")
        self.assertEqual([path.name for path in self.root.iterdir()], ["narrows"])

    def chroot(self, *arguments: str) -> list[str]:
        """As a user namespace, so that it needs no privilege; the pid stays that of narrows itself."""
        return ["unshare", "--map-root-user", "chroot", str(self.root), "/narrows", *arguments]

    def test_needs_no_library(self) -> None:
        """A program without an interpreter is one that the kernel starts alone."""
        headers = subprocess.run(["readelf", "--program-headers", "--dynamic", STATIC], capture_output=True, text=True, check=True)
        self.assertNotIn("INTERP", headers.stdout)
        self.assertNotIn("NEEDED", headers.stdout)

    def test_says_its_version(self) -> None:
        done = subprocess.run(self.chroot("--version"), capture_output=True, text=True, timeout=10, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^narrows \d+\.\d+\.\d+")

    def test_serves(self) -> None:
        proxy = Proxy(self.directory, {"upstream": {"contact_points": cluster("main")["contact_points"]}})
        # There is no file in an empty root.
        proxy.environment |= variables(proxy.settings)
        proxy.command = self.chroot("run")
        proxy.start()
        self.addCleanup(self.end, proxy)
        proxy.wait_ready()
        self.assertEqual(Path(f"/proc/{proxy.process.pid}/root").resolve(), self.root)
        session = self.driver(proxy.host, proxy.port)
        self.assertTrue(session.execute("SELECT release_version FROM system.local").one().release_version.startswith("5.0"))


if __name__ == "__main__":
    unittest.main()
