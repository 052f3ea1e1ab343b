"""Part of `make demo`: the same statements on Cassandra and on Narrows, and what came back side by side."""

import datetime
import pathlib
import sys
import time

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import RoundRobinPolicy
from cassandra.query import SimpleStatement

SCHEMA = pathlib.Path("cql/examples/legacy.cql")
ROWS = 2_000
DAY = datetime.date(2026, 11, 16)
CASSANDRA = ("127.0.9.1", 9042)
NARROWS = ("127.0.0.1", 9142)


def connect(address):
    host, port = address
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy())
    cluster = Cluster([host], port=port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    return cluster, cluster.connect()


def apply_schema(session):
    text = "\n".join(line for line in SCHEMA.read_text().splitlines() if not line.startswith("--"))
    for statement in filter(str.strip, text.split(";")):
        session.execute(statement)


def load(session):
    insert = session.prepare("INSERT INTO plant.reading (sensor, day, ts, value, note) VALUES (?, ?, ?, ?, ?)")
    start = datetime.datetime.combine(DAY, datetime.time())
    rows = [("pump-7", DAY, start + datetime.timedelta(seconds=n), n / 10, f"reading {n}") for n in range(ROWS)]
    results = execute_concurrent_with_args(session, insert, rows, concurrency=32, results_generator=True)
    for number, _ in enumerate(results, start=1):
        show_progress(number)


def show_progress(number):
    if sys.stdout.isatty() and number % 20 == 0:
        done = number * 40 // ROWS
        print(f"\r  writing through Narrows  [{'█' * done}{'·' * (40 - done)}] {number}/{ROWS}", end="", flush=True)
    if number == ROWS:
        print(f"\r  {ROWS} rows written through Narrows{' ' * 50}")


def observe(address):
    """What an application sees: each answer with the time it took."""
    cluster, session = connect(address)
    seen = {}

    def timed(name, work):
        begin = time.perf_counter()
        seen[name] = (work(), (time.perf_counter() - begin) * 1000)

    one = session.prepare("SELECT value FROM plant.reading WHERE sensor = ? AND day = ? AND ts = ?")
    noon = datetime.datetime.combine(DAY, datetime.time(0, 20))
    page = SimpleStatement(f"SELECT * FROM plant.reading WHERE sensor='pump-7' AND day='{DAY}'", fetch_size=500)
    timed("one prepared row", lambda: session.execute(one, ("pump-7", DAY, noon)).one().value)
    timed("all rows, pages of 500", lambda: sum(1 for _ in session.execute(page)))
    timed("count(*)", lambda: session.execute(
        f"SELECT count(*) FROM plant.reading WHERE sensor='pump-7' AND day='{DAY}'").one()[0])
    nodes = ", ".join(str(host.endpoint) for host in cluster.metadata.all_hosts())
    cluster.shutdown()
    return seen, nodes


def main():
    cluster, session = connect(NARROWS)
    apply_schema(session)
    load(session)
    cluster.shutdown()
    (direct, real), (through, presented) = observe(CASSANDRA), observe(NARROWS)
    print(f"\n  {'':<24}{'direct':>24}{'through Narrows':>24}")
    for name in direct:
        cells = [f"{answer}  {took:6.1f} ms" for answer, took in (direct[name], through[name])]
        print(f"  {name:<24}{cells[0]:>24}{cells[1]:>24}")
    print(f"  {'nodes the driver sees':<24}{real:>24}{presented:>24}")
    differing = [name for name in direct if direct[name][0] != through[name][0]]
    if differing:
        raise SystemExit(f"  answers differ: {differing}")
    print("\n  Every answer is the same; only the node's address is Narrows' own.")


main()
