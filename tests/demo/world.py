"""What the demo starts and ends again: Cassandra, Narrows, drivers."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
from pathlib import Path

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

sys.path.append(str(Path(__file__).resolve().parents[1] / "operations"))
from support import Proxy, eventually  # noqa: E402, it stands behind the path

CASSANDRA = ("127.0.9.1", 9042)
NARROWS = ("127.0.0.1", 9142)
ADMIN = ("127.0.0.1", 9180)
IS_OPTIMISED = bool(os.environ.get("RELEASE"))
BINARY = f"target/{'release' if IS_OPTIMISED else 'debug'}/narrows"
DIRECTORY = Path("target/demo")
# A name and addresses of its own, so that nobody's `make up` is touched.
CLUSTER = "demo"
READY_SECONDS_MAX = 60
SPLIT_SECONDS_MAX = 300
SERVED_SECONDS_MAX = 20
LOG_LINES = 20

CONFIG = f"""\
# Written by `make demo`; docker/narrows.toml explains every setting.
[client]
listen = "{NARROWS[0]}:{NARROWS[1]}"

[upstream]
contact_points = ["{CASSANDRA[0]}:{CASSANDRA[1]}"]

[admin]
listen = "{ADMIN[0]}:{ADMIN[1]}"

[pipeline]
enabled = true
# How long others have to hear of a guard; half a minute unless told. Here is nobody else.
settle = "1s"
# Holding back helps those who share the cluster.
throttle = false

[[table]]
name = "plant.reading"
# 64MiB and 8MiB unless told.
wide_bytes = "4MiB"
target_bytes = "2MiB"

