"""A client that behaves as drivers do: a connection to each node, the next node when one is lost, one retry of what failed.

Its statements are idempotent, so all of them may be sent again. Direct clients and those of a proxy follow the same rule."""

from __future__ import annotations

import dataclasses
import struct
import time

import wire

# What a driver waits for an answer, and for a connection.
ANSWER_SECONDS, CONNECT_SECONDS = 10.0, 5.0
ONE, QUORUM, ALL, LOCAL_QUORUM = 0x0001, 0x0004, 0x0005, 0x0006
OVERLOADED, UNPREPARED = 0x1001, 0x2500
# A node whose cache is full may forget a statement at once.
PREPARES_MAX = 5
GLOBAL_TABLE, HAS_MORE_PAGES, NO_METADATA = 0x1, 0x2, 0x4

Address = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class Statement:
    """A text with a `?` for each value. It is prepared, or sent with its values in the text."""

    text: str
    values: tuple[int | str, ...]
    consistency: int
    prepared: bool = False

    def literal(self) -> str:
        pieces = self.text.split("?")
        values = [str(value) if isinstance(value, int) else f"'{value}'" for value in self.values]
        return "".join(piece + value for piece, value in zip(pieces, [*values, ""]))


@dataclasses.dataclass(frozen=True)
class Failure:
    """Of one attempt: an error frame, or (without a code) no answer or a lost connection."""

    code: int | None
    text: str

    @property
    def is_ours(self) -> bool:
        return self.text.startswith("narrows:")

    @property
    def is_not_forwarded(self) -> bool:
        """A refusal before anything was done, by the proxy's own word."""
        return self.code == OVERLOADED and self.is_ours

    def __str__(self) -> str:
        return f"0x{self.code:04X} {self.text}" if self.code is not None else self.text


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The body of a RESULT, if there is one, and what went wrong on the way."""

    body: bytes | None
    failures: tuple[Failure, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return self.body is not None


class Lost(Exception):
    """The connection is gone, or cannot be made."""


class Silent(Exception):
    """No answer in time."""


class Refused(Exception):
    """An error frame."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.failure = Failure(code, text)


class Connection:
    def __init__(self, address: Address) -> None:
        self.ids: dict[str, bytes] = {}
        try:
            self.client = wire.Client(*address, timeout=CONNECT_SECONDS)
        except OSError as error:
            raise Lost(f"no connection: {error!r}") from None
        try:
            opcode, body = self.client.start()
        except OSError as error:
            self.close()
            raise Lost(f"no connection: {error!r}") from None
        if opcode == wire.ERROR:
            self.close()
            raise Lost("no connection: 0x{:04X} {}".format(*wire.error_of(body)))
        self.client.stream.settimeout(ANSWER_SECONDS)

    def ask(self, opcode: int, body: bytes) -> bytes:
        try:
            answer, body = self.client.ask(opcode, body)
        except TimeoutError:
            raise Silent(f"no answer within {ANSWER_SECONDS:.0f} s") from None
        except OSError as error:
            raise Lost(f"connection lost: {error!r}") from None
        if answer == wire.ERROR:
            raise Refused(*wire.error_of(body))
        return body

    def run(self, statement: Statement) -> bytes:
        if not statement.prepared:
            return self.ask(wire.QUERY, wire.query_body(statement.literal(), statement.consistency))
        for attempt in range(PREPARES_MAX):
            try:
                return self.ask(wire.EXECUTE, self.execute_body(statement))
            except Refused as refused:
                if refused.failure.code != UNPREPARED or attempt + 1 == PREPARES_MAX:
                    raise
                del self.ids[statement.text]
        raise AssertionError("the last attempt returns or raises")

    def execute_body(self, statement: Statement) -> bytes:
        if statement.text not in self.ids:
            text = statement.text.encode()
            prepared = self.ask(wire.PREPARE, struct.pack(">i", len(text)) + text)
            [length] = struct.unpack(">H", prepared[4:6])
            self.ids[statement.text] = prepared[4:6 + length]
        values = b"".join(map(value_bytes, statement.values))
        flags, count = 0x01, len(statement.values)
        return self.ids[statement.text] + struct.pack(">HBH", statement.consistency, flags, count) + values

    def close(self) -> None:
        self.client.close()


def value_bytes(value: int | str) -> bytes:
    data = struct.pack(">i", value) if isinstance(value, int) else value.encode()
    return struct.pack(">i", len(data)) + data


class Line:
    """To nodes, or to a proxy that stands for as many. One thread uses it."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = addresses
        self.connections: dict[int, Connection] = {}
        self.at = 0

    def run(self, statement: Statement) -> Outcome:
        """An error or a silence is retried once, a lost connection as often as there are nodes."""
        began, failures, lost, retries = time.monotonic(), [], 0, 1
        while True:
            try:
                body = self.connection().run(statement)
                return Outcome(body, tuple(failures), time.monotonic() - began)
            except Refused as refused:
                failures.append(refused.failure)
                retries -= 1
            except Silent as silent:
                failures.append(Failure(None, str(silent)))
                retries -= 1
                self.drop()
            except Lost as gone:
                failures.append(Failure(None, str(gone)))
                lost += 1
                self.drop()
            if retries < 0 or lost == len(self.addresses):
                return Outcome(None, tuple(failures), time.monotonic() - began)
            self.at = (self.at + 1) % len(self.addresses)

    def connection(self) -> Connection:
        if self.at not in self.connections:
            self.connections[self.at] = Connection(self.addresses[self.at])
        return self.connections[self.at]

    def drop(self) -> None:
        if connection := self.connections.pop(self.at, None):
            connection.close()

    def go_home(self) -> None:
        """Back to the first node, as a driver goes when it hears that the node is up."""
        self.at = 0

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()


def rows(body: bytes) -> list[tuple[int, str]]:
    """Of a reply with the columns `c int, v text` on one page, which all reads here ask for."""
    reader = Reader(body)
    assert reader.int() == 2, "a reply with rows"
    flags, columns = reader.int(), reader.int()
    assert columns == 2 and not flags & (HAS_MORE_PAGES | NO_METADATA), f"flags {flags}, {columns} columns"
    names = 2 if flags & GLOBAL_TABLE else 0
    for _ in range(names):
        reader.string()
    for _ in range(columns):
        for _ in range(1 if names else 3):
            reader.string()
        reader.take(2)
    found = []
    for _ in range(reader.int()):
        clustering, value = reader.bytes(), reader.bytes()
        found.append((struct.unpack(">i", clustering)[0], value.decode()))
    return found


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length:self.at]

    def int(self) -> int:
        return struct.unpack(">i", self.take(4))[0]

    def string(self) -> bytes:
        return self.take(struct.unpack(">H", self.take(2))[0])

    def bytes(self) -> bytes:
        return self.take(self.int())
