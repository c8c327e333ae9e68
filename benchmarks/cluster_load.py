"""Measures how many programs a compile server hands out, and how fast.

Hits by 1, 8, 64 and 512 clients are measured, local and over the network, beside plain Redis and
PyTorch's Redis cache with values of equal size.

Everything runs on this machine, servers and clients in network namespaces (tests/cluster; root). A
row is --seconds of one kind of client. Kinds alternate within a number of clients, so that they
meet the same state of the machine. Results go to benchmarks/results/cluster-load.json, tables to
the terminal.

./dev bench-cluster [--seconds 4] [--clients 1,8,64,512]
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / f) for f in ("tests/cluster", "tests/python", "examples/cluster")]

from cluster import Cluster, Server, client_command  # noqa: E402

RESULTS = ROOT / "benchmarks/results/cluster-load.json"
PROGRAMS = 200
# Bytes of the recipe; the program around it has about 400 more. BERT-base's program and recipe have
# 105 KB (docs/benchmarks.json).
SIZES = {"small": 100, "bert-base": 104_000}


@dataclass(frozen=True)
class Row:
    size: str
    kind: str
    clients: int
    hits: int
    seconds: float
    p50: float  # milliseconds, as are the next two
    p99: float
    p999: float
    histogram: dict[str, int]  # by latency in microseconds, two digits

    @property
    def rate(self) -> float:
        return self.hits / self.seconds


def _row(size: str, kind: str, clients: int, micros: list[int], seconds: float) -> Row:
    micros.sort()

    def at(share: float) -> float:
        return micros[min(len(micros) - 1, int(len(micros) * share))] / 1000

    histogram = collections.Counter(str(int(float(f"{m:.1e}"))) for m in micros)
    return Row(
        size, kind, clients, len(micros), seconds, at(0.5), at(0.99), at(0.999), dict(histogram)
    )


def _measure(
    size: str, kind: str, clients: int, command: list[str], environment: dict[str, str]
) -> Row:
    """The results of a command that prints a line of JSON for each of its clients."""
    # The output goes to a file: in a pipe, long lines of several writers would mix.
    with tempfile.TemporaryFile("w+") as output:
        subprocess.run(command, stdout=output, check=True, env={**os.environ, **environment})
        output.seek(0)
        lines = [json.loads(line) for line in output]
    others = collections.Counter()
    for line in lines:
        others.update(line["others"])
    if others or len(lines) != clients:
        raise RuntimeError(f"{kind}, {clients} clients: {others}")
    seconds = max(line["to"] for line in lines) - min(line["from"] for line in lines)
    micros = [m for line in lines for m in line["microseconds"]]
    return _row(size, kind, clients, micros, seconds)


class Load:
    """A server, a daemon and Redis that hold the same programs, and the clients of each."""

    def __init__(self, cluster: Cluster, seconds: float, programs: int) -> None:
        self.cluster = cluster
        self.seconds = seconds
        self.server = cluster.servers[0]
        self.daemon: Server = cluster.daemon()
        self.programs = programs
        for says in (f"size:{size}" for size in SIZES.values()):
            for server in (self.server, self.daemon):
                server.call(say=says, count=programs, threads=2)
        for name, size in SIZES.items():
            for number in range(programs):
                cluster.engine.write(f"load:{name}:{number}".encode(), os.urandom(size + 400))
        cluster.engine.call("CONFIG", "SET", "maxclients", "10000")
        self.kinds: dict[str, Callable[[str, int], Row]] = {
            "hit, local": lambda size, n: self._ours("hit, local", size, n, local=True),
            "hit, remote": lambda size, n: self._ours("hit, remote", size, n),
            "hit, remote, client verifies nothing": lambda size, n: self._ours(
                "hit, remote, client verifies nothing", size, n, raw=True
            ),
            "Redis GET, C client": self._plain_redis,
            "PyTorch RedisRemoteCacheBackend": self._pytorch,
        }

    def _ours(
        self, kind: str, size: str, clients: int, *, local: bool = False, raw: bool = False
    ) -> Row:
        processes = min(2, clients)
        options: dict[str, object] = {
            "say": f"size:{SIZES[size]}",
            "count": self.programs,
            "seconds": self.seconds,
            "processes": processes,
            "threads": clients // processes,
            "no_check": True,
            **({"raw": True} if raw else {}),
        }
        if local:
            command = client_command(f"unix:{self.daemon.socket}", **options)
        else:
            options.update(self.cluster.access())
            command = self.cluster.client_host().command(
                *client_command(self.cluster.addresses(), **options)
            )
        return _measure(size, kind, clients, command, {})

    def _plain_redis(self, size: str, clients: int) -> Row:
        kind = "Redis GET, C client"
        engine = self.cluster.engine
        command = [str(ROOT / "build/release/tests/cluster/hpu_redis_get")]
        command += [engine.host.address, str(engine.port)]
        command += [f"load:{size}:", str(self.programs), str(clients), str(self.seconds)]
        return _measure(size, kind, clients, self.cluster.client_host().command(*command), {})

    def _pytorch(self, size: str, clients: int) -> Row:
        script = ROOT / "benchmarks/pytorch_redis_get.py"
        arguments = [f"load:{size}:", str(self.programs), str(clients), str(self.seconds)]
        command = self.cluster.client_host().command(sys.executable, script, *arguments)
        engine = self.cluster.engine
        url = f"redis://{engine.host.address}:{engine.port}"
        kind = "PyTorch RedisRemoteCacheBackend"
        return _measure(size, kind, clients, command, {"TORCHINDUCTOR_REDIS_URL": url})


def _table(rows: list[Row]) -> str:
    lines = ["| program | clients | what | per second | p50 ms | p99 ms | p99.9 ms |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        times = " | ".join(f"{ms:.2f}" for ms in (row.p50, row.p99, row.p999))
        lines.append(f"| {row.size} | {row.clients} | {row.kind} | {row.rate:,.0f} | {times} |")
    return "\n".join(lines)


def _targets(rows: list[Row]) -> str:
    """The targets compared with the measured rows."""
    found = {(r.size, r.kind, r.clients): r for r in rows}
    least = min(r.clients for r in rows)
    local = found.get(("bert-base", "hit, local", least))
    remote = found.get(("bert-base", "hit, remote", least))
    redis = found.get(("bert-base", "Redis GET, C client", least))
    lines = ["| figure | target | measured | met |", "|---|---|---|---|"]
    if local:
        lines.append(
            f"| local hit, bert-base, p50 | ≤ 3 ms | {local.p50:.2f} ms | {_yes(local.p50 <= 3)} |"
        )
    if remote and redis:
        bound = 2 * redis.p50 + 1
        lines.append(
            f"| remote hit, bert-base, p50 | ≤ 2 x Redis GET + 1 ms = {bound:.2f} ms |"
            f" {remote.p50:.2f} ms | {_yes(remote.p50 <= bound)} |"
        )
    for kind in ("hit, remote", "hit, remote, client verifies nothing"):
        if not any((r.size, r.kind) == ("small", kind) for r in rows):
            continue
        quick = [r for r in rows if (r.size, r.kind) == ("small", kind) and r.p99 <= 20]
        best = max((r.rate for r in quick), default=0.0)
        lines.append(
            f"| small {kind}, p99 ≤ 20 ms | ≥ 8000/s | {best:,.0f}/s | {_yes(best >= 8000)} |"
        )
    return "\n".join(lines)


def _yes(met: bool) -> str:
    return "yes" if met else "**no**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--clients", default="1,8,64,512")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="of each size")
    parser.add_argument("--without", default="", help="kinds whose name begins so are left out")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    cluster = Cluster("redis", 1)
    rows: list[Row] = []
    memory = {}
    load_before = os.getloadavg()[0]
    try:
        load = Load(cluster, arguments.seconds, arguments.programs)
        kinds = {
            kind: measure
            for kind, measure in load.kinds.items()
            if not (arguments.without and kind.startswith(arguments.without))
        }
        for size in arguments.sizes.split(","):
            for clients in map(int, arguments.clients.split(",")):
                for kind, measure in kinds.items():
                    print(f"{size}, {clients} clients: {kind}", file=sys.stderr)
                    rows.append(measure(size, clients))
                memory[f"{size} {clients}"] = load.server.running().resident_bytes()
    finally:
        cluster.close()
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load at the start": round(load_before, 2),
        "server_resident_bytes": memory,
        "rows": [vars(row) for row in rows],
    }
    arguments.results.write_text(json.dumps(result) + "\n")
    print(_table(rows), _targets(rows), sep="\n\n")
    print(f"\nThe server's memory: at most {max(memory.values()) >> 20} MiB.")


if __name__ == "__main__":
    main()
