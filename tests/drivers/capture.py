#!/usr/bin/env python3
"""Records what each driver program and Cassandra say to each other, for tests/decoder. `make captures` runs it.

    capture.py --driver python,java --contact 127.0.9.1:9042 --out tests/decoder/captures

A recorder listens on the node's own address and another port, so that drivers that learn the address from system.local
come to it too. Each run of a program becomes one file; tests/decoder/README.md describes it.
"""
import argparse
import asyncio
import pathlib
import secrets
import struct
from collections import Counter

import programs

MAGIC = b"narrows capture 1\n"
PROGRAM_SECONDS = 300
HEADER_BYTES = 9
STARTUP, READY, AUTHENTICATE = 0x01, 0x02, 0x03
HANDSHAKE = (STARTUP, READY, AUTHENTICATE)
CLIENT, UPSTREAM = b">", b"<"

# What keeps the files small. A unit is a bare envelope, a segment, or all segments of one envelope.
UNIT_BYTES_MAX = 1536
# Units with the same opcode, the same flags and about the same length are alike; so many of them are kept.
ALIKE_BYTES, ALIKE_MAX = 16, 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default=",".join(programs.COMMAND), help="comma-separated (default: all)")
    parser.add_argument("--contact", default="127.0.9.1:9042", help="the only node of the cluster")
    parser.add_argument("--port", type=int, default=9142, help="where the recorder listens, on the address of the node")
    parser.add_argument("--dc", default="dc1")
    parser.add_argument("--out", type=pathlib.Path, default=programs.ROOT / "tests" / "decoder" / "captures")
    settings = parser.parse_args()
    settings.concurrent, settings.no_vector = 20, False
    return settings


