"""The smallest CQL client that can tell whether a node serves: raw protocol v4 frames, no driver to depend on."""

from __future__ import annotations

import socket
import ssl
import struct

VERSION = 4
ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED, QUERY, RESULT, AUTH_RESPONSE, AUTH_SUCCESS = (
    0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x07, 0x08, 0x0F, 0x10)
CONSISTENCY_ONE, CONSISTENCY_ALL = 0x0001, 0x0005
ROWS = 2
GLOBAL_TABLES_SPEC, HAS_MORE_PAGES = 0x0001, 0x0002


class NotServing(Exception):
    """The node does not answer as it should (yet)."""


class CqlPing:
    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None, timeout_seconds: float = 5) -> None:
        try:
            stream = socket.create_connection(address, timeout=timeout_seconds)
            self.stream = tls.wrap_socket(stream, server_hostname=address[0]) if tls else stream
        except OSError as error:
            raise NotServing(f"cannot connect: {error}") from error

    def __enter__(self) -> CqlPing:
        return self

    def __exit__(self, *_) -> None:
        self.stream.close()

    def handshake(self, user: str, password: str) -> None:
        """OPTIONS, STARTUP, and a login when the node asks for one."""
        self.expect(self.request(OPTIONS, b""), SUPPORTED)
        opcode, body = self.request(STARTUP, struct.pack(">H", 1) + string("CQL_VERSION") + string("3.0.0"))
        if opcode == AUTHENTICATE:
            token = f"\0{user}\0{password}".encode()
            self.expect(self.request(AUTH_RESPONSE, struct.pack(">i", len(token)) + token), AUTH_SUCCESS)
        else:
            self.expect((opcode, body), READY)

    def query(self, cql: str, consistency: int = CONSISTENCY_ONE) -> list[list[bytes | None]]:
        """Rows of undecoded values. The columns asked for must be of simple types."""
        text = cql.encode()
        body = struct.pack(">i", len(text)) + text + struct.pack(">HB", consistency, 0)
        return read_rows(Cursor(self.expect(self.request(QUERY, body), RESULT)))

    def request(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        try:
            self.stream.sendall(struct.pack(">BBhBi", VERSION, 0, 0, opcode, len(body)) + body)
            _, _, _, answer, length = struct.unpack(">BBhBi", self.read(9))
            return answer, self.read(length)
        except OSError as error:
            raise NotServing(f"connection lost: {error}") from error

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = self.stream.recv(length - len(data))
            if not piece:
                raise NotServing("connection closed by the node")
            data += piece
        return data

    @staticmethod
    def expect(answer: tuple[int, bytes], opcode: int) -> bytes:
        if answer[0] == ERROR:
            cursor = Cursor(answer[1])
            code = cursor.number(">i")
            raise NotServing(f"error {code:#06x}: {cursor.string()}")
        if answer[0] != opcode:
            raise NotServing(f"opcode {answer[0]:#04x} instead of {opcode:#04x}")
        return answer[1]


class Cursor:
    """Reads the protocol's notations one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, length: int) -> bytes:
        self.position += length
        return self.data[self.position - length : self.position]

    def number(self, layout: str) -> int:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def string(self) -> str:
        return self.take(self.number(">H")).decode()

    def value(self) -> bytes | None:
        length = self.number(">i")
        return None if length < 0 else self.take(length)


def string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def read_rows(cursor: Cursor) -> list[list[bytes | None]]:
    """native_protocol_v4 §4.2.5.2, for columns whose type option carries nothing further."""
    if cursor.number(">i") != ROWS:
        return []
    flags, columns = cursor.number(">i"), cursor.number(">i")
    if flags & HAS_MORE_PAGES:
        cursor.value()
    if flags & GLOBAL_TABLES_SPEC:
        cursor.string(), cursor.string()
    for _ in range(columns):
        if not flags & GLOBAL_TABLES_SPEC:
            cursor.string(), cursor.string()
        cursor.string(), cursor.number(">H")
    return [[cursor.value() for _ in range(columns)] for _ in range(cursor.number(">i"))]
