"""The driver scenario with PyPI cassandra-driver: one JSON line a step (see ../README.md)."""
import datetime
import decimal
import hashlib
import json
import os
import time
import uuid
from pathlib import Path

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import (DCAwareRoundRobinPolicy, TokenAwarePolicy,
                                WhiteListRoundRobinPolicy)
from cassandra.query import BatchStatement, BatchType, SimpleStatement, dict_factory
from cassandra.util import Date, Duration, Time, sortedset

CONTACTS = [(h, int(p)) for h, p in
            (c.rsplit(":", 1) for c in os.environ["DRIVER_CONTACTS"].split(","))]
DC = os.environ["DRIVER_DC"]
KEYSPACE = os.environ["DRIVER_KEYSPACE"]
PROTOCOL = os.environ.get("DRIVER_PROTOCOL")
COMPRESSION = os.environ.get("DRIVER_COMPRESSION", "none")
CONCURRENT = int(os.environ.get("DRIVER_CONCURRENT", "5000"))
VECTOR = os.environ.get("DRIVER_VECTOR", "1") == "1"
WIDE = os.environ.get("DRIVER_WIDE")
SCHEMA = [line for line in (Path(__file__).parent.parent / "schema.cql").read_text().splitlines()
          if line.startswith("CREATE") and (VECTOR or "vector<" not in line)]


def say(step, **facts):
    print(json.dumps({"step": step, **facts}, default=show), flush=True)


