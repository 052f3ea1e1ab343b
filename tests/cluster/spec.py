"""What a cluster is: the parameters it was asked for, where its files live, and the clusters the tests know by name."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "target" / "cluster"
CQL_PORT = 9042

# The exact release behind each version that can be asked for. Pinned, so that a test run means the same tomorrow.
RELEASES = {"5.0": "5.0.9", "4.1": "4.1.10"}

# Clusters that tests and Makefile targets share; flags given on the command line still win. A node locks all its memory, so
# those with little to do have a small heap.
WELL_KNOWN = {
    "people": {"subnet": "127.0.0"},
    "main": {"subnet": "127.0.1", "nodes": 3},
    "auth": {"subnet": "127.0.2", "auth": True, "tls": True, "heap": "512M"},
    "old": {"subnet": "127.0.3", "version": "4.1"},
    "dc": {"subnet": "127.0.4", "nodes": 2, "dc_per_node": True, "heap": "512M"},
    "fault": {"subnet": "127.0.6", "nodes": 3, "heap": "512M"},
    "control": {"subnet": "127.0.7"},
    "single": {"subnet": "127.0.11"},
    "outage": {"subnet": "127.0.13", "nodes": 3, "heap": "512M", "strict": True},
    "outage-dc": {"subnet": "127.0.14", "nodes": 2, "dc_per_node": True, "heap": "512M", "strict": True},
}


class ClusterError(Exception):
    """A failure worth one line to the reader; it says what to do."""


@dataclasses.dataclass(frozen=True)
class ClusterSpec:
    name: str
    subnet: str
    nodes: int = 1
    version: str = "5.0"
    heap: str = "1G"
    auth: bool = False
    tls: bool = False
    mtls: bool = False
    dc_per_node: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", self.name):
            raise ClusterError(f"cluster name {self.name!r} must be lower-case letters, digits, - and _")
        octets = re.fullmatch(r"127\.(\d{1,3})\.(\d{1,3})", self.subnet)
        if not octets or any(int(octet) > 255 for octet in octets.groups()):
            raise ClusterError(f"subnet {self.subnet!r} must be three octets of loopback space, for instance 127.0.9")
        if not re.fullmatch(r"[1-9]\d*[MG]", self.heap):
            raise ClusterError(f"heap {self.heap!r} must look like 768M or 1G")

    @property
    def directory(self) -> Path:
        return HOME / self.name

    @property
    def tls_directory(self) -> Path:
        return self.directory / "tls"

    @property
    def release(self) -> str:
        return RELEASES[self.version]

    @property
    def numbers(self) -> range:
        return range(1, self.nodes + 1)

    def address(self, number: int) -> str:
        return f"{self.subnet}.{number}"

    def save(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(self), indent=2) + "\n"
        state_file(self.name).write_text(text)


def state_file(name: str) -> Path:
    """Exists from `up` to `down`."""
    return HOME / name / "cluster.json"


def load(name: str) -> ClusterSpec | None:
    try:
        return ClusterSpec(**json.loads(state_file(name).read_text()))
    except FileNotFoundError:
        return None


def load_all() -> list[ClusterSpec]:
    return [load(path.parent.name) for path in sorted(HOME.glob("*/cluster.json"))]


def from_request(name: str, asked: dict) -> ClusterSpec:
    """Joins what the command line says with what is known about the name."""
    parameters = {**WELL_KNOWN.get(name, {}), **asked}
    if "subnet" not in parameters:
        known = ", ".join(WELL_KNOWN)
        raise ClusterError(f"cluster {name!r} is not one of {known}: give it a --subnet of its own, for instance 127.0.9")
    if parameters.get("mtls"):
        parameters["tls"] = True
    return ClusterSpec(name=name, **parameters)
