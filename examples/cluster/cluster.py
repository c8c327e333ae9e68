"""A cluster on one machine: compile servers that share a Redis engine, and hosts that use them.

Each host is a process of torch.compile with a cache folder and a daemon of its own; all compile the
same models. The table shows who compiled, who waited and who found; at the end each model was
compiled once. Needs redis-server (Debian's package) besides what ./dev build makes.

    ./dev python examples/cluster/cluster.py [--servers 3] [--hosts 8] [--models 4] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
_COLUMNS = {
    "compiled": "compile.compiled",
    "waited for another": "lease.waited",
    "from Redis": "shared.hits",
    "requests": "compile.requests",
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(path: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or text not in path.read_text():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} does not say {text!r}")
        time.sleep(0.02)


class Cluster:
    """Everything under one folder, on ports of the loopback; ended by close()."""

    def __init__(self, folder: Path, servers: int) -> None:
        self.folder = folder
        self.keys = folder / "keys"
        self.keys.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.redis = f"127.0.0.1:{_free_port()}"
        redis = ["redis-server", "--bind", "127.0.0.1", "--port", self.redis.split(":")[1]]
        self._start([*redis, "--save", "", "--dir", str(folder), "--logfile", "redis.log"])
        token = secrets.token_urlsafe(32)
        (folder / "token").write_text(token)
        digest = hashlib.sha256(token.encode()).hexdigest()
        (folder / "callers").write_text(f"host team read,compile sha256:{digest}\n")
        self.addresses = [f"tcp://127.0.0.1:{_free_port()}" for _ in range(servers)]
        for index, address in enumerate(self.addresses):
            self._serve(index, address)
        for index in range(servers):
            _wait(folder / f"server{index}/server.log", "listening to the network")
            public = folder / f"server{index}/store/signing.pub"
            shutil.copy(public, self.keys / f"server{index}.pub")
        self.config = folder / "client.toml"
        self.config.write_text(f'upstream-token = "{folder}/token"\ntrusted-keys = "{self.keys}"\n')
        time.sleep(1.2)  # servers look for new keys each second

    def _start(self, command: list[str]) -> None:
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def _serve(self, index: int, address: str) -> None:
        folder = self.folder / f"server{index}"
        arguments = {
            "--cache-dir": folder,
            "--idle-timeout": 0,
            "--listen": address,
            "--callers": self.folder / "callers",
            "--trusted-keys": self.keys,
            "--redis": self.redis,
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        self._start([native.server_binary(), *words])

    def environment(self, host: int) -> dict[str, str]:
        """Of a host: it asks one server first, the others if that fails."""
        first = host % len(self.addresses)
        order = self.addresses[first:] + self.addresses[:first]
        return {
            **os.environ,
            "HPU_CACHE_DIR": str(self.folder / f"host{host}"),
            "HPU_COMPILE_SERVER": ",".join(order),
            "HPU_COMPILE_SERVER_CONFIG": str(self.config),
        }

    def run(self, host: int, models: int) -> float:
        begin = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", _HOST, str(models)], env=self.environment(host), check=True
        )
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
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("this example needs redis-server: apt-get install redis-server")
    with tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), arguments.servers)
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
