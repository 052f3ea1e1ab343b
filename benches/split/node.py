"""The Cassandra node that everything here runs on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

from progress import Progress

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_NAME = "bench"
# So many looks in a row without any compaction, one a second, and it is calm.
CALM_LOOKS, CALM_SECONDS_MAX = 5, 900


class Node:
    def __init__(self, host: str) -> None:
        profile = ExecutionProfile(request_timeout=60, load_balancing_policy=RoundRobinPolicy())
        self.cluster = Cluster([host], protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = self.cluster.connect()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_) -> None:
        self.cluster.shutdown()

    def release(self) -> str:
        return self.session.execute("SELECT release_version FROM system.local").one().release_version

    def calm_down(self) -> None:
        """Partitions that are split were written long ago, so what was just loaded is flushed and compacted first."""
        progress = Progress("flushing and compacting")
        command = [sys.executable, str(ROOT / "tests" / "cluster" / "cluster.py"), "nodetool", "--name", CLUSTER_NAME, "--node", "1", "flush"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        calm, end = 0, time.monotonic() + CALM_SECONDS_MAX
        while calm < CALM_LOOKS and time.monotonic() < end:
            tasks = self.session.execute("SELECT * FROM system_views.sstable_tasks").all()
            calm = 0 if tasks else calm + 1
            progress.show(f"{len(tasks)} under way")
            time.sleep(1)
        progress.done("done" if calm else "still under way, going on all the same")
