#!/usr/bin/env python3
"""Starts and stops real Apache Cassandra clusters of one to three nodes on loopback addresses; README.md says more."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import time

import certs
import readiness
import runtime
import spec as specs
from node import Node
from runtime import locked, say
from spec import CQL_PORT, ClusterError, ClusterSpec

PORT_GRACE_SECONDS = 10


def main() -> int:
    arguments = parse_arguments()
    try:
        return arguments.command(arguments) or 0
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; nodes already started keep running, `down` stops them")
        return 130


def up(arguments: argparse.Namespace) -> None:
    asked = {key: getattr(arguments, key) for key in PARAMETERS if getattr(arguments, key) is not None}
    wanted = specs.from_request(arguments.name, asked)
    with locked(wanted.name):
        current = specs.load(wanted.name)
        if current and current != wanted:
            differences = name_differences(current, wanted)
            raise ClusterError(f"cluster {wanted.name} exists with {differences}: run down --name {wanted.name} first")
        if not current:
            prepare(wanted)
        start_nodes(wanted, nodes_of(wanted))
    print(json.dumps(description(wanted)))


def prepare(spec: ClusterSpec) -> None:
    """Leaves the state file last, so that a failure here leaves no half-made cluster."""
    for other in specs.load_all():
        if other.subnet == spec.subnet:
            raise ClusterError(f"subnet {spec.subnet} is that of cluster {other.name}: take another or run down --name {other.name}")
    for node in nodes_of(spec):
        refuse_taken_port(node)
        node.forget_data()
        node.put_old_logs_aside()
    java, _ = runtime.find_java(spec.version), runtime.fetch_libraries(spec.release)
    if spec.tls:
        certs.make_certificates(spec, java)
    spec.save()


def refuse_taken_port(node: Node) -> None:
    # A node that was killed a moment ago may still hold it: freeing its memory comes first.
    deadline = time.monotonic() + PORT_GRACE_SECONDS
    while is_taken(node):
        if time.monotonic() > deadline:
            raise ClusterError(f"something else already listens on {node.address}:{CQL_PORT}: stop it or choose another --subnet")
        time.sleep(0.2)


def is_taken(node: Node) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((node.address, CQL_PORT)) == 0


def start_nodes(spec: ClusterSpec, nodes: list[Node]) -> None:
    """Starts those that do not run, together, then waits until all nodes that run form one cluster."""
    stopped = [node for node in nodes if node.state() != "running"]
    if stopped:
        java, libraries = runtime.find_java(spec.version), runtime.fetch_libraries(spec.release)
        for node in stopped:
            say(f"starting {node}, Cassandra {spec.release}")
            node.start(java, libraries)
    started = {node.number for node in nodes}
    others = [node for node in nodes_of(spec) if node.number not in started and node.state() == "running"]
    readiness.wait_until_serving(spec, nodes + others)


def down(arguments: argparse.Namespace) -> None:
    names = [spec.name for spec in specs.load_all()] if arguments.all else [arguments.name]
    for name in names:
        with locked(name):
            spec = specs.load(name)
            if spec is None:
                say(f"cluster {name} is not up")
                continue
            take_down(spec)


def take_down(spec: ClusterSpec) -> None:
    for node in nodes_of(spec):
        # The data goes anyway, so there is nothing for a slow, polite stop to save.
        node.stop(kill=True)
        node.forget_data()
    shutil.rmtree(spec.tls_directory, ignore_errors=True)
    specs.state_file(spec.name).unlink()
    say(f"cluster {spec.name} is down; its logs are in {spec.directory}")


def stop_node(arguments: argparse.Namespace) -> None:
    with locked(arguments.name):
        node = one_node(arguments)
        node.stop(kill=arguments.kill)
        say(f"{node} is stopped")


def pause_node(arguments: argparse.Namespace) -> None:
    with locked(arguments.name):
        node = one_node(arguments)
        node.pause()
        say(f"{node} is paused")


def start_node(arguments: argparse.Namespace) -> None:
    with locked(arguments.name):
        node = one_node(arguments)
        start_nodes(node.spec, [node])


def nodetool(arguments: argparse.Namespace) -> int:
    node = one_node(arguments)
    # Java 17 for 4.1 too: the small Java 11 that serves its nodes has no client side of JMX.
    java, libraries = runtime.find_java_17(), runtime.fetch_libraries(node.spec.release)
    scratch = node.directory / "nodetool"
    command = [str(java), "-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *runtime.module_options(),
               "-cp", f"{node.directory / 'conf'}:{libraries}/*",
               f"-Dcassandra.storagedir={scratch}", f"-Duser.home={scratch}", "-Dlogback.configurationFile=logback-tools.xml",
               "org.apache.cassandra.tools.NodeTool", "-p", str(node.jmx_port), *arguments.arguments]
    return subprocess.run(command, check=False).returncode


def status(_: argparse.Namespace) -> None:
    for spec in specs.load_all():
        print(json.dumps(description(spec) | {"nodes": {f"node{node.number}": node.state() for node in nodes_of(spec)}}))


def description(spec: ClusterSpec) -> dict:
    return {
        "name": spec.name,
        "version": spec.version,
        "contact_points": [f"{spec.address(number)}:{CQL_PORT}" for number in spec.numbers],
        "auth": spec.auth,
        "tls": certs.describe(spec),
    }


def nodes_of(spec: ClusterSpec) -> list[Node]:
    return [Node(spec, number) for number in spec.numbers]


def one_node(arguments: argparse.Namespace) -> Node:
    spec = specs.load(arguments.name)
    if spec is None:
        raise ClusterError(f"cluster {arguments.name} is not up: run up --name {arguments.name} first")
    if arguments.node not in spec.numbers:
        raise ClusterError(f"cluster {spec.name} has nodes 1 to {spec.nodes}, not {arguments.node}")
    return Node(spec, arguments.node)


def name_differences(current: ClusterSpec, wanted: ClusterSpec) -> str:
    pairs = [(key, getattr(current, key), getattr(wanted, key)) for key in PARAMETERS]
    return ", ".join(f"{key} {has} (asked for {asked})" for key, has, asked in pairs if has != asked)


PARAMETERS = ("subnet", "nodes", "version", "heap", "auth", "tls", "mtls", "dc_per_node", "strict")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(command=function)
        return one

    add_up_options(command("up", up, "start a cluster, or whatever of it does not run; the last line of output is JSON"))
    which = command("down", down, "stop a cluster and delete its data").add_mutually_exclusive_group(required=True)
    which.add_argument("--name")
    which.add_argument("--all", action="store_true", help="all clusters of this working tree")
    command("status", status, "one line of JSON per cluster")
    stop = command("stop-node", stop_node, "stop one node, keeping its data")
    pause = command("pause-node", pause_node, "let one node answer nothing, by SIGSTOP; to the others it looks alive for a while")
    start = command("start-node", start_node, "start a stopped node, or let a paused one go on, and wait for it")
    tool = command("nodetool", nodetool, "run Cassandra's nodetool on one node")
    for one in (stop, pause, start, tool):
        one.add_argument("--name", required=True)
        one.add_argument("--node", type=int, required=True, metavar="K")
    stop.add_argument("--kill", action="store_true", help="as in a crash, by SIGKILL")
    tool.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    return parser.parse_args()


def add_up_options(parser: argparse.ArgumentParser) -> None:
    """No defaults here: what is not given comes from the well-known name, then from ClusterSpec."""
    parser.add_argument("--name", required=True, help="well known: " + ", ".join(specs.WELL_KNOWN))
    parser.add_argument("--subnet", metavar="127.0.X", help="node K listens on 127.0.X.K:9042")
    parser.add_argument("--nodes", type=int, choices=(1, 2, 3))
    parser.add_argument("--version", choices=tuple(specs.RELEASES))
    parser.add_argument("--heap", help="per node, 1G unless told")
    for flag, text in {
        "--auth": "passwords and permissions; the superuser is cassandra/cassandra",
        "--tls": "TLS for clients that want it, on the same port",
        "--mtls": "TLS for all clients, with a certificate",
        "--dc-per-node": "data centres dc1, dc2, dc3 instead of dc1 for all",
        "--strict": "Cassandra's own timeouts, and writes on disk before they are acknowledged",
    }.items():
        parser.add_argument(flag, action="store_const", const=True, help=text)


if __name__ == "__main__":
    sys.exit(main())
