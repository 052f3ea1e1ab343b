"""One Cassandra process: started in a session of its own, found again and stopped through its pid file."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from config import write_config
from spec import ClusterError, ClusterSpec, CQL_PORT
import runtime

STOP_GRACE_SECONDS = 30
# Every schema change would flush ten tables. Without that a node which is killed comes back without its latest tables, so
# it is for clusters whose nodes are only ever stopped.
FORGETFUL = "-Dcassandra.test.flush_local_schema_changes=false"
QUICK_SCHEMA = ("main", "old", "control", "single")


class Node:
    def __init__(self, spec: ClusterSpec, number: int) -> None:
        self.spec, self.number = spec, number
        self.address = spec.address(number)
        self.directory = spec.directory / f"node{number}"
        self.pid_file = self.directory / "pid"
        self.log = self.directory / "system.log"
        self.console = self.directory / "console.log"
        # On the command line of the process, to tell it from a stranger that got its pid later.
        self.marker = f"-Dnarrows.cluster.node={self.directory.resolve()}"

    def __str__(self) -> str:
        return f"{self.spec.name}/node{self.number} ({self.address}:{CQL_PORT})"

    @property
    def jmx_port(self) -> int:
        """On 127.0.0.1 whatever the node's own address is, so it must differ between clusters."""
        _, second, third = map(int, self.spec.subnet.split("."))
        return 7200 + (second * 256 + third) % 5000 * 4 + self.number

    def pid(self) -> int | None:
        """The pid of the running process, if there is one and it is really this node."""
        try:
            pid = int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self.marker.encode() in command_line(pid) else None

    def state(self) -> str:
        pid = self.pid()
        if pid is None:
            return "stopped"
        try:
            letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return "stopped"
        return {"T": "paused", "Z": "stopped"}.get(letter, "running")

    def start(self, java: Path, libraries: Path) -> None:
        """Returns at once; whoever called waits until the node answers."""
        if self.state() == "paused":
            send(self.pid(), signal.SIGCONT)
            return
        configuration = self.directory / "conf"
        temporary = self.directory / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write_config(self.spec, self.number, configuration, self.log)
        with open(self.console, "ab") as console:
            process = subprocess.Popen(
                [str(java), *self.java_options(libraries, temporary),
                 "-cp", f"{configuration}:{libraries}/*", "org.apache.cassandra.service.CassandraDaemon"],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # For a moment after exec the kernel shows an empty command line, which would pass for a dead node.
        while process.poll() is None and self.marker.encode() not in command_line(process.pid):
            time.sleep(0.01)
        # Renamed into place: a reader never sees a half-written pid.
        fresh = self.pid_file.with_suffix(".new")
        fresh.write_text(f"{process.pid}\n")
        fresh.rename(self.pid_file)

    def java_options(self, libraries: Path, temporary: Path) -> list[str]:
        agents = sorted(libraries.glob("jamm-*.jar"))
        if len(agents) != 1:
            raise ClusterError(f"expected one jamm jar in {libraries}: delete that directory and try again")
        return [
            self.marker,
            f"-Xms{self.spec.heap}", f"-Xmx{self.spec.heap}", "-Xss512k",
            "-XX:+UseSerialGC", "-XX:+PerfDisableSharedMem", "-XX:+ExitOnOutOfMemoryError",
            # A node lives for minutes: code of the second compiler would cost more than it ever gives back.
            "-XX:TieredStopAtLevel=1",
            *runtime.module_options(),
            f"-javaagent:{agents[0]}",
            "-Djdk.attach.allowAttachSelf=true", "-Djava.awt.headless=true", f"-Djava.io.tmpdir={temporary}",
            "-Dcassandra-foreground=yes",
            f"-Dcassandra.storagedir={self.directory / 'storage'}", f"-Dcassandra.logdir={self.directory}",
            f"-Dcassandra.jmx.local.port={self.jmx_port}",
            # Waiting times meant for real networks.
            "-Dcassandra.ring_delay_ms=1000", "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
            *([FORGETFUL] if self.spec.name in QUICK_SCHEMA else []),
        ]

    def stop(self, kill: bool = False) -> None:
        pid = self.pid()
        if pid is not None:
            send(pid, signal.SIGKILL if kill else signal.SIGTERM)
            # A paused process would never see the SIGTERM.
            send(pid, signal.SIGCONT)
            if not self.gone_within(STOP_GRACE_SECONDS):
                runtime.say(f"{self} ignores SIGTERM for {STOP_GRACE_SECONDS} s, killing it")
                send(pid, signal.SIGKILL)
                if not self.gone_within(STOP_GRACE_SECONDS):
                    raise ClusterError(f"{self} with pid {pid} survives SIGKILL: see what it hangs on in /proc/{pid}/stack")
        self.pid_file.unlink(missing_ok=True)

    def pause(self) -> None:
        pid = self.pid()
        if pid is None:
            raise ClusterError(f"{self} does not run, so it cannot be paused")
        send(pid, signal.SIGSTOP)

    def gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.state() != "stopped":
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def forget_data(self) -> None:
        """Leaves the logs."""
        for name in ("storage", "tmp", "conf"):
            shutil.rmtree(self.directory / name, ignore_errors=True)

    def put_old_logs_aside(self) -> None:
        for log in (self.log, self.console):
            if log.exists():
                log.rename(log.with_suffix(".log.old"))

    def last_words(self) -> str:
        """What to show when the node did not come up: the tail of the log that has something to say."""
        log = self.log if self.log.exists() else self.console
        lines = log.read_text(errors="replace").splitlines()[-30:] if log.exists() else []
        return "\n".join([*lines, f"(the end of {log})"])


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
