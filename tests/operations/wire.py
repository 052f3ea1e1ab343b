"""Raw CQL frames of protocol v4, for what a driver would hide: exact error texts, idle sockets, answers cut off."""

from __future__ import annotations

import socket
import ssl
import struct
import threading

VERSION = 4
ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED, QUERY, RESULT, PREPARE, EXECUTE, AUTH_RESPONSE, AUTH_SUCCESS = (
    0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0F, 0x10)
CONSISTENCY_ONE = 0x0001
STARTUP_BODY = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"


def frame(opcode: int, body: bytes = b"", stream: int = 0, version: int = VERSION) -> bytes:
    return struct.pack(">BBhBi", version, 0, stream, opcode, len(body)) + body


def query_body(cql: str, consistency: int = CONSISTENCY_ONE) -> bytes:
    text = cql.encode()
    return struct.pack(">i", len(text)) + text + struct.pack(">HB", consistency, 0)


def error_of(body: bytes) -> tuple[int, str]:
    code, length = struct.unpack(">iH", body[:6])
    return code, body[6:6 + length].decode()


class Client:
    """One connection. `ask` waits for the answer; `send` and `receive` keep apart what a test wants apart."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None, timeout: float = 15.0) -> None:
        stream = socket.create_connection((host, port), timeout=timeout)
        self.stream = tls.wrap_socket(stream, server_hostname=host) if tls else stream

    def send(self, opcode: int, body: bytes = b"", stream: int = 0) -> None:
        self.stream.sendall(frame(opcode, body, stream))

    def receive(self) -> tuple[int, int, bytes]:
        """Stream, opcode, body."""
        _, _, stream, opcode, length = struct.unpack(">BBhBi", self.read(9))
        return stream, opcode, self.read(length)

    def ask(self, opcode: int, body: bytes = b"", stream: int = 0) -> tuple[int, bytes]:
        self.send(opcode, body, stream)
        return self.receive()[1:]

    def start(self, user: str = "", password: str = "") -> tuple[int, bytes]:
        """STARTUP, and a login when asked for one; the last answer."""
        opcode, body = self.ask(STARTUP, STARTUP_BODY)
        if opcode == AUTHENTICATE:
            token = f"\0{user}\0{password}".encode()
            return self.ask(AUTH_RESPONSE, struct.pack(">i", len(token)) + token)
        return opcode, body

    def query(self, cql: str) -> tuple[int, bytes]:
        return self.ask(QUERY, query_body(cql))

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = self.stream.recv(length - len(data))
            if not piece:
                raise ConnectionError(f"closed by the peer after {len(data)} of {length} bytes")
            data += piece
        return data

    def close(self) -> None:
        self.stream.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class FakeNode:
    """Answers every request with what `answer(opcode, body)` says, or hangs up when that raises ConnectionError.

    Only for what no real node at hand can show."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream: socket.socket) -> None:
        with stream, stream.makefile("rb") as requests:
            while header := requests.read(9):
                _, _, number, opcode, length = struct.unpack(">BBhBi", header)
                try:
                    answer, body = self.answer(opcode, requests.read(length))
                except ConnectionError:
                    return
                stream.sendall(frame(answer, body, number, VERSION | 0x80))

    def close(self) -> None:
        self.listener.close()
