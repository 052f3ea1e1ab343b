"""An idle proxy's polls of the control keyspace cost the same for one watched table and for many.

`make polling` runs this with 50 tables, at the default pace and for longer."""

from __future__ import annotations

import os
import time
import unittest

from control import ControlTest
from support import eventually

TABLES = [int(count) for count in os.environ.get("POLLING_TABLES", "1 10").split()]
SECONDS = float(os.environ.get("POLLING_SECONDS", "10"))
POLL = os.environ.get("POLLING_INTERVAL", "200ms")
# How far the reads of one number of tables may be from those of another, as a share.
TOLERANCE = float(os.environ.get("POLLING_TOLERANCE", "0.25"))


class Polling(ControlTest):
    shards = 2

    def reads(self) -> dict[str, int]:
        """What the replicas have read of each table of the control keyspace so far."""
        text = "SELECT table_name, count FROM system_views.local_read_latency WHERE keyspace_name = %s ALLOW FILTERING"
        found: dict[str, int] = {}
        for host in self.direct.cluster.metadata.all_hosts():
            for row in self.direct.execute(text, (self.control,), host=host):
                found[row.table_name] = found.get(row.table_name, 0) + row.count
        return found

    def reads_of_an_idle_proxy(self, tables: list[str]) -> float:
        """For each read of the list of watched tables, so that a slow machine changes nothing."""
        settings = self.settings({"poll_interval": POLL, "max_staleness": "10m"}, tables)
        proxy = self.follower(settings, name=f"of-{len(tables)}")
        # Until everything that a start brings with it is over.
        before = self.reads()
        self.assertTrue(eventually(lambda: self.reads().get("watched_table", 0) > before.get("watched_table", 0) + 20))
        began, before = time.monotonic(), self.reads()
        time.sleep(SECONDS)
        now, took = self.reads(), time.monotonic() - began
        self.assertEqual(proxy.stop(), 0)
        read = {name: count - before.get(name, 0) for name, count in now.items()}
        total = sum(read.values())
        self.assertGreater(read["wide_row"], 0)
        print(f"{len(tables):3} watched tables: {total / took:5.1f} reads a second of the control keyspace, "
              f"{total / read['watched_table']:.2f} for each poll", flush=True)
        return total / read["watched_table"]

    def test_many_tables_cost_no_more_polls_than_one(self) -> None:
        names = [self.table] + [self.make_table(f"reading_{number}") for number in range(1, max(TABLES))]
        reads = [self.reads_of_an_idle_proxy(names[:count]) for count in TABLES]
        self.assertLessEqual(max(reads), min(reads) * (1 + TOLERANCE), reads)


if __name__ == "__main__":
    unittest.main(verbosity=2)
