"""Writes a node's configuration directory: cassandra.yaml, cassandra-rackdc.properties, logback.xml."""

from __future__ import annotations

import json
from pathlib import Path

from certs import STORE_PASSWORD
from spec import CQL_PORT, ClusterSpec

TOKENS_PER_NODE = 4

LOGBACK = """<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


def write_config(spec: ClusterSpec, number: int, directory: Path, log: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # JSON is YAML too, which spares us a YAML writer.
    (directory / "cassandra.yaml").write_text(json.dumps(settings(spec, number), indent=2) + "\n")
    data_center = f"dc{number}" if spec.dc_per_node else "dc1"
    (directory / "cassandra-rackdc.properties").write_text(f"dc={data_center}\nrack=rack1\n")
    (directory / "logback.xml").write_text(LOGBACK.format(log=log))


def settings(spec: ClusterSpec, number: int) -> dict:
    return {
        "cluster_name": spec.name,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "GossipingPropertyFileSnitch",
        "dynamic_snitch": False,
        **ring(spec, number),
        **addresses(spec, number),
        **resources(),
        **(own_timeouts() if spec.strict else patience()),
        **commit_log(spec),
        **features(spec),
        **(authentication() if spec.auth else {}),
        **(encryption(spec) if spec.tls else {}),
    }


def ring(spec: ClusterSpec, number: int) -> dict:
    """Fixed tokens, and every node a seed: an empty cluster needs no bootstrap, so all nodes start at once."""
    seeds = ",".join(spec.address(other) for other in spec.numbers)
    return {
        "num_tokens": TOKENS_PER_NODE,
        "initial_token": ",".join(map(str, tokens(spec.nodes, number))),
        "auto_bootstrap": False,
        "seed_provider": [{
            "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
            "parameters": [{"seeds": seeds}],
        }],
    }


def tokens(nodes: int, number: int) -> list[int]:
    """Evenly spaced, the nodes taking turns around the ring."""
    step = 2**64 // (nodes * TOKENS_PER_NODE)
    return [-(2**63) + step * (turn * nodes + number - 1) + 1 for turn in range(TOKENS_PER_NODE)]


def addresses(spec: ClusterSpec, number: int) -> dict:
    return {
        "listen_address": spec.address(number),
        "rpc_address": spec.address(number),
        "native_transport_port": CQL_PORT,
        "storage_port": 7000,
    }


def resources() -> dict:
    """Small enough for three nodes on a laptop."""
    return {
        "commitlog_total_space": "512MiB",
        "memtable_heap_space": "128MiB",
        "memtable_offheap_space": "128MiB",
        "file_cache_size": "64MiB",
        # A full cache drops new statements before they are executed, and tests prepare thousands.
        "prepared_statements_cache_size": "64MiB",
        "concurrent_reads": 16,
        "concurrent_writes": 16,
        "concurrent_compactors": 1,
    }


def patience() -> dict:
    """Long enough for two busy cores not to fail a test."""
    return {
        "read_request_timeout": "10s",
        "range_request_timeout": "20s",
        "write_request_timeout": "10s",
        # Below the driver's own limit, so that Cassandra is still the first to say what became of a conditional write.
        "cas_contention_timeout": "4s",
    }


def own_timeouts() -> dict:
    """What a node has that nobody has configured."""
    return {
        "read_request_timeout": "5000ms",
        "range_request_timeout": "10000ms",
        "write_request_timeout": "2000ms",
        "cas_contention_timeout": "1800ms",
    }


def commit_log(spec: ClusterSpec) -> dict:
    """Synced now and then, or before each acknowledgement: then a node that is killed has all that it acknowledged."""
    if spec.strict:
        return {"commitlog_sync": "batch"}
    return {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}


def features(spec: ClusterSpec) -> dict:
    masks = {} if spec.version.startswith("4") else {"dynamic_data_masking_enabled": True}
    return {
        **masks,
        "auto_snapshot": False,
        "materialized_views_enabled": True,
        "sasi_indexes_enabled": False,
        "user_defined_functions_enabled": False,
    }


def authentication() -> dict:
    """Nothing about roles is cached: a REVOKE or a new password counts from the next request on."""
    return {
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "role_manager": "CassandraRoleManager",
        "roles_validity": "0ms",
        "permissions_validity": "0ms",
        "credentials_validity": "0ms",
    }


def encryption(spec: ClusterSpec) -> dict:
    """With plain TLS the port also takes clients without it; with mTLS a client certificate is a must."""
    return {
        "client_encryption_options": {
            "enabled": True,
            "optional": not spec.mtls,
            "require_client_auth": spec.mtls,
            "store_type": "PKCS12",
            "keystore": str(spec.tls_directory / "server.p12"),
            "keystore_password": STORE_PASSWORD,
            "truststore": str(spec.tls_directory / "truststore.p12"),
            "truststore_password": STORE_PASSWORD,
        },
    }
