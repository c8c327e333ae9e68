"""The engines that servers may share. A new one is a class with the methods of Redis and a row in
ENGINES: every test of the cluster then runs with it as well."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

from child import Process
from eventually import wait_until
from network import Host

PORT = 6379


class RedisError(Exception):
    pass


class Redis:
    """redis-server on a host; the test itself uses it over a unix socket."""

    name = "redis"
    port = PORT

    @staticmethod
    def why_none() -> str:
        missing = shutil.which("redis-server") is None
        return "no redis-server command: apt-get install redis-server" if missing else ""

    def __init__(self, host: Host, folder: Path, *options: str) -> None:
        self.host = host
        self.folder = folder
        folder.mkdir()
        self.options = options
        self.process: Process | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"

    def server_options(self) -> list[str]:
        """The options that make a compile server use it."""
        return ["--redis", self.address]

    def start(self) -> None:
        command = self.host.command("redis-server", "--bind", "0.0.0.0", "--port", str(self.port))
        command += ["--protected-mode", "no", "--save", "", "--dir", str(self.folder)]
        command += ["--unixsocket", str(self._socket), "--logfile", "redis.log", *self.options]
        self.process = Process(command)
        wait_until(self._answers, f"{self.address} answers")

    def _answers(self) -> bool:
        try:
            self.call("PING")
        except (OSError, RedisError):
            return False
        return True

    @property
    def _socket(self) -> Path:
        return self.folder / "redis.sock"

    def running(self) -> Process:
        assert self.process is not None
        return self.process

    def kill(self) -> None:
        self.running().kill()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()

    # Faults of the engine.

    def set_full(self, full: bool) -> None:
        self.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.call("CONFIG", "SET", "maxmemory", "1" if full else "0")

    def set_read_only(self, read_only: bool) -> None:
        """The state after a failover: a replica whose master is absent."""
        if read_only:
            self.call("REPLICAOF", "127.0.0.1", "1")
        else:
            self.call("REPLICAOF", "NO", "ONE")

    # The stored values.

    def objects(self, kind: str) -> list[bytes]:
        """The names of the stored objects of a class: manifests, aliases or blobs."""
        pattern = {"manifests": "hpu:m:*", "aliases": "hpu:a:*", "blobs": "hpu:b:*"}[kind]
        found = self.call("KEYS", pattern)
        assert isinstance(found, list)
        return sorted(found)

    def read(self, name: bytes) -> bytes:
        value = self.call("GET", name)
        assert isinstance(value, bytes)
        return value

    def write(self, name: bytes, value: bytes) -> None:
        self.call("SET", name, value)

    def clear(self) -> None:
        self.call("FLUSHALL")

    def hold_lease(self, named: bytes, seconds: int | None) -> None:
        """Gives the lease of this name to another server that does not exist; None: for ever."""
        name = b"{hpu:l}:" + named.rpartition(b":")[2]
        self.call("SET", name, "7 nonce nobody", *(("EX", str(seconds)) if seconds else ()))

    def memory(self) -> int:
        text = self.call("INFO", "memory")
        assert isinstance(text, bytes)
        return int(text.split(b"used_memory:")[1].split(b"\r")[0])

    def call(self, *words: str | bytes) -> object:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        request = b"*%d\r\n" % len(parts)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self._socket))
            connection.sendall(request)
            return _reply(connection.makefile("rb"))


def _reply(stream) -> object:
    line = stream.readline()
    kind, rest = line[:1], line[1:].rstrip()
    if kind == b"-":
        raise RedisError(rest.decode())
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [_reply(stream) for _ in range(int(rest))]
    return int(rest) if kind == b":" else rest


ENGINES = {Redis.name: Redis}


def redis_benchmark(engine: Redis, *arguments: str) -> str:
    """Runs redis-benchmark against its engine, on the same host."""
    command = ["redis-benchmark", "-s", str(engine.folder / "redis.sock"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
