"""A server on the engine's port that gives arbitrary answers. Run as a program: PORT FOLDER."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from child import Process
from network import Host

PORT = 6379
MODES = ["noise", "any reply", "foreign values", "claims", "endless", "silence", "closes", "locked"]


class HostileEngine:
    """Has the methods of engine.Redis that a cluster needs."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder
        folder.mkdir()
        self.set_mode("any reply")
        self.process = Process(
            host.command(sys.executable, Path(__file__), str(PORT), str(folder)),
            PYTHONPATH=":".join(sys.path),
        )

    def server_options(self) -> list[str]:
        return ["--redis", f"{self.host.address}:{PORT}"]

    def set_mode(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)

    def requests(self) -> int:
        path = self.folder / "requests"
        return path.stat().st_size if path.exists() else 0

    def close(self) -> None:
        self.process.kill()


class Answers:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = random.Random(7)
        self.values: list[bytes] = [b"x"]

    def _text(self, value: bytes) -> bytes:
        return b"$%d\r\n%s\r\n" % (len(value), value)

    def _any(self, depth: int = 0) -> bytes:
        kind = self.numbers.randrange(7 if depth < 3 else 5)
        if kind == 0:
            return b"+OK\r\n"
        if kind == 1:
            words = [b"ERR no", b"MOVED 1 127.0.0.1:1", b"READONLY x", b"NOSCRIPT x", b"ASK 1 a:b"]
            return b"-" + self.numbers.choice(words) + b"\r\n"
        if kind == 2:
            return b":%d\r\n" % self.numbers.randrange(-(1 << 63), 1 << 63)
        if kind == 3:
            return b"$-1\r\n"
        if kind == 4:
            return self._text(self.numbers.randbytes(self.numbers.randrange(300)))
        count = self.numbers.randrange(5)
        return b"*%d\r\n" % count + b"".join(self._any(depth + 1) for _ in range(count))

    def to(self, words: list[bytes]) -> bytes | None:
        """None: never."""
        mode = (self.folder / "mode").read_text()
        command = words[0].upper()
        if command == b"SET":
            self.values.append(words[2])
        if mode == "noise":
            return self.numbers.randbytes(self.numbers.randrange(1, 2000))
        if mode == "any reply":
            return self._any()
        if mode == "claims":
            return self.numbers.choice([b"$4000000000\r\nx", b"*2000000000\r\n", b"*1\r\n" * 2000])
        if mode == "endless":
            return b"$100000\r\n" + b"x" * self.numbers.randrange(1000)
        if mode == "silence":
            return None
        if mode == "closes":
            return b""
        if mode == "foreign values" and command in (b"GET", b"MGET"):
            chosen = [self._text(self.numbers.choice(self.values)) for _ in words[1:]]
            return chosen[0] if command == b"GET" else b"*%d\r\n" % len(chosen) + b"".join(chosen)
        if command in (b"EVAL", b"EVALSHA"):
            if mode == "locked":
                return b"*3\r\n:0\r\n" + self._text(b"7 nonce somebody") + b":-1\r\n"
            return b"*2\r\n:1\r\n" + self._text(b"7 " + words[-4] + b" me")
        if command == b"INFO":
            return self._text(b"role:master\r\nredis_version:7.0.0\r\ncluster_enabled:0\r\n")
        if command in (b"GET", b"MGET"):
            return b"$-1\r\n" if command == b"GET" else b"*1\r\n$-1\r\n"
        return b"+OK\r\n" if command in (b"SET", b"AUTH") else b":1\r\n"


async def _request(reader: asyncio.StreamReader) -> list[bytes]:
    words = []
    for _ in range(int((await reader.readline())[1:])):
        size = int((await reader.readline())[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words


async def _serve(port: int, folder: Path) -> None:
    answers = Answers(folder)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while words := await _request(reader):
                with (folder / "requests").open("ab") as file:
                    file.write(b".")
                answer = answers.to(words)
                if answer == b"":
                    break
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
        except (ValueError, OSError, asyncio.IncompleteReadError):
            pass  # the client had enough
        writer.close()

    async with await asyncio.start_server(handle, "0.0.0.0", port, limit=1 << 24) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))
