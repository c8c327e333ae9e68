"""A stranger that uses a compile server's port without its client. Run as a program:
WHAT ADDRESS PORT CA TOKEN NUMBER. It prints "ready" and what it counted, and keeps open what it
opened until its standard input ends. "fuzz" goes on until then, and makes NUMBER connections at
least."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import struct
import sys
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SERVICE = "/hpu.wire.CompileService/"
METHODS = ["Hello", "GetProgram", "Compile", "GetStats", "List", "Shutdown", "None"]
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


def _text(value: bytes) -> bytes:
    """Encodes text for HPACK: 7-bit prefix, no Huffman code."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, size = len(value) - 127, b""
    while rest >= 128:
        size += bytes([rest % 128 + 128])
        rest //= 128
    return b"\x7f" + size + bytes([rest]) + value


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def call(method: str, message: bytes, token: str, stream: int, claimed: int | None = None) -> bytes:
    """Makes one gRPC call; `claimed` is the message's length as announced."""
    pairs = {
        ":method": "POST",
        ":scheme": "https",
        ":path": SERVICE + method,
        ":authority": "x",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    if token:
        pairs["authorization"] = f"Bearer {token}"
    block = b"".join(b"\0" + _text(k.encode()) + _text(v.encode()) for k, v in pairs.items())
    size = len(message) if claimed is None else claimed
    body = b"\0" + struct.pack("!I", size) + message
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body)


class Stranger:
    def __init__(self, address: str, port: str, ca: str, token: str) -> None:
        self.place = (address, int(port))
        self.context = ssl.create_default_context(cafile=ca)
        self.context.set_alpn_protocols(["h2"])
        self.token = Path(token).read_text().strip()

    def plain(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=60)

    def tls(self) -> ssl.SSLSocket:
        return self.context.wrap_socket(self.plain(), server_hostname=self.place[0])

    def fuzz(self, numbers: random.Random) -> None:
        """Opens one connection with something wrong."""
        kind = numbers.randrange(6)
        noise = numbers.randbytes(numbers.randrange(1, 4000))
        token = numbers.choice(["", "unknown", self.token])
        method = numbers.choice(METHODS)
        start = PREFACE + frame(SETTINGS, 0, 0, b"")
        with self.plain() if kind == 0 else self.tls() as connection:
            connection.settimeout(0.02)
            if kind in (0, 1):
                connection.sendall(noise)
            elif kind == 2:
                connection.sendall(PREFACE + noise)
            elif kind == 3:
                connection.sendall(start + call(method, noise, token, 1))
            elif kind == 4:
                claimed = numbers.choice([0, 1, len(noise) + 1, 1 << 31, (1 << 32) - 1])
                connection.sendall(start + call(method, noise, token, 1, claimed))
            else:
                whole = bytearray(start + call(method, noise, token, 1))
                for _ in range(numbers.randrange(1, 4)):
                    whole[numbers.randrange(len(PREFACE), len(whole))] ^= 1 << numbers.randrange(8)
                connection.sendall(whole[: numbers.randrange(len(PREFACE), len(whole) + 1)])
            connection.recv(4096)

    def slow_reader(self, key: bytes) -> ssl.SSLSocket:
        """Asks for a program as often as one connection may, and reads nothing."""
        connection = self.tls()
        window = frame(SETTINGS, 0, 0, struct.pack("!HI", 4, (1 << 31) - 1))
        request = b"\x0a\x20" + key
        calls = b"".join(call("GetProgram", request, self.token, 1 + 2 * i) for i in range(50))
        connection.sendall(PREFACE + window + calls)
        return connection


def _input_ends() -> bool:
    """Nothing is ever written to the standard input, so it is readable only at its end."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    what, *place, number = sys.argv[1:]
    stranger = Stranger(*place)
    opened: list[socket.socket] = []
    count = 0
    if what == "fuzz":
        numbers = random.Random(1)
        print("ready", flush=True)
        while count < int(number) or not _input_ends():
            with contextlib.suppress(OSError):  # the server has hung up, or says nothing
                stranger.fuzz(numbers)
            count += 1
    elif what == "connections":
        for _ in range(int(number)):
            opened.append(stranger.plain())
            count += 1
        print("ready", flush=True)
    else:
        key = bytes.fromhex(number)
        opened += [stranger.slow_reader(key) for _ in range(20)]
        print("ready", flush=True)
    sys.stdin.read()
    print(count, flush=True)


if __name__ == "__main__":
    main()