def show(value):
    """A stable text for what JSON cannot hold; sets have no order of their own."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "SortedSet":
        return sorted(value)
    if hasattr(value, "items"):
        return dict(sorted(value.items()))
    return str(value)


def plain(value):
    """Driver values as JSON values; named tuples (user types) become objects."""
    if hasattr(value, "_asdict"):
        return {k: plain(v) for k, v in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "items"):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    return show(value)


def cluster(policy=None):
    settings = {"protocol_version": int(PROTOCOL)} if PROTOCOL else {}
    if COMPRESSION != "default":
        settings["compression"] = False if COMPRESSION == "none" else COMPRESSION
    policy = policy or TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=DC), shuffle_replicas=False)
    profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=60,
                               consistency_level=ConsistencyLevel.LOCAL_ONE, row_factory=dict_factory)
    return Cluster(CONTACTS, port=CONTACTS[0][1], execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                   schema_event_refresh_window=0, max_schema_agreement_wait=30, connect_timeout=15,
                   control_connection_timeout=15, **settings)


def eventually(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


def connect(main, session):
    connection = main.control_connection._connection
    row = session.execute("SELECT cluster_name, partitioner, release_version FROM system.local").one()
    say("connect", protocol=main.protocol_version, compression=connection._compression_type
        if connection.compressor or connection.decompressor else None, **row)


def hosts(main, session):
    local = session.execute("SELECT * FROM system.local WHERE key = 'local'").one()
    peers = session.execute("SELECT * FROM system.peers")
    say("system", local_columns=sorted(local), peers_columns=sorted(peers.column_names),
        peers_v2_columns=sorted(session.execute("SELECT * FROM system.peers_v2").column_names))
    say("hosts", topology=True, hosts=len(main.metadata.all_hosts()), peers=len(list(peers)),
        addresses=sorted(h.address for h in main.metadata.all_hosts()))


def schema(session):
    future = session.execute_async(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'NetworkTopologyStrategy', '{DC}': 1}}")
    future.result()
    agreed = [future.is_schema_agreed]
    session.execute(f"USE {KEYSPACE}")
    say("keyspace", session_keyspace=session.keyspace)
    used = []
    for statement in SCHEMA:
        future = session.execute_async(statement)
        future.result()
        agreed.append(future.is_schema_agreed)
        if statement.startswith("CREATE TABLE"):
            table = statement.split()[2]
            used.append([table, len(list(session.execute(f"SELECT * FROM {table}")))])
    say("schema", agreed=agreed, used_at_once=used)


def prepare(session, other):
    insert = session.prepare("INSERT INTO pairs (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT k, v FROM pairs WHERE k = ?")
    for k in range(10):
        other.execute(insert, (k, f"value {k}"))
    say("prepare", rows=[other.execute(select, (k,)).one() for k in range(10)])
    named = session.prepare("INSERT INTO pairs (k, v) VALUES (:key, :value)")
    session.execute(named, {"value": "by name", "key": 10})
    say("named", row=session.execute(select, (10,)).one())


def paging(session):
    insert = session.prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)")
    for pk in (1, 2):
        for ck in range(10):
            session.execute(insert, (pk, ck, f"{pk}/{ck} " + "x" * 100))
    select = session.prepare("SELECT pk, ck, v FROM pages WHERE pk = ?")
    for size in (1, 3, 7, 50):
        select.fetch_size = size
        result, pages, rows = session.execute(select, (1,)), [], []
        while True:
            pages.append(len(result.current_rows))
            rows += result.current_rows
            if not result.has_more_pages:
                break
            result = session.execute(select, (1,), paging_state=result.paging_state)
        scan = session.execute(SimpleStatement("SELECT pk, ck FROM pages", fetch_size=size))
        say("paging", size=size, pages=pages, rows=rows, scanned=list(scan))


def batches(session):
    insert = session.prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)")
    count = session.prepare("UPDATE counts SET n = n + ? WHERE k = ?")
    for kind, pk in ((BatchType.LOGGED, 100), (BatchType.UNLOGGED, 101)):
        batch = BatchStatement(kind)
        batch.add(insert, (pk, 1, "prepared"))
        batch.add(SimpleStatement("INSERT INTO pages (pk, ck, v) VALUES (%s, %s, %s)"), (pk, 2, "simple"))
        batch.add(insert, (pk, 3, None))
        session.execute(batch)
        rows = session.execute("SELECT * FROM pages WHERE pk = %s", (pk,))
        say("batch", kind=str(kind), rows=list(rows))
    batch = BatchStatement(BatchType.COUNTER)
    batch.add(count, (5, "a"))
    batch.add(SimpleStatement("UPDATE counts SET n = n - 2 WHERE k = 'b'"))
    session.execute(batch)
    say("batch", kind="COUNTER", rows=sorted(([r["k"], r["n"]] for r in session.execute("SELECT * FROM counts"))))


def kinds():
    """Three rows of every type: ordinary values, nulls, and empty or extreme values."""
    day = datetime.date(2024, 2, 29)
    ordinary = ["ascii", 2**40, b"\x00\xff", True, Date(day), decimal.Decimal("12345.6789"), 2.5,
                Duration(14, 3, 5_000_000_000), 1.5, "192.168.1.9", 42, 7, "grüße ✓", Time(3_600_000_000_001),
                datetime.datetime(2024, 2, 29, 12, 30, 15, 123000),
                uuid.UUID("2b3bfe00-d6f5-11ee-8000-0123456789ab"), 5,
                uuid.UUID("6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0ff"), 2**80, [3, 1, 2], {"b", "a"},
                {"one": 1, "two": 2}, {"x": [1, 2], "y": []}, (1, "two", False),
                ("Main St", 12345, sortedset(["s", "t"])), ("Side St", None, None)]
    extreme = ["", -2**63, b"", False, Date(0), decimal.Decimal("-1E-20"), -1e300, Duration(-1, -2, -3), -0.5,
               "2001:db8::1", -2**31, -2**15, "", Time(0), datetime.datetime(1960, 1, 1),
               uuid.UUID("00000000-0000-1000-8080-808080808080"), -128, uuid.UUID(int=0), -(2**127) - 1,
               [], set(), {}, {}, (None, None, None), (None, None, None), ("", 0, set())]
    return [ordinary, [None] * len(ordinary), extreme]


def types(session):
    columns = [c.split()[0] for c in SCHEMA[4].split(", c_")[1:]]
    marks = ", ".join("?" * (len(columns) + 1))
    insert = session.prepare(f"INSERT INTO kinds (id, {', '.join('c_' + c for c in columns)}) VALUES ({marks})")
    select = session.prepare("SELECT * FROM kinds WHERE id = ?")
    for number, values in enumerate(kinds()):
        session.execute(insert, [number, *values])
        row = session.execute(select, (number,)).one()
        text = session.execute("SELECT JSON * FROM kinds WHERE id = %s", (number,)).one()
        say("types", row={k: plain(v) for k, v in row.items()}, json=text["[json]"])
    if VECTOR:
        session.execute(session.prepare("INSERT INTO vectors (id, v) VALUES (?, ?)"), (1, [1.5, -2.25, 0.0]))
        say("vector", rows=[[r["id"], plain(list(r["v"]))] for r in session.execute("SELECT * FROM vectors")])


def extras(session):
    future = session.execute_async("SELECT v FROM pairs WHERE k = 1", trace=True)
    rows = list(future.result())
    trace = future.get_query_trace(max_wait=20)
    # Cassandra writes the events of a trace apart from its end.
    deadline = time.monotonic() + 20
    while not trace.events and time.monotonic() < deadline:
        time.sleep(0.1)
        trace.populate(max_wait=20)
    say("tracing", ids=len(future.get_query_trace_ids()), rows=rows, request=trace.request_type,
        query=trace.parameters.get("query"), has_events=len(trace.events) > 0)
    batch = BatchStatement(BatchType.UNLOGGED)
    insert = session.prepare("INSERT INTO pages (pk, ck, v) VALUES (?, ?, ?)")
    for pk in range(1000, 1020):
        batch.add(insert, (pk, 0, "wide"))
    for name, statement in (("batch", batch), ("aggregate", "SELECT count(*) FROM pairs")):
        future = session.execute_async(statement)
        rows = list(future.result())
        say("warning", of=name, warnings=future.warnings, rows=rows)
    if session.cluster.protocol_version >= 4:
        future = session.execute_async("SELECT v FROM pairs WHERE k = 1", custom_payload={"narrows": b"\x01\x02"})
        say("payload", rows=list(future.result()), returned=future.custom_payload)


def errors(session):
    for name, action in {
        "syntax": lambda: session.execute("SELEKT nothing"),
        "unknown table": lambda: session.execute("SELECT * FROM no_such_table"),
        "unknown table prepared": lambda: session.prepare("SELECT * FROM no_such_table WHERE k = ?"),
        "unknown keyspace": lambda: session.execute("USE no_such_keyspace_at_all"),
        "table exists": lambda: session.execute(SCHEMA[1]),
        "wrong type": lambda: session.execute("INSERT INTO pairs (k, v) VALUES ('text', 1)"),
    }.items():
        try:
            action()
            say("error", of=name, error=None)
        except Exception as error:  # every kind is printed, so nothing is hidden by the wide net
            say("error", of=name, kind=type(error).__name__, message=str(error))


def lwt(session):
    insert = session.prepare("INSERT INTO pairs (k, v) VALUES (?, ?) IF NOT EXISTS")
    for value in ("first", "second"):
        result = session.execute(insert, (500, value))
        say("lwt", applied=result.was_applied, row=result.one())
    result = session.execute("UPDATE pairs SET v = 'third' WHERE k = 500 IF v = 'first'")
    say("lwt", applied=result.was_applied, row=result.one())


def events(main):
    """Another cluster object makes the changes, so only pushed events can tell the first one."""
    tables = lambda: main.metadata.keyspaces[KEYSPACE].tables
    second = cluster()
    ddl = second.connect(KEYSPACE)
    ddl.execute("CREATE TABLE event_seen (k int PRIMARY KEY)")
    created = eventually(lambda: "event_seen" in tables())
    ddl.execute("ALTER TABLE event_seen ADD extra text")
    altered = eventually(lambda: "extra" in tables()["event_seen"].columns)
    ddl.execute("DROP TABLE event_seen")
    dropped = eventually(lambda: "event_seen" not in tables())
    second.shutdown()
    say("events", created=created, altered=altered, dropped=dropped)


def concurrent():
    """One node, one data connection, every request in flight at once."""
    one = cluster(WhiteListRoundRobinPolicy([CONTACTS[0][0]]))
    session = one.connect(KEYSPACE)
    insert = session.prepare("INSERT INTO pairs (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT k, v FROM pairs WHERE k = ?")
    keys = range(10_000, 10_000 + CONCURRENT)
    execute_concurrent_with_args(session, insert, [(k, f"many {k}") for k in keys], concurrency=CONCURRENT)
    found = execute_concurrent_with_args(session, select, [(k,) for k in keys], concurrency=CONCURRENT)
    right = sum(r.result_or_exc.one() == {"k": k, "v": f"many {k}"} for k, r in zip(keys, found))
    connections = sum(pool["open_count"] for pool in session.get_pool_state().values())
    say("concurrent", requests=CONCURRENT, right=right, connections=connections)
    one.shutdown()


def spread(session):
    select = session.prepare("SELECT v FROM pairs WHERE k = ?")
    answered = {}
    for k in range(60):
        future = session.execute_async(select, (k,))
        future.result()
        answered[future.coordinator_host.address] = answered.get(future.coordinator_host.address, 0) + 1
    say("spread", topology=True, answered=dict(sorted(answered.items())))


def wide(session):
    """One partition with the driver's own paging, forwards and backwards."""
    for size in (5000, 999):
        for order in ("ASC", "DESC"):
            select = session.prepare(f"SELECT ck, n, v FROM {WIDE} WHERE pk = ? ORDER BY ck {order}")
            select.fetch_size = size
            digest, rows = hashlib.sha256(), 0
            for row in session.execute(select, ("wide",)):
                digest.update(f"{row['ck']},{row['n']},{row['v']}\n".encode())
                rows += 1
            say("wide", size=size, order=order, rows=rows, digest=digest.hexdigest())


def main():
    if WIDE:
        one = cluster()
        wide(one.connect())
        one.shutdown()
        return say("end")
    first = cluster()
    session = first.connect()
    connect(first, session)
    try:
        schema(session)
        other = first.connect(KEYSPACE)
        hosts(first, session)
        prepare(session, other)
        paging(session)
        batches(session)
        types(session)
        extras(session)
        errors(session)
        lwt(session)
        events(first)
        spread(session)
        concurrent()
    finally:
        session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        first.shutdown()
    say("end")


main()
