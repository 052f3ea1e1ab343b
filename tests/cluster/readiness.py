"""Decides when nodes are up: each answers CQL, lets the superuser in, and sees all others with one schema."""

from __future__ import annotations

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
    """Fails at once when a process dies, and in the end when one never answers."""
    started = time.monotonic()
    tls = client_context(spec)
    reasons = {node: "not asked yet" for node in nodes}
    while reasons:
        for node in list(reasons):
            check_alive(node)
            try:
                check_serving(spec, node, tls, whole_ring=len(nodes) == spec.nodes)
                del reasons[node]
                runtime.say(f"{node} serves after {time.monotonic() - started:.1f} s")
            except NotServing as reason:
                reasons[node] = str(reason)
        if reasons and time.monotonic() - started > START_SECONDS_MAX:
            fail(next(iter(reasons)), f"does not serve after {START_SECONDS_MAX} s ({next(iter(reasons.values()))})")
        if reasons:
            time.sleep(POLL_SECONDS)


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


def client_context(spec: ClusterSpec) -> ssl.SSLContext | None:
    """Used whenever the cluster can do TLS, which shows that the certificates are good."""
    if not spec.tls:
        return None
    directory = spec.tls_directory
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    context.load_cert_chain(directory / "client.pem", directory / "client.key")
    return context
