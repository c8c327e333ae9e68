"""A cluster on one machine: compile servers that share a Redis engine, and hosts that use them.

Each host is a process of torch.compile with a cache folder and a daemon of its own; all compile the
same models. The table shows who compiled, who waited and who found; at the end each model was
compiled once. Needs redis-server (Debian's package) besides what ./dev build makes.

    ./dev python examples/cluster/cluster.py [--servers 3] [--hosts 8] [--models 4] [--json]

--namespaces (as root; Debian's iproute2 and openssl): each server, host and engine in a network
namespace with an address of its own, TLS between them. --buildgrid: programs lie in BuildGrid, a
cache of the Remote Execution API that is installed into build/ at the first time; Redis then keeps
the leases only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machines import Loopback, Machine, Machines, Namespaces
from rich.console import Console
from rich.live import Live
from rich.table import Table

from habana_frameworks.torch import native

_HOST = """
import sys, torch
import habana_frameworks.torch
for size in range(1, int(sys.argv[1]) + 1):
    torch.manual_seed(size)
    layers = torch.nn.Linear(8 * size, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)
    model = torch.nn.Sequential(*layers)
    x = torch.ones(2, 8 * size)
    with torch.no_grad():
        wanted = model(x)
        found = torch.compile(model.to("hpu"), backend="hpu_backend")(x.to("hpu")).cpu()
    assert torch.allclose(wanted, found, atol=1e-5), size
"""
# A program that ends when somebody listens at the address.
_CONNECT = """
import socket, sys, time
host, _, port = sys.argv[1].rpartition(":")
for _ in range(600):
    try:
        sys.exit(socket.create_connection((host, int(port)), timeout=1).close())
    except OSError:
        time.sleep(0.1)
