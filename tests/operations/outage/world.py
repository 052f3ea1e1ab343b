"""What a scenario happens in: tables with rows and splits, proxies before them, and all that is stopped, killed or paused."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import uuid
from pathlib import Path

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from cassandra.query import BatchStatement, BatchType

from outage.field import BASE_ROWS, BUCKET_STARTS, Field, Kind, Pair, base_value
from outage.line import QUORUM, Address, Line, Statement
from support import Proxy, cluster_command, eventually, free_port, host_and_port
# After `support`, which knows where it is.
from splitter import Splitter

ANSWERED = "narrows_proxy_split_reads_total"
SHARDS = 4
SPLIT_SECONDS_MAX = 60
RECOVERY_SECONDS_MAX = 90
# What an outage may take, and then some: knowledge that is as old still counts.
MAX_STALENESS = "10m"


class World:
    def __init__(self, cluster_name: str, contacts: list[str], directory: Path, max_staleness: str = MAX_STALENESS,
                 control_replication: str | None = None, with_redis: bool = False) -> None:
        self.cluster_name, self.contacts, self.directory = cluster_name, contacts, directory
        self.nodes = [host_and_port(contact) for contact in contacts]
        self.max_staleness, self.control_replication = max_staleness, control_replication
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        stem = f"outage_{uuid.uuid4().hex[:8]}"
        self.keyspace, self.elsewhere, self.control = stem, f"{stem}_elsewhere", f"{stem}_control"
        event = f"{stem}.event"
        self.field = Field({Kind.SPLIT: event, Kind.UNSPLIT: event, Kind.WATCHED: f"{stem}.reading",
                            Kind.BESIDE: f"{stem}.note", Kind.ELSEWHERE: f"{self.elsewhere}.note"})
        self.redis = Redis(directory) if with_redis else None
        self.proxies: dict[str, Proxy] = {}
        self.ends = contextlib.ExitStack()

    def __enter__(self) -> World:
        profile = ExecutionProfile(request_timeout=60, load_balancing_policy=RoundRobinPolicy(), consistency_level=ConsistencyLevel.ALL)
        driver = Cluster([host for host, _ in self.nodes], execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                         schema_event_refresh_window=0, connect_timeout=15, control_connection_timeout=15)
        self.ends.callback(driver.shutdown)
        self.session = driver.connect()
        for keyspace in (self.keyspace, self.elsewhere):
            self.session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {self.replication()}")
        for table in sorted(set(self.field.tables.values())):
            self.session.execute(f"CREATE TABLE {table} (k int, c int, v text, PRIMARY KEY (k, c))")
        if self.redis:
            self.redis.start()
        return self

    def __exit__(self, *_) -> None:
        for proxy in self.proxies.values():
            if proxy.process and proxy.process.poll() is None:
                proxy.process.kill()
                proxy.process.wait()
        if self.redis and self.redis.process:
            self.redis.kill()
        with self.ends, contextlib.suppress(Exception):
            # A cluster that an interrupted scenario leaves half dead does not forget its keyspaces; the next `up` finds them.
            for keyspace in (self.control, self.keyspace, self.elsewhere):
                self.session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}", timeout=20)

    def replication(self) -> str:
        """Every node has everything."""
        centers: dict[str, int] = {}
        for host in self.session.cluster.metadata.all_hosts():
            centers[host.datacenter] = centers.get(host.datacenter, 0) + 1
        options = "".join(f", '{name}': {count}" for name, count in sorted(centers.items()))
        return f"{{'class': 'NetworkTopologyStrategy'{options}}}"

    # Partitions and splits.

    def prepare(self) -> None:
        """Fills all partitions of the field, starts the proxies, and splits what is to be split."""
        self.fill()
        for name, topology in (("single", "single"), ("mirror", "mirror")):
            self.start_proxy(name, topology).wait_ready()
        assert eventually(self.is_seen), "no proxy has seen the tables"
        self.session.cluster.refresh_schema_metadata()
        splitter = Splitter(self.session, self.control, self.keyspace, "event", SHARDS)
        splitter.create()
        split = [pair for pair in self.field.pairs if pair.kind is Kind.SPLIT]
        for pair in split:
            splitter.split((pair.through.key,), BUCKET_STARTS)
        for name in self.proxies:
            for pair in split:
                assert eventually(lambda: self.is_served(name, pair), SPLIT_SECONDS_MAX), f"{name} reads no split of {pair.through.key}"

    def fill(self) -> None:
        inserts = {table: self.session.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)")
                   for table in set(self.field.tables.values())}
        under_way = []
        for pair in self.field.pairs:
            for side in (pair.through, pair.direct):
                batch = BatchStatement(BatchType.UNLOGGED)
                for row in range(BASE_ROWS):
                    batch.add(inserts[side.table], (side.key, row, base_value(row)))
                under_way.append(self.session.execute_async(batch))
        for future in under_way:
            future.result()

    def is_seen(self) -> bool:
        seen = self.session.execute(f"SELECT seen_table_id FROM {self.control}.watched_table").all()
        return len(seen) == 2 and all(row.seen_table_id for row in seen)

    def is_served(self, name: str, pair: Pair) -> bool:
        before = self.answered(name)
        text = f"SELECT c, v FROM {pair.through.table} WHERE k = ? AND c < 5"
        line = self.line(name)
        assert line.run(Statement(text, (pair.through.key,), QUORUM)).ok
        line.close()
        return self.answered(name) > before

    def answered(self, *names: str) -> float:
        """Reads that were answered from splits."""
        return sum(self.proxies[name].metric(ANSWERED, outcome="answered") for name in names or self.proxies)

    # Proxies, and lines to them and around them.

    def start_proxy(self, name: str, topology: str = "single") -> Proxy:
        control = {"keyspace": self.control, "max_staleness": self.max_staleness}
        if self.control_replication:
            control["replication"] = self.control_replication
        settings = {"upstream": {"contact_points": self.contacts}, "topology": {"mode": topology}, "control": control,
                    "table": [{"name": self.field.tables[kind], "shards": SHARDS} for kind in (Kind.SPLIT, Kind.WATCHED)]}
        if self.redis:
            settings["redis"] = {"address": "{}:{}".format(*self.redis.address)}
        directory = self.directory / name
        directory.mkdir()
        self.proxies[name] = Proxy(directory, settings).start()
        return self.proxies[name]

    def line(self, name: str, home: int = 0) -> Line:
        """Through a proxy, or `direct`. `home` is the node that is asked first, wherever nodes can be told apart."""
        if name == "direct":
            addresses = self.nodes
        elif self.proxies[name].settings["topology"]["mode"] == "mirror":
            addresses = [(host, self.proxies[name].port) for host, _ in self.nodes]
        else:
            addresses = [(self.proxies[name].host, self.proxies[name].port)] * len(self.nodes)
        return Line(addresses[home:] + addresses[:home])

    def stop_proxies(self) -> list[str]:
        """Ends them; says what they should not have logged, or done."""
        trouble = []
        for name, proxy in self.proxies.items():
            code = proxy.stop()
            lines = proxy.log_file.read_text().splitlines()
            # The driver of the control keyspace has its own words for nodes that are gone.
            bad = [line for line in lines if not line.startswith("{") or '"level":"ERROR"' in line and '"target":"narrows' in line]
            trouble += [f"{name} ended with {code}"] * (code != 0) + [f"{name} logged {line}" for line in bad]
        return trouble

    # What happens to nodes. Numbers are those of the cluster's tool, from 1.

    def on_node(self, command: str, number: int, *arguments: str) -> None:
        cluster_command(command, "--name", self.cluster_name, "--node", str(number), *arguments)

    def stop(self, *numbers: int) -> None:
        """Orderly: what a node has acknowledged is on its disk."""
        for number in numbers:
            self.on_node("stop-node", number)

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            self.on_node("stop-node", number, "--kill")

    def pause(self, *numbers: int) -> None:
        for number in numbers:
            self.on_node("pause-node", number)

    def restore(self) -> None:
        """All nodes run, and see one another."""
        cluster_command("up", "--name", self.cluster_name)

    def set_timeouts(self, **milliseconds: int) -> None:
        for number in range(1, len(self.nodes) + 1):
            for kind, value in milliseconds.items():
                self.on_node("nodetool", number, "settimeout", kind, str(value))

    def control_home(self) -> int:
        """The node that has the list of watched tables and, of those that do, most shards, if each partition is on one."""
        metadata = self.session.cluster.metadata
        [keeper] = metadata.get_replicas(self.control, b"watched")
        return self.number_of(keeper)

    def number_of(self, host) -> int:
        return 1 + [address for address, _ in self.nodes].index(host.address)

    def can_read_control(self) -> bool:
        """Whether anybody could read the list of watched tables, at the consistency that counts."""
        statement = Statement(f"SELECT catalog, table_name FROM {self.control}.watched_table WHERE catalog = ?", ("watched",), QUORUM)
        line = self.line("direct")
        outcome = line.run(statement)
        line.close()
        return outcome.ok


class Redis:
    """A real one, without persistence."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "redis.log"
        self.address: Address = ("127.0.0.1", free_port())
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        host, port = self.address
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(["redis-server", "--bind", host, "--port", str(port), "--save", ""],
                                            cwd=self.log.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
