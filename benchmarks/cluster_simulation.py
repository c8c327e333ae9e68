"""Simulates how long a large job waits for its programs.

The hosts, daemons and compile servers have service times that cluster_load.py measured on one
machine. Every rank needs the same programs, one after the other. A server hands out one program at
a time per core; of the requests for one key one compiles, the others wait for it. The model does
not include network bandwidth, lost servers, or the ranks' own work between programs.

./dev python benchmarks/cluster_simulation.py [--hosts 1000] [--ranks 8] [--programs 20]
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results/cluster-load.json"


@dataclass(frozen=True)
class Times:
    """Times in seconds."""

    compile: float
    remote: float  # on a server's core, for one hit
    local: float  # on a daemon, for one hit
    hop: float  # there and back over the network
    spread: float  # the time span in which the ranks begin


class Cores:
    """Cores that do work in the order in which it comes, on whichever core is free first."""

    def __init__(self, cores: int) -> None:
        self.free = [0.0] * cores

    def work(self, now: float, seconds: float) -> float:
        """The time when the work is done."""
        end = max(now, heapq.heappop(self.free)) + seconds
        heapq.heappush(self.free, end)
        return end


@dataclass
class Daemon:
    cores: Cores
    known: dict[int, float] = field(default_factory=dict)  # the time when each program is ready


class Cluster:
    def __init__(self, times: Times, servers: int, cores: int) -> None:
        self.times = times
        self.servers = [Cores(cores) for _ in range(servers)]
        self.compiled: dict[int, float] = {}
        self.requests = 0

    def get(self, now: float, program: int, server: int) -> float:
        """The time when the program is at the place that asked for it."""
        self.requests += 1
        at = self.servers[server]
        arrived = now + self.times.hop / 2
        if program not in self.compiled:
            self.compiled[program] = at.work(arrived, self.times.compile)
        there = max(arrived, self.compiled[program])
        return at.work(there, self.times.remote) + self.times.hop / 2


def simulate(
    times: Times, hosts: int, ranks: int, programs: int, servers: int, cores: int, way: str
) -> tuple[float, float, int]:
    """Seconds until half of the ranks and until all are ready, and the number of requests to the
    cluster.

    `way`: "daemons" ask once per host, "ranks" ask by themselves, "alone" means that each host
    compiles."""
    numbers = random.Random(1)
    cluster = Cluster(times, servers, cores)
    daemons = [Daemon(Cores(cores)) for _ in range(hosts)]
    events: list[tuple[float, int, int]] = []  # time, rank, program
    for rank in range(hosts * ranks):
        heapq.heappush(events, (numbers.random() * times.spread, rank, 0))
    ready: list[float] = []

    def fetch(now: float, rank: int, program: int) -> float:
        host = rank // ranks
        if way == "ranks":
            return cluster.get(now, program, rank % servers)
        daemon = daemons[host]
        if program not in daemon.known:
            daemon.known[program] = (
                cluster.get(now, program, host % servers)
                if way == "daemons"
                else daemon.cores.work(now, times.compile)
            )
        return daemon.cores.work(max(now, daemon.known[program]), times.local)

    while events:
        now, rank, program = heapq.heappop(events)
        end = fetch(now, rank, program)
        if program + 1 < programs:
            heapq.heappush(events, (end, rank, program + 1))
        else:
            ready.append(end)
    ready.sort()
    return ready[len(ready) // 2], ready[-1], cluster.requests


def measured() -> dict[str, float]:
    """Core seconds of a hit with BERT-base's bytes, from the measurements of cluster_load.py."""
    data = json.loads(RESULTS.read_text())
    rows = [row for row in data["rows"] if row["size"] == "bert-base"]

    def cost(kind: str) -> float:
        # This counts all of the machine's cores, which the clients shared, so it is more than the
        # server's own time.
        return min(data["cores"] * r["seconds"] / r["hits"] for r in rows if r["kind"] == kind)

    return {"local": cost("hit, local"), "remote": cost("hit, remote, client verifies nothing")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {
        "hosts": 1000,
        "ranks": 8,
        "programs": 20,
        "servers": 3,
        "cores": 2,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--compile", type=float, default=2.0, help="seconds of one compilation")
    parser.add_argument("--hop", type=float, default=0.0005, help="network, there and back")
    parser.add_argument("--spread", type=float, default=1.0, help="in which the ranks begin")
    a = parser.parse_args()
    times = Times(compile=a.compile, hop=a.hop, spread=a.spread, **measured())
    print(
        f"{a.hosts} hosts x {a.ranks} ranks, {a.programs} programs, {a.servers} servers of "
        f"{a.cores} cores; a hit costs a server {times.remote * 1e3:.2f} ms, a daemon "
        f"{times.local * 1e3:.2f} ms\n\n"
        "| a compilation takes | who asks the servers | half are ready | all are ready |"
        " requests to servers | compilations |\n|---|---|---|---|---|---|"
    )
    ways = {"daemons": "a daemon per host", "ranks": "every rank", "alone": "nobody"}
    for seconds in (a.compile, 0.0):
        now = dataclasses.replace(times, compile=seconds)
        for way, text in ways.items():
            if seconds == 0 and way == "alone":
                continue
            half, last, requests = simulate(
                now, a.hosts, a.ranks, a.programs, a.servers, a.cores, way
            )
            made = 0 if seconds == 0 else a.programs * (a.hosts if way == "alone" else 1)
            what = f"{seconds:g} s" if seconds else "(all are stored)"
            print(f"| {what} | {text} | {half:.1f} s | {last:.1f} s | {requests:,} | {made:,} |")


if __name__ == "__main__":
    main()
