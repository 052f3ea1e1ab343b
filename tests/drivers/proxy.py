"""A Narrows process for the runner: configuration, start, readiness, what it logged, stop."""
import ipaddress
import json
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

NETWORK = ipaddress.ip_network("127.77.0.0/16")

# Pages that came from a split, and what says why others did not.
ANSWERED = 'narrows_proxy_split_reads_total{outcome="answered"}'
REASONS = ("narrows_proxy_split_reads_total", "narrows_proxy_split_fallbacks_total", "narrows_lookup_answers_total",
           "narrows_proxy_not_rewritten_total")

# WARN and ERROR lines that a correct run may log, as (regular expression, why it is harmless).
EXPECTED = [(r"cannot be followed; writes and reads go on.*(does not answer|in time)|"
             r"(does not answer|in time).*cannot be followed; writes and reads go on", "the machine is very busy")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def mirrored(address):
    """The mirror address of a node: the network's prefix and the host bits of the node's own address."""
    host_bits = int(ipaddress.ip_address(address)) & int(NETWORK.hostmask)
    return str(NETWORK.network_address + host_bits)


class Proxy:
    def __init__(self, binary, mode, contacts, dc, more=""):
        """`more` is text for the end of the configuration file."""
        port, self.admin = free_port(), free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="narrows-drivers-"))
        self.log = self.directory / "narrows.log"
        topology = f'mode = "{mode}"' + (f'\nnetwork = "{NETWORK}"' if mode == "mirror" else "")
        config = self.directory / "narrows.toml"
        config.write_text(f'[client]\nlisten = "127.0.0.1:{port}"\n\n[upstream]\ncontact_points = {json.dumps(contacts)}\n'
                          f'data_center = "{dc}"\n\n[topology]\n{topology}\n\n[admin]\nlisten = "127.0.0.1:{self.admin}"\n\n'
                          f'[log]\nformat = "json"\n{more}')
        hosts = [c.rsplit(":", 1)[0] for c in contacts]
        self.addresses = [mirrored(h) for h in hosts] if mode == "mirror" else ["127.0.0.1"]
        self.contacts = [f"{a}:{port}" for a in self.addresses]
        self.read, self.reading = 0, threading.Lock()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([binary, "run", "--config", config], stdout=log, stderr=log)
        self.wait_until_ready()

    def wait_until_ready(self, seconds=90):
        end = time.monotonic() + seconds
        for contact in self.contacts:
            host, port = contact.rsplit(":", 1)
            while True:
                if self.process.poll() is not None:
                    raise RuntimeError(f"narrows ended with {self.process.returncode}:\n{self.log.read_text()}")
                try:
                    socket.create_connection((host, int(port)), 1).close()
                    break
                except OSError as error:
                    if time.monotonic() > end:
                        raise RuntimeError(f"{contact} did not open in {seconds} s:\n{self.log.read_text()}") from error
                    time.sleep(0.1)

    def wait_for_split(self, seconds=120):
        """Until it knows that something is split."""
        end = time.monotonic() + seconds
        while not any(value for name, value in self.metrics().items() if name.startswith("narrows_filter_keys{")):
            if time.monotonic() > end:
                raise RuntimeError(f"narrows learned of no split in {seconds} s:\n{self.log.read_text()}")
            time.sleep(0.1)

    def metrics(self):
        """Every counter and gauge by its name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def metric(self, name):
        return self.metrics().get(name, 0)

    def reasons(self):
        """How reads of splits ended so far."""
        return {name: value for name, value in self.metrics().items() if name.startswith(REASONS) and value}

    def complaints(self):
        """Unexpected lines logged since the last call: WARN, ERROR, or not JSON at all (a panic)."""
        with self.reading:
            # The last line may still be on its way.
            lines = self.log.read_text().split("\n")[:-1]
            new, self.read = lines[self.read:], len(lines)
        ended = [f"narrows ended with {self.process.returncode}"] if self.process.poll() else []
        return [line for line in new if self.unexpected(line)] + ended

    @staticmethod
    def unexpected(line):
        try:
            level = json.loads(line).get("level", "")
        except ValueError:
            return True
        return level in ("WARN", "ERROR") and not any(re.search(pattern, line) for pattern, _ in EXPECTED)

    def stop(self):
        """SIGTERM must end it with 0; whatever else happens is returned as a complaint."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return ["narrows did not end within 30 s of SIGTERM"]
        return self.complaints() if code == 0 else [f"narrows ended with {code} on SIGTERM"]
