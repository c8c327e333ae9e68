"""A cluster of compile servers with the fake compiler (tests/service/fake_backend.h). Every server,
the engine that they share and every host that uses them have a network namespace of their own."""

from __future__ import annotations

import collections
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from authority import Authority, caller_line
from child import Process
from engine import ENGINES
from eventually import wait_until
from network import Host, Network

from habana_frameworks.torch import native

BUILD = Path(__file__).parents[2] / "build/release/tests"
FAKE_SERVER = BUILD / "service/hpu_fake_compile_server"
CLIENT = BUILD / "cluster/hpu_cluster_client"
PORT = 8471
LOG_VARIABLE = "HPU_FAKE_COMPILE_LOG"


@dataclass(frozen=True)
class Outcome:
    """The result of one call of a client."""

    process: int
    program: int
    origin: str  # compiled, coalesced, store, miss or error
    right: bool  # whether the fake compiler makes this program from the graph
    error: str
    ms: float


class Server:
    """A compile server, shared or a user's daemon, in its folder."""

    def __init__(
        self,
        host: Host | None,
        folder: Path,
        options: list[str],
        *,
        binary: Path = FAKE_SERVER,
    ) -> None:
        self.host = host
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.options = options
        self.binary = binary
        self.environment: dict[str, str] = {}
        self.process: Process | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "run/server.sock"

    @property
    def public_key(self) -> Path:
        return self.folder / "store/signing.pub"

    def launch(self) -> None:
        """Starts it without waiting for anything."""
        command = [str(self.binary), "--cache-dir", str(self.folder)]
        command += ["--idle-timeout", "0", *self.options]
        self.process = Process(
            self.host.command(*command) if self.host else command,
            **{LOG_VARIABLE: str(self.folder / "compiles"), **self.environment},
        )

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        began = len(self.log())
        self.launch()
        ready = "listening to the network" if "--listen" in self.options else "server ready"
        wait_until(
            lambda: ready in self.log()[began:] or not self.running().alive,
            f"{self.folder} listens",
        )
        assert self.running().alive, self.log()[-2000:]

    def serves(self) -> bool:
        """Whether it is ready, by its files (docs/protocol.md)."""
        lock = Path(f"{self.socket}.lock")
        if not Path(f"{self.socket}.pub").exists():
            return False
        return lock.exists() and lock.read_text().split() == [str(self.running().pid), "serving"]

    def running(self) -> Process:
        assert self.process is not None
        return self.process

    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def compiled(self) -> list[str]:
        """The graphs that its compilers were asked to compile, which they wrote themselves."""
        path = self.folder / "compiles"
        return path.read_text().splitlines() if path.exists() else []

    def counters(self) -> dict[str, int]:
        return dict(native.client_module().CompileClient(str(self.socket)).stats())

    def build_id(self) -> str:
        command = [str(self.binary), "--print-build-id"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def call(self, **options: object) -> list[Outcome]:
        """Options of a client on its own host, which uses its unix socket."""
        return run_clients(f"unix:{self.socket}", **options)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def restart(self) -> None:
        self.kill()
        self.start()


def client_command(server: str, **options: object) -> list[str]:
    """The options are those of hpu_cluster_client; True is a flag."""
    command = [str(CLIENT), "--server", server]
    for name, value in options.items():
        command.append(f"--{name.replace('_', '-')}")
        if value is not True:
            command.append(str(value))
    return command


def outcomes_of(text: str) -> list[Outcome]:
    return [Outcome(**json.loads(line)) for line in text.splitlines()]


def run_clients(server: str, *, host: Host | None = None, **options: object) -> list[Outcome]:
    command = client_command(server, **options)
    done = subprocess.run(
        host.command(*command) if host else command,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return outcomes_of(done.stdout)


class Cluster:
    """Started servers of one engine; close() ends everything."""

    def __init__(
        self, engine: str | type = "redis", servers: int = 3, *options: str, hedge: bool = False
    ) -> None:
        """Without `hedge`, servers and daemons wait for others as long as it takes: on a busy
        machine these may be late without being slow, and tests count compilations."""
        self.folder = Path(tempfile.mkdtemp(prefix="hpuc-"))  # short, for names of sockets
        self.network = Network()
        self.daemons: list[Server] = []
        self.authority = Authority(self.folder / "authority")
        self.keys = self.folder / "keys"
        self.keys.mkdir()
        self.tokens: dict[str, Path] = {}
        self.callers = self.folder / "callers"
        self.callers.write_text("")
        self.allow("worker", "team", "read,compile")
        make = ENGINES[engine] if isinstance(engine, str) else engine
        self.engine = make(self.network.host("engine"), self.folder / "engine")
        self.options = options
        self.hedge = hedge
        self.servers = [self._server(f"server{number}") for number in range(servers)]
        for server in self.servers:
            server.start()
        self.trust(self.servers)

    def allow(self, name: str, tenant: str, roles: str) -> Path:
        """Makes a caller and the file with its token."""
        path = self.folder / f"{name}.token"
        path.write_text(f"token of {name}\n")
        self.tokens[name] = path
        line = caller_line(name, tenant, roles, f"token of {name}")
        self.callers.write_text(self.callers.read_text() + line)
        return path

    def _server(self, name: str) -> Server:
        host = self.network.host(name)
        self.certify(name, host)
        options = ["--listen", f"tls://{host.address}:{PORT}", "--callers", str(self.callers)]
        options += ["--tls-certificate", str(self.authority.folder / f"{name}.pem")]
        options += ["--tls-key", str(self.authority.folder / f"{name}.key")]
        options += ["--trusted-keys", str(self.keys), *self.engine.server_options(), *self.options]
        options += [] if self.hedge else ["--engine-hedge", "0"]
        return Server(host, self.folder / name, options)

    def certify(self, name: str, host: Host, days: int = 3650) -> None:
        """Replaces the certificate of a server, by an expired one if days < 0."""
        self.authority.issue(name, f"IP:{host.address},DNS:{name}.test", days=days)

    def trust(self, servers: list[Server]) -> None:
        """Makes all servers trust these keys; they look for new keys each second."""
        for server in servers:
            shutil.copy(server.public_key, self.keys / f"{server.folder.name}.pub")
        wanted = len(list(self.keys.glob("*.pub"))) * 32
        for server in self.servers:
            published = Path(f"{server.socket}.pub")
            wait_until(lambda path=published: path.stat().st_size >= wanted, "keys are believed")
        self.keyring.write_bytes(b"".join(p.read_bytes() for p in sorted(self.keys.glob("*.pub"))))

    @property
    def keyring(self) -> Path:
        return self.folder / "keyring"

    def addresses(self, first: int = 0) -> str:
        order = self.servers[first:] + self.servers[:first]
        return ",".join(f"tls://{s.host.address}:{PORT}" for s in order if s.host)

    def access(self, caller: str = "worker") -> dict[str, object]:
        """Returns the options of a client that is this caller."""
        return {
            "ca": self.authority.ca,
            "token": self.tokens[caller],
            "keyring": self.keyring,
        }

    def call(self, **options: object) -> list[Outcome]:
        """Runs clients on a host of their own, over the network and without a daemon."""
        server = str(options.pop("server", self.addresses()))
        return run_clients(server, host=self.client_host(), **{**self.access(), **options})

    def client_host(self) -> Host:
        for host in self.network.hosts:
            if host.name == "clients":
                return host
        return self.network.host("clients")

    def daemon(
        self,
        *,
        first: int = 0,
        addresses: str = "",
        token: Path | None = None,
        host: Host | None = None,
        binary: Path = FAKE_SERVER,
    ) -> Server:
        """Starts a daemon that asks the servers, on a host of its own unless one is given."""
        name = f"host{len(self.daemons)}"
        options = ["--upstream", addresses or self.addresses(first)]
        options += ["--upstream-ca", str(self.authority.ca), "--trusted-keys", str(self.keys)]
        options += ["--upstream-token", str(token or self.tokens["worker"])]
        options += [] if self.hedge else ["--upstream-hedge", "0"]
        made = Server(host or self.network.host(name), self.folder / name, options, binary=binary)
        self.daemons.append(made)
        made.start()
        return made

    def compiled(self) -> collections.Counter[str]:
        """Returns how often each program was compiled, on all servers and daemons."""
        return collections.Counter(
            line for server in [*self.servers, *self.daemons] for line in server.compiled()
        )

    def total(self, counter: str) -> int:
        return sum(s.counters()[counter] for s in self.servers if s.running().alive)

    def settle(self) -> None:
        """Waits until everything that servers write in the background is written."""
        wait_until(lambda: self.total("shared.waiting_writes") == 0, "writes reach the engine")

    def close(self) -> None:
        for server in [*self.daemons, *self.servers]:
            server.kill()
        self.engine.close()
        self.network.close()
        if "HPU_KEEP_CLUSTER" not in os.environ:
            shutil.rmtree(self.folder, ignore_errors=True)