[[table]]
# Everything at its default.
name = "plant.alarm"
"""


class NotAsTold(Exception):
    """The demo would tell something that is not so."""


class Narrows(Proxy):
    """`narrows run` at the addresses that the demo names, and the command line beside it."""

    def __init__(self):
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        # In a session of its own: what ends a terminal or interrupts the demo is not meant for it.
        super().__init__(DIRECTORY, {}, binary=BINARY, prefix=("setsid",))
        self.port, self.admin_port = NARROWS[1], ADMIN[1]
        # A Redis may have a password.
        self.config.unlink(missing_ok=True)
        self.config.touch(mode=0o600)
        self.config.write_text(CONFIG + redis())
        self.log_file.unlink(missing_ok=True)

    def wait_ready(self):
        """The control keyspace is made first."""
        def is_over():
            return self.process.poll() is not None or self.admin("/readyz")[0] == 200

        if not eventually(is_over, READY_SECONDS_MAX) or self.process.poll() is not None:
            raise NotAsTold(f"Narrows does not become ready: {self.admin('/readyz')[1].strip()}")

    def show(self, *arguments, seconds=SPLIT_SECONDS_MAX):
        """A command as a person gives it, with its output as it comes."""
        shown = [f'"{argument}"' if "'" in argument else argument for argument in arguments]
        print(f"  $ {BINARY} {' '.join(shown)} -c {self.config}")
        command = subprocess.Popen([BINARY, *arguments, "-c", self.config])
        try:
            # Without the proxy nothing would ever be done.
            eventually(lambda: command.poll() is not None or self.process.poll() is not None, seconds)
            if self.process.poll() is not None:
                raise NotAsTold(f"Narrows has ended with {self.process.returncode}")
            if command.poll() is None:
                raise NotAsTold(f"{' '.join(arguments)} did not end within {seconds} s")
        finally:
            command.terminate()
            command.wait()
        if command.returncode:
            raise NotAsTold(f"{' '.join(arguments)} ended with {command.returncode}")

    def splits(self):
        """What is split or on its way, by sensor."""
        command = [BINARY, "splits", "list", "--json", "-c", self.config]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        splits = map(json.loads, done.stdout.splitlines())
        return {split["key"][0].strip("'"): split for split in splits}

    def wait_until_found(self, *sensors):
        if not eventually(lambda: set(sensors) <= set(self.splits()), SERVED_SECONDS_MAX, pause=0.5):
            raise NotAsTold(f"of {', '.join(sensors)} Narrows found only {', '.join(self.splits()) or 'nothing'}")

    def answered_from_splits(self):
        return self.metric("narrows_proxy_split_reads_total", outcome="answered")

    def answered_by_originals(self):
        """Reads of watched tables that could not be answered from a split."""
        return self.metric("narrows_proxy_split_fallbacks_total") + self.metric("narrows_proxy_not_rewritten_total")

    def last_words(self):
        lines = self.log_file.read_text().splitlines()[-LOG_LINES:] if self.log_file.exists() else []
        return "\n".join([f"the end of {self.log_file}:", *lines])


def redis():
    """The section of the configuration for REDIS_URL, if it is set."""
    url = os.environ.get("REDIS_URL")
    if not url:
        return ""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "redis" or not parts.hostname:
        raise NotAsTold("REDIS_URL must be like redis://user:password@host:6379/0")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    settings = {"address": f"{host}:{parts.port or 6379}", "database": int(parts.path.strip("/") or 0)}
    for name in ("username", "password"):
        if value := getattr(parts, name):
            settings[name] = urllib.parse.unquote(value)
    return "\n[redis]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def connect(address):
    """An ordinary driver, only more patient: a node that has just started is slow."""
    host, port = address
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=60)
    return Cluster([host], port=port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                   connect_timeout=30, control_connection_timeout=30).connect()


class World:
    """All that runs. What was not ended at the exit of `with` is ended then, unless it shall be kept."""

    def __init__(self, keep):
        self.keep = keep
        self.sessions, self.narrows, self.is_ours = [], None, False

    def start_cassandra(self):
        for host, port in (CASSANDRA, NARROWS, ADMIN):
            with socket.socket() as probe:
                if probe.connect_ex((host, port)) == 0:
                    raise NotAsTold(f"something listens on {host}:{port} already; an earlier `make demo KEEP=1` has said how to end it")
        # Of a demo that was ended by force.
        cluster("down")
        self.is_ours = True
        cluster("up", "--nodes", "1", "--version", "5.0", "--subnet", CASSANDRA[0].rpartition(".")[0], is_told=True)

    def start_narrows(self):
        self.narrows = Narrows()
        self.narrows.start()
        self.narrows.wait_ready()

    def session(self, address):
        self.sessions.append(connect(address))
        return self.sessions[-1]

    def flush(self):
        """What was written goes to disk, as data of days ago is."""
        cluster("nodetool", "--node", "1", "flush")

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        return self

    def __exit__(self, kind, error, _):
        # From here on nothing may be left half done.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for session in self.sessions:
            session.cluster.shutdown()
        if self.narrows and kind and issubclass(kind, Exception):
            print(self.narrows.last_words(), file=sys.stderr)
        if self.keep and self.is_running():
            print(f"\n  To end it:  {self.how_to_end()}")
            return
        code = 0
        try:
            if self.is_running():
                code = self.narrows.stop()
        finally:
            if self.is_ours:
                cluster("down")
        if code and not kind:
            raise NotAsTold(f"Narrows ended with {code}\n{self.narrows.last_words()}")

    def is_running(self):
        process = self.narrows and self.narrows.process
        return bool(process) and process.poll() is None

    def how_to_end(self):
        return f"kill {self.narrows.process.pid}; make down NAME={CLUSTER}"


def cluster(command, *options, is_told=False):
    """`cluster.py` on the demo's cluster; what it says is shown if it fails or shall be told."""
    arguments = [sys.executable, "tests/cluster/cluster.py", command, "--name", CLUSTER, *options]
    words = None if is_told else subprocess.PIPE
    done = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=words, text=True, check=False)
    if done.returncode:
        raise NotAsTold(f"cluster.py {command} ended with {done.returncode}\n{done.stderr or ''}".strip())
