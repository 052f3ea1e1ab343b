"""Reads of single rows at a fixed rate, as a service makes them, in a process of their own; and how long each took.

A read that is due while the one before it has not been answered yet counts from when it was due, so that a stall is seen by
every read that it holds up."""

from __future__ import annotations

import bisect
import multiprocessing
import random
import struct
import threading
import time

from partition import KEYSPACE, Pipe
from progress import Progress
from wire import RESULT, Client, frame

TABLE = "fact"
KEYS, VALUE_BYTES = 10_000, 1000
CONNECTIONS, READS_PER_SECOND = 4, 400
CQL_PORT = 9042
PREPARE, EXECUTE = 0x09, 0x0A
LOCAL_ONE, WITH_VALUES_WITHOUT_METADATA = 0x000A, 0x01 | 0x02
STOP_SECONDS_MAX = 60


def load(session) -> None:
    session.execute(f"CREATE TABLE {KEYSPACE}.{TABLE} (k int PRIMARY KEY, v blob)")
    insert = session.prepare(f"INSERT INTO {KEYSPACE}.{TABLE} (k, v) VALUES (?, ?)")
    values, pipe = random.Random(KEYS), Pipe(session)
    for key in range(KEYS):
        pipe.send(insert, (key, values.randbytes(VALUE_BYTES)))
    pipe.finish()


class Latencies:
    """When each read was due, in seconds since 1970, and how many milliseconds it took; in the order of the former."""

    def __init__(self, reads: list[tuple[float, float]]) -> None:
        self.reads = sorted(reads)

    def between(self, began: float, ended: float) -> list[float]:
        first, behind = (bisect.bisect_left(self.reads, (moment,)) for moment in (began, ended))
        return [latency for _, latency in self.reads[first:behind]]


def percentiles(latencies: list[float]) -> dict:
    ordered = sorted(latencies)
    at = lambda share: ordered[int((len(ordered) - 1) * share)]
    return {"reads": len(ordered), "p50_ms": at(0.5), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": ordered[-1]}


class Reads:
    """The process that reads, from the outside."""

    def __init__(self, host: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.ours, theirs = context.Pipe()
        self.process = context.Process(target=read, args=(host, theirs), daemon=True)

    def __enter__(self) -> Reads:
        self.process.start()
        return self

    def __exit__(self, *_) -> None:
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()

    def wait(self, what: str, seconds: float) -> tuple[float, float]:
        """Lets reads pass; when that began and ended."""
        progress, began = Progress(what), time.time()
        while (passed := time.time() - began) < seconds:
            if not self.process.is_alive():
                raise SystemExit("the process that reads has ended, see above")
            progress.show(f"{100 * passed / seconds:.0f} %")
            time.sleep(0.5)
        progress.done(f"{seconds} s at {READS_PER_SECOND} a second")
        return began, time.time()

    def stop(self) -> Latencies:
        self.ours.send("stop")
        if not self.ours.poll(STOP_SECONDS_MAX):
            raise SystemExit("the process that reads does not answer")
        return Latencies(self.ours.recv())


def read(host: str, control) -> None:
    stop, found = threading.Event(), [[] for _ in range(CONNECTIONS)]
    threads = [threading.Thread(target=read_on_one, args=(host, number, stop, found[number]), daemon=True)
               for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    control.recv()
    stop.set()
    for thread in threads:
        thread.join()
    control.send([one for some in found for one in some])


def read_on_one(host: str, number: int, stop: threading.Event, found: list[tuple[float, float]]) -> None:
    client, keys = Client(host, CQL_PORT), random.Random(number)
    client.start()
    statement = prepare(client, f"SELECT k, v FROM {KEYSPACE}.{TABLE} WHERE k = ?")
    interval = CONNECTIONS / READS_PER_SECOND
    # The clock that does not jump, told as that of the others.
    offset = time.time() - time.monotonic()
    due = time.monotonic() + interval * number / CONNECTIONS
    while not stop.is_set():
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        began = time.monotonic() if wait > 0 else due
        opcode, _ = client.ask(EXECUTE, execute(statement, keys.randrange(KEYS)))
        if opcode != RESULT:
            raise SystemExit("a foreground read was refused")
        found.append((began + offset, (time.monotonic() - began) * 1000))
        due += interval


def prepare(client: Client, cql: str) -> bytes:
    """The id, with its length as the protocol writes it."""
    text = cql.encode()
    opcode, body = client.ask(PREPARE, struct.pack(">i", len(text)) + text)
    if opcode != RESULT:
        raise SystemExit("the foreground statement cannot be prepared")
    (length,) = struct.unpack(">H", body[4:6])
    return body[4:6 + length]


def execute(statement: bytes, key: int) -> bytes:
    return statement + struct.pack(">HBHii", LOCAL_ONE, WITH_VALUES_WITHOUT_METADATA, 1, 4, key)