sys.exit(f"nobody listens at {sys.argv[1]}")
"""
_BUILDGRID = Path(__file__).resolve().parents[2] / "tests/store/buildgrid.py"
_COLUMNS = {
    "compiled": "compile.compiled",
    "waited for another": "lease.waited",
    "from the engine": "shared.hits",
    "requests": "compile.requests",
}


def _wait(path: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or text not in path.read_text():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} does not say {text!r}")
        time.sleep(0.02)


class Cluster:
    """All servers and hosts, with their files under one folder. close() ends them."""

    def __init__(self, folder: Path, servers: int, machines: Machines, buildgrid: bool) -> None:
        self.folder = folder
        self.machines = machines
        self.keys = folder / "keys"
        self.keys.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []
        engine = machines.machine("engine")
        self.redis = f"{engine.address}:{machines.port()}"
        redis = ["redis-server", "--bind", engine.address, "--port", self.redis.split(":")[1]]
        # Without protection: only a network of its own, or the loopback, reaches it.
        redis += ["--protected-mode", "no", "--save", "", "--dir", str(folder)]
        self._start(engine.command(*redis, "--logfile", "redis.log"))
        self.remote_cache = f"{engine.address}:{machines.port()}" if buildgrid else ""
        if buildgrid:
            self._start(
                engine.command(sys.executable, _BUILDGRID, "--serve", self.remote_cache),
                folder / "buildgrid.log",
            )
            subprocess.run(
                engine.command(sys.executable, "-c", _CONNECT, self.remote_cache), check=True
            )
        token = secrets.token_urlsafe(32)
        (folder / "token").write_text(token)
        digest = hashlib.sha256(token.encode()).hexdigest()
        (folder / "callers").write_text(f"host team read,compile sha256:{digest}\n")
        self.addresses: list[str] = []
        for index in range(servers):
            machine = machines.machine(f"server{index}")
            address = f"{machine.address}:{machines.port()}"
            self.addresses.append(f"{machines.scheme}://{address}")
            self._serve(index, machine)
        for index in range(servers):
            _wait(folder / f"server{index}/server.log", "listening to the network")
            public = folder / f"server{index}/store/signing.pub"
            shutil.copy(public, self.keys / f"server{index}.pub")
        self.config = folder / "client.toml"
        self.config.write_text(
            f'upstream-token = "{folder}/token"\ntrusted-keys = "{self.keys}"\n'
            + (f'upstream-ca = "{machines.ca}"\n' if machines.ca else "")
        )
        time.sleep(1.2)  # servers look for new keys each second

    def _start(self, command: list[str], log: Path = Path(os.devnull)) -> None:
        with log.open("wb") as output:
            self.processes.append(subprocess.Popen(command, stdout=output, stderr=output))

    def _serve(self, index: int, machine: Machine) -> None:
        folder = self.folder / f"server{index}"
        arguments = {
            "--cache-dir": folder,
            "--idle-timeout": 0,
            "--listen": self.addresses[index],
            "--callers": self.folder / "callers",
            "--trusted-keys": self.keys,
            "--redis": self.redis,
        }
        if self.remote_cache:
            arguments["--remote-cache"] = f"grpc://{self.remote_cache}"
            arguments["--remote-cache-instance"] = "store1"
        if self.machines.ca:
            certificate, key = self.machines.certificate(f"server{index}", machine.address)
            arguments |= {"--tls-certificate": certificate, "--tls-key": key}
        words = [str(word) for pair in arguments.items() for word in pair]
        self._start(machine.command(native.server_binary(), *words))

    def add_hosts(self, count: int) -> None:
        self.hosts = [self.machines.machine(f"host{index}") for index in range(count)]

    def environment(self, host: int) -> dict[str, str]:
        """The environment of a host's processes. A host asks one server first, and the
        others only if that one fails."""
        first = host % len(self.addresses)
        order = self.addresses[first:] + self.addresses[:first]
        return {
            **os.environ,
            "HPU_CACHE_DIR": str(self.folder / f"host{host}"),
            "HPU_COMPILE_SERVER": ",".join(order),
            "HPU_COMPILE_SERVER_CONFIG": str(self.config),
        }

    def run(self, host: int, models: int) -> float:
        command = self.hosts[host].command(sys.executable, "-c", _HOST, str(models))
        begin = time.monotonic()
        subprocess.run(command, env=self.environment(host), check=True)
        return time.monotonic() - begin

    def counters(self, cache: str) -> dict[str, int]:
        client = native.client_module()
        paths = client.server_paths(str(self.folder / cache))
        try:
            return dict(client.CompileClient(paths["socket"]).stats())
        except client.CompileError:
            return {}

    def close(self) -> None:
        client = native.client_module()
        for cache in self.folder.glob("host*"):
            found = client.server_process(client.server_paths(str(cache))["socket"])
            if found is not None:
                os.kill(found[0], signal.SIGTERM)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def _table(cluster: Cluster, times: dict[int, float], hosts: int) -> Table:
    table = Table(title=f"{len(times)} of {hosts} hosts are ready")
    for heading in ("server", *_COLUMNS):
        table.add_column(heading, justify="right")
    for index, address in enumerate(cluster.addresses):
        counters = cluster.counters(f"server{index}")
        table.add_row(address, *(str(counters.get(name, 0)) for name in _COLUMNS.values()))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--namespaces", action="store_true", help="a network namespace for each")
    parser.add_argument("--buildgrid", action="store_true", help="programs in a remote cache")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("this example needs redis-server: apt-get install redis-server")
    if arguments.buildgrid:
        subprocess.run([sys.executable, _BUILDGRID, "--install"], check=True)
    with (
        tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as folder,
        contextlib.closing(
            Namespaces(Path(folder)) if arguments.namespaces else Loopback()
        ) as machines,
    ):
        cluster = Cluster(Path(folder), arguments.servers, machines, arguments.buildgrid)
        cluster.add_hosts(arguments.hosts)
        try:
            _run(cluster, arguments)
        finally:
            cluster.close()


def _run(cluster: Cluster, arguments: argparse.Namespace) -> None:
    times: dict[int, float] = {}

    def host(index: int) -> None:
        times[index] = cluster.run(index, arguments.models)

    with ThreadPoolExecutor(arguments.hosts) as pool:
        jobs = [pool.submit(host, index) for index in range(arguments.hosts)]
        with Live(console=Console(stderr=arguments.json), refresh_per_second=2) as live:
            while not all(job.done() for job in jobs):
                live.update(_table(cluster, times, arguments.hosts))
                time.sleep(0.5)
            live.update(_table(cluster, times, arguments.hosts))
    for job in jobs:
        job.result()
    compiled = {
        place: counters.get("compile.compiled", 0)
        for place in (
            *(f"server{i}" for i in range(arguments.servers)),
            *(f"host{i}" for i in range(arguments.hosts)),
        )
        if (counters := cluster.counters(place))
    }
    answer = {
        "models": arguments.models,
        "compiled": sum(compiled.values()),
        "compiled_by": {place: count for place, count in compiled.items() if count},
        "seconds": [round(times[i], 2) for i in sorted(times)],
    }
    if arguments.json:
        print(json.dumps(answer, indent=1))
    else:
        print(
            f"{answer['models']} models on {arguments.hosts} hosts: {answer['compiled']} "
            f"compilations, by {answer['compiled_by']}"
        )


if __name__ == "__main__":
    main()
