"""`narrows worker` as a process that is measured, and the splits that it is given."""

from __future__ import annotations

import dataclasses
import datetime
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from partition import CONTROL, KEYSPACE, TABLE, Partition
from progress import Progress
from support import eventually, free_port, write_toml

READY_SECONDS_MAX, STOP_SECONDS_MAX = 60, 30
LOOK_EVERY_SECONDS = 0.5
OVER = ("NOT_WIDE", "REFUSED", "FAILED", "INVALIDATED")


@dataclasses.dataclass(frozen=True)
class Stages:
    """When a split was nominated and when it reached each state, in seconds since 1970."""

    nominated: float
    reached: dict[str, float]

    @property
    def plan(self) -> float:
        return self.reached["PLANNED"] - self.nominated

    @property
    def guard(self) -> float:
        """Waits until every proxy would know of the guard; nothing is read or written meanwhile."""
        return self.reached["COPYING"] - self.reached["PLANNED"]

    @property
    def copy(self) -> float:
        return self.reached["VERIFYING"] - self.reached["COPYING"]

    @property
    def verify(self) -> float:
        return self.reached["COMPLETED"] - self.reached["VERIFYING"]

    @property
    def working(self) -> float:
        return self.plan + self.copy + self.verify

    def seconds(self) -> dict[str, float]:
        whole = self.reached["COMPLETED"] - self.nominated
        return {"plan": self.plan, "guard": self.guard, "copy": self.copy, "verify": self.verify, "whole": whole}

    def named_windows(self) -> dict[str, tuple[float, float]]:
        reached = self.reached
        return {"plan": (self.nominated, reached["PLANNED"]), "copy": (reached["COPYING"], reached["VERIFYING"]),
                "verify": (reached["VERIFYING"], reached["COMPLETED"])}

    def windows(self) -> list[tuple[float, float]]:
        return list(self.named_windows().values())


class Worker:
    def __init__(self, binary: Path, directory: Path, host: str, throttle: bool) -> None:
        name = "gentle" if throttle else "fast"
        self.binary, self.admin_port = binary, free_port()
        self.config, self.log = directory / f"split-{name}.toml", directory / f"split-{name}.log"
        write_toml(self.config, {
            "upstream": {"contact_points": [f"{host}:9042"]},
            "admin": {"listen": f"127.0.0.1:{self.admin_port}"},
            "log": {"format": "json"},
            "control": {"keyspace": CONTROL},
            "pipeline": {"throttle": throttle},
            # Small partitions are wide, too, for trial runs.
            "table": [{"name": f"{KEYSPACE}.{TABLE}", "wide_bytes": "8MiB"}],
        })

    def __enter__(self) -> Worker:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([self.binary, "worker", "--config", self.config], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        try:
            if not eventually(self.is_ready, READY_SECONDS_MAX):
                raise SystemExit(f"the worker is not ready, see {self.log}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise SystemExit(f"the worker has ended, see {self.log}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def split(self, partition: Partition, session) -> Stages:
        """Nominates a partition and follows it to its end."""
        nominated = time.time()
        command = [self.binary, "splits", "add", *partition.arguments(), "--config", self.config]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        progress = Progress(f"splitting {partition.megabytes} MB")
        while True:
            row = self.row(partition, session)
            if row and row.state in OVER:
                raise SystemExit(f"the split ended as {row.state}: {row.reason}; see {self.log}")
            if row and row.state == "COMPLETED":
                break
            if self.process.poll() is not None:
                raise SystemExit(f"the worker has ended, see {self.log}")
            progress.show(told(row, partition))
            time.sleep(LOOK_EVERY_SECONDS)
        stages = Stages(nominated, self.reached(nominated))
        progress.done(", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in stages.seconds().items()))
        return stages

    def row(self, partition: Partition, session):
        rows = session.execute(f"SELECT partition_key, state, reason, progress FROM {CONTROL}.wide_row").all()
        rows = [row for row in rows if row.partition_key and partition.sensor.encode() in row.partition_key]
        return rows[0] if rows else None

    def reached(self, since: float) -> dict[str, float]:
        """The worker says in its log when a split has reached a state."""
        entries = [json.loads(line) for line in self.log.read_text().splitlines() if '"state"' in line]
        moments = [(entry["state"], datetime.datetime.fromisoformat(entry["timestamp"]).timestamp()) for entry in entries]
        return {state: moment for state, moment in moments if moment >= since}

    def peak_memory_mb(self) -> float:
        """The most that was ever resident, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = (line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6


def told(row, partition: Partition) -> str:
    if row is None:
        return "waiting"
    progress = row.progress
    if progress is None or progress.state != row.state:
        return row.state
    seconds = max((progress.changed_at - progress.began_at).total_seconds(), 0.001)
    megabytes = progress.row_count * partition.megabytes / partition.rows
    return f"{row.state} {100 * progress.row_count // partition.rows} % at {megabytes / seconds:.1f} MB/s"
