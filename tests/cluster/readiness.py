"""Decides when nodes are up: each answers CQL, lets the superuser in, and sees all others with one schema."""

from __future__ import annotations

import socket
import ssl
import time

import runtime
from cqlping import CONSISTENCY_ALL, CqlPing, NotServing
from node import Node
from spec import CQL_PORT, ClusterError, ClusterSpec

SUPERUSER = "cassandra"
START_SECONDS_MAX = 240
POLL_SECONDS = 0.5


def wait_until_serving(spec: ClusterSpec, nodes: list[Node]) -> None:
    """Returns after a round in which every node served. Fails at once when a process dies, and in the end when one never answers.

    One node's word does not last: right after a pause, others may still find the node dead that they just saw alive."""
    started = time.monotonic()
    tls = client_context(spec)
    served: set[int] = set()
    while reasons := reasons_to_wait(spec, nodes, tls):
        for node in nodes:
            if node not in reasons and node.number not in served:
                served.add(node.number)
                runtime.say(f"{node} serves after {time.monotonic() - started:.1f} s")
        if time.monotonic() - started > START_SECONDS_MAX:
            fail(next(iter(reasons)), f"does not serve after {START_SECONDS_MAX} s ({next(iter(reasons.values()))})")
        time.sleep(POLL_SECONDS)
    runtime.say(f"all nodes of {spec.name} that run serve after {time.monotonic() - started:.1f} s")


def reasons_to_wait(spec: ClusterSpec, nodes: list[Node], tls: ssl.SSLContext | None) -> dict[Node, str]:
    reasons = {}
    for node in nodes:
        check_alive(node)
        try:
            check_serving(spec, node, tls, whole_ring=len(nodes) == spec.nodes)
        except NotServing as reason:
            reasons[node] = str(reason)
    return reasons


def check_alive(node: Node) -> None:
    if node.pid() is None:
        fail(node, "died while starting")


def fail(node: Node, what: str) -> None:
    runtime.say(f"the last lines of {node}:\n{node.last_words()}")
    raise ClusterError(f"{node} {what}: look for the reason in system.log and console.log in {node.directory}")


def check_serving(spec: ClusterSpec, node: Node, tls: ssl.SSLContext | None, whole_ring: bool) -> None:
    with CqlPing((node.address, CQL_PORT), tls) as ping:
        ping.handshake(SUPERUSER, SUPERUSER)
        [[own_schema]] = ping.query("SELECT schema_version FROM system.local")
        peers = [schema for [schema] in ping.query("SELECT schema_version FROM system.peers")]
        if len(peers) != spec.nodes - 1:
            raise NotServing(f"sees {len(peers)} of {spec.nodes - 1} other nodes")
        if any(schema != own_schema for schema in peers):
            raise NotServing("its schema differs from another node's")
        if whole_ring and spec.nodes > 1:
            # Rows in system.peers outlive the peer. This table has two replicas, so that reading all of it
            # at ALL succeeds only when gossip holds every node to be alive; no row matches, so no page ends early.
            ping.query("SELECT session_id FROM system_traces.sessions WHERE command = 'none' ALLOW FILTERING", CONSISTENCY_ALL)
    check_management(node)


def check_management(node: Node) -> None:
    """That nodetool finds somebody to talk to."""
    with socket.socket() as probe:
        probe.settimeout(2)
        if probe.connect_ex(("127.0.0.1", node.jmx_port)) != 0:
            raise NotServing("its JMX port is closed")


def client_context(spec: ClusterSpec) -> ssl.SSLContext | None:
    """Used whenever the cluster can do TLS, which shows that the certificates are good."""
    if not spec.tls:
        return None
    directory = spec.tls_directory
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    context.load_cert_chain(directory / "client.pem", directory / "client.key")
    return context
