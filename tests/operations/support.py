"""What the tests of whole processes share: clusters by name, a proxy process with a log that is read, a driver session."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
import uuid
from pathlib import Path

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

ROOT = Path(__file__).resolve().parents[2]
# Another one can be named, as for the tests in tests/integration.
BINARY = Path(os.environ.get("NARROWS_BINARY") or ROOT / "target" / "debug" / "narrows")
SCRATCH = ROOT / "target" / "tmp" / "operations"
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20

# What a proxy says when Cassandra was slow, and goes on from by itself; and that this was the cause. As in the tests of
# tests/integration, which have no driver.
BUSY = ("cannot be followed; writes and reads go on", "could not be written down, trying again",
        "could not be compared with the control keyspace", "the work on a split stopped, and will be retried",
        "a split was not compared again, and will be retried later", "the control keyspace cannot be used yet",
        "the split pipeline cannot use the control keyspace yet", "timeouts cannot be read yet")
SLOW = ("does not answer", "it is not known whether a change", "in time", "answered 0x1")

# The splitter is shared with the driver programs.
sys.path.insert(0, str(ROOT / "tests" / "splitter"))

# Tests break connections on purpose; the driver's remarks on that would bury the results.
logging.getLogger("cassandra").setLevel(logging.CRITICAL)


def cluster(name: str, *options: str) -> dict:
    """Starts a cluster unless it runs already; says where it is."""
    return json.loads(cluster_command("up", "--name", name, *options).splitlines()[-1])


def cluster_command(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "tests" / "cluster" / "cluster.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed: {done.stderr}")
    return done.stdout


def free_port() -> int:
    """Below the range that outgoing connections take theirs from, so that nobody takes it in the meantime."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def free_ports(count: int) -> list[int]:
    """Different ones."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def eventually(condition, seconds: float = 60.0, pause: float = 0.05):
    """The first true value of the condition, or its last false one."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return value


def write_toml(path: Path, settings: dict) -> None:
    """JSON's strings, numbers, booleans and lists are TOML's too. A list of sections is written as [[section]]."""
    lines = []
    for section, values in settings.items():
        several = isinstance(values, list)
        for entry in values if several else [values]:
            lines.append(f"[[{section}]]" if several else f"[{section}]")
            lines.extend(f"{key} = {json.dumps(value)}" for key, value in entry.items())
    path.write_text("\n".join(lines) + "\n")


def variables(settings: dict) -> dict[str, str]:
    """The same settings for a proxy that is given no file."""
    def text(value) -> str:
        return ",".join(value) if isinstance(value, list) else str(value)
    return {f"NARROWS__{section}__{key}".upper(): text(value)
            for section, values in settings.items() for key, value in values.items()}


class Proxy:
    """One `narrows run`, stopped by its pid. Its log is a file of JSON lines."""

    def __init__(self, directory: Path, settings: dict, environment: dict | None = None, binary: Path = BINARY,
                 prefix: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.host, self.port, self.admin_port = "127.0.0.1", *free_ports(2)
        self.settings = {
            "client": {"listen": f"{self.host}:{self.port}"},
            "admin": {"listen": f"127.0.0.1:{self.admin_port}"},
            "log": {"format": "json"},
        }
        for section, values in settings.items():
            several = isinstance(values, list)
            self.settings[section] = values if several else {**self.settings.get(section, {}), **values}
        self.config = directory / "narrows.toml"
        self.log_file = directory / "narrows.log"
        self.environment = {**os.environ, **(environment or {})}
        self.command = [*prefix, str(binary), "run", "--config", str(self.config)]
        self.process: subprocess.Popen | None = None
        self.expected: list[str] = []
        write_toml(self.config, self.settings)

    def start(self) -> Proxy:
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def wait_ready(self) -> Proxy:
        ready = eventually(lambda: self.process.poll() is not None or self.admin("/readyz")[0] == 200, READY_SECONDS_MAX)
        if not ready or self.process.poll() is not None:
            raise AssertionError(f"narrows is not ready: {self.admin('/readyz')}; its log:\n{self.log_file.read_text()}")
        return self

    def admin(self, path: str, timeout: float = 15.0) -> tuple[int, str]:
        """Status and body; status 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all labels that are not given."""
        lines = [line for line in self.admin("/metrics")[1].splitlines() if line.startswith((name + " ", name + "{"))]
        lines = [line for line in lines if all(f'{label}="{value}"' in line for label, value in labels.items())]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def log(self, containing: str = "") -> list[dict]:
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if containing in line]

    def reconfigure(self, changes: dict) -> None:
        """Writes the file anew and sends SIGHUP."""
        for section, values in changes.items():
            self.settings.setdefault(section, {}).update(values)
        write_toml(self.config, self.settings)
        self.send(signal.SIGHUP)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.send(number)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"narrows did not stop within {STOP_SECONDS_MAX} s") from None

    def expect(self, *messages: str) -> None:
        """Log lines of level WARN or ERROR that this test is about."""
        self.expected.extend(messages)

    def unexpected(self) -> list[str]:
        loud = [json.dumps(entry) for entry in self.log() if entry["level"] in ("WARN", "ERROR")]
        has_one = lambda line, texts: any(text in line for text in texts)
        is_busy = lambda line: has_one(line, BUSY) and has_one(line, SLOW)
        return [line for line in loud if not is_busy(line) and not has_one(line, self.expected)]


class OperationsTest(unittest.TestCase):
    """Gives each test a directory of its own and ends what it started."""

    @property
    def directory(self) -> Path:
        return SCRATCH / self.id().rsplit(".", 2)[-2] / self._testMethodName

    def setUp(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def proxy(self, contact_points: list[str], settings: dict | None = None, ready: bool = True, name: str = "", **options) -> Proxy:
        """A running proxy; a test with several gives them names."""
        settings = {**(settings or {})}
        settings["upstream"] = {"contact_points": contact_points, **settings.get("upstream", {})}
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        proxy = Proxy(directory, settings, **options).start()
        self.addCleanup(self.end, proxy)
        return proxy.wait_ready() if ready else proxy

    def end(self, proxy: Proxy) -> None:
        code = proxy.stop()
        self.assertEqual(code, 0, f"exit code; log in {proxy.log_file}")
        self.assertEqual(proxy.unexpected(), [], f"WARN or ERROR in {proxy.log_file}")

    def driver(self, host: str, port: int, wait: float = 30.0, profile: dict | None = None, **options):
        """A connected session of the Python driver."""
        profile = ExecutionProfile(**{"request_timeout": wait, "load_balancing_policy": RoundRobinPolicy(), **(profile or {})})
        settings = {"connect_timeout": 15, "control_connection_timeout": 15, "schema_event_refresh_window": 0,
                    "execution_profiles": {EXEC_PROFILE_DEFAULT: profile}, **options}
        driver = Cluster([host], port=port, **settings)
        self.addCleanup(driver.shutdown)
        return driver.connect()

    def keyspace(self, session, replication: int = 1) -> str:
        """A keyspace of this test's own, dropped at its end; so the session must outlive the proxy."""
        name = f"operations_{uuid.uuid4().hex[:12]}"
        session.execute(f"CREATE KEYSPACE {name} WITH replication = "
                        f"{{'class': 'NetworkTopologyStrategy', 'dc1': {replication}}}")
        self.addCleanup(session.execute, f"DROP KEYSPACE {name}", timeout=60)
        return name


def host_and_port(contact_point: str) -> tuple[str, int]:
    host, port = contact_point.rsplit(":", 1)
    return host, int(port)
