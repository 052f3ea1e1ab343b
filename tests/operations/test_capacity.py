"""A thousand idle clients: what they cost in memory, and that the memory is used again for the next thousand."""

from __future__ import annotations

import resource
import unittest
from pathlib import Path

import wire
from support import BINARY, ROOT, OperationsTest, cluster, eventually

CLIENTS = 1000
MEGABYTE = 1 << 20
MEMORY_BYTES_MAX = 60 * MEGABYTE
# What an allocator may keep aside; a leak of a kilobyte a client would already exceed it in the rounds below.
SLACK_BYTES = 3 * MEGABYTE
ROUNDS = 4
# Enough for the default of limits.connections, two files each.
FILES = 16384
# The soft limit that most systems give a process.
USUAL_SOFT_LIMIT = 1024
RELEASE = ROOT / "target" / "release" / "narrows"


def setUpModule() -> None:
    global CONTACTS
    CONTACTS = cluster("main")["contact_points"]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    unittest.addModuleCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)


def is_current(binary: Path) -> bool:
    """A binary from before the last change would show what is no longer true."""
    newest = max(path.stat().st_mtime for path in (ROOT / "src").rglob("*.rs"))
    return binary.exists() and binary.stat().st_mtime > newest


class IdleClients(OperationsTest):
    def start(self, **options):
        return self.proxy(CONTACTS, binary=RELEASE if is_current(RELEASE) else BINARY, **options)

    def resident_bytes(self, proxy) -> int:
        with open(f"/proc/{proxy.process.pid}/status", encoding="ascii") as status:
            [line] = [line for line in status if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def crowd(self, proxy) -> list[wire.Client]:
        clients = []
        # Closed by the test; this is for the case that it fails half-way.
        self.addCleanup(lambda: [client.close() for client in clients])
        for _ in range(CLIENTS):
            client = wire.Client(proxy.host, proxy.port)
            clients.append(client)
            self.assertEqual(client.start()[0], wire.READY)
        return clients

    def test_memory_of_a_thousand_and_of_the_next_thousands(self) -> None:
        proxy = self.start()
        used = []
        for _ in range(ROUNDS):
            clients = self.crowd(proxy)
            self.assertEqual(proxy.metric("narrows_proxy_connections"), CLIENTS)
            used.append(self.resident_bytes(proxy))
            for client in clients:
                client.close()
            self.assertTrue(eventually(lambda: proxy.metric("narrows_proxy_connections") == 0))
        megabytes = [round(size / MEGABYTE, 1) for size in used]
        print(f"resident with {CLIENTS} idle clients, MB: {megabytes}", flush=True)
        self.assertLess(max(used), MEMORY_BYTES_MAX)
        self.assertLess(used[-1], used[1] + SLACK_BYTES, f"it grows: {megabytes}")

    def test_usual_limit_on_open_files_is_no_obstacle(self) -> None:
        """Two files for each client exceed the soft limit; the hard one allows them, so the proxy must ask for it."""
        proxy = self.start(prefix=("prlimit", f"--nofile={USUAL_SOFT_LIMIT}:"))
        clients = self.crowd(proxy)
        self.assertEqual(len(clients), CLIENTS)


if __name__ == "__main__":
    unittest.main()