class Connection:
    """One connection of a driver: knows how far the handshake is, and cuts both directions into units."""

    def __init__(self, number):
        self.number = number
        self.lz4 = False
        self.segments = {CLIENT: False, UPSTREAM: False}
        self.rest = {CLIENT: b"", UPSTREAM: b""}

    def units(self, direction, data):
        """Whole units, as (key, bytes): units with equal keys look alike."""
        self.rest[direction] += data
        while True:
            unit = self.segment(direction) if self.segments[direction] else self.envelope(direction)
            if unit is None:
                return
            length, key = unit
            raw, self.rest[direction] = self.rest[direction][:length], self.rest[direction][length:]
            yield (direction, *key, length // ALIKE_BYTES), raw

    def envelope(self, direction):
        data = self.rest[direction]
        if len(data) < HEADER_BYTES:
            return None
        version, opcode = data[0] & 0x7F, data[4]
        length = HEADER_BYTES + struct.unpack_from(">i", data, 5)[0]
        if len(data) < length:
            return None
        if opcode == STARTUP:
            self.lz4 = b"lz4" in data[:length].lower()
        if version == 5 and opcode in {CLIENT: (STARTUP,), UPSTREAM: (READY, AUTHENTICATE)}[direction]:
            self.segments[direction] = True
        return length, (opcode, data[1])

    def segment(self, direction):
        """One self-contained segment, or all segments of an envelope that needs several."""
        data, at, content = self.rest[direction], 0, b""
        head_bytes = 5 if self.lz4 else 3
        while True:
            if len(data) < at + head_bytes + 3:
                return None
            bits = int.from_bytes(data[at:at + head_bytes], "little")
            length, plain = bits & 0x1FFFF, (bits >> 17 & 0x1FFFF if self.lz4 else 0)
            begin, at = at + head_bytes + 3, at + head_bytes + 3 + length + 4
            if len(data) < at:
                return None
            if bits >> (34 if self.lz4 else 17) & 1:
                return at, self.first_of(data[begin:begin + length], plain)
            payload = data[begin:begin + length]
            content += lz4_block(payload) if plain else payload
            if len(content) >= HEADER_BYTES and len(content) >= HEADER_BYTES + struct.unpack_from(">i", content, 5)[0]:
                return at, (content[4], content[1])

    @staticmethod
    def first_of(payload, plain):
        """Opcode and flags of the first envelope of a segment; it does not matter for one that is left out."""
        if len(payload) > UNIT_BYTES_MAX:
            return None, None
        content = lz4_block(payload) if plain else payload
        return content[4], content[1]


def lz4_block(block):
    """Decompresses an LZ4 block; slow, and good enough for what is kept."""
    out, at = bytearray(), 0

    def length(nibble, at):
        if nibble == 15:
            more = 255
            while more == 255:
                more, at = block[at], at + 1
                nibble += more
        return nibble, at

    while at < len(block):
        token, at = block[at], at + 1
        literals, at = length(token >> 4, at)
        out += block[at:at + literals]
        at += literals
        if at < len(block):
            offset, at = int.from_bytes(block[at:at + 2], "little"), at + 2
            copied, at = length(token & 15, at)
            for _ in range(copied + 4):
                out.append(out[-offset])
    return bytes(out)


class Recorder:
    """Relays connections to the node, and keeps units that differ from what it has seen."""

    def __init__(self, contact, port):
        self.host, upstream_port = contact.rsplit(":", 1)
        self.upstream_port, self.port = int(upstream_port), port
        self.clear()

    def clear(self):
        self.kept, self.seen, self.connections = [], Counter(), 0

    async def accept(self, reader, writer):
        self.connections += 1
        connection = Connection(self.connections)
        upstream_reader, upstream_writer = await asyncio.open_connection(self.host, self.upstream_port)
        await asyncio.gather(self.relay(connection, CLIENT, reader, upstream_writer),
                             self.relay(connection, UPSTREAM, upstream_reader, writer))

    async def relay(self, connection, direction, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                for key, raw in connection.units(direction, data):
                    self.keep(connection, direction, key, raw)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def keep(self, connection, direction, key, raw):
        self.seen[key] += 1
        # Without its handshake nobody can tell how a connection is framed.
        is_handshake = key[1] in HANDSHAKE
        if is_handshake or self.seen[key] <= ALIKE_MAX and len(raw) <= UNIT_BYTES_MAX:
            self.kept.append((direction, connection.number, raw))

    def write(self, path):
        with open(path, "wb") as file:
            file.write(MAGIC)
            for direction, number, raw in self.kept:
                file.write(struct.pack(">cHI", direction, number, len(raw)) + raw)


async def run(driver, configuration, recorder, settings):
    """Runs a program to its end, which may be a failure: what was said until then is worth keeping too. Returns how it ended."""
    keyspace = f"capture_{driver.replace('-', '_')}_{secrets.token_hex(4)}"
    contacts = [f"{recorder.host}:{recorder.port}"]
    process = await asyncio.create_subprocess_exec(
        *map(str, programs.COMMAND[driver]), env=programs.environment(contacts, settings, keyspace, configuration),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    try:
        _, errors = await asyncio.wait_for(process.communicate(), PROGRAM_SECONDS)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
        errors = f"killed after {PROGRAM_SECONDS} s".encode()
    if process.returncode:
        programs.drop(settings.contact, keyspace)
        return f", failed: {errors.decode().strip().splitlines()[0][:200]}"
    return ""


async def main():
    settings = arguments()
    settings.out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(settings.contact, settings.port)
    server = await asyncio.start_server(recorder.accept, recorder.host, recorder.port)
    async with server:
        for driver in settings.driver.split(","):
            await asyncio.to_thread(programs.BUILD[driver])
            usual, more = programs.CONFIGURATIONS[driver]
            for configuration in usual + more:
                recorder.clear()
                end = await run(driver, configuration, recorder, settings)
                path = settings.out / f"{driver}-{configuration[0] or 'default'}-{configuration[1]}.capture"
                recorder.write(path)
                print(f"{path.name}: {recorder.connections} connections, {len(recorder.kept)} of {recorder.seen.total()} units, "
                      f"{path.stat().st_size} bytes{end}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
