"""The faults of a cluster as rows: what is done to it, how long a graph may wait for it according
to docs/cluster.md, who compiles in the meantime, and how it is undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cluster import Cluster, Server

Change = Callable[[Cluster], object]


@dataclass(frozen=True)
class Fault:
    name: str
    begin: Change
    end: Change
    bound: float  # seconds that docs/cluster.md gives
    compiles: str  # "cluster" or "host"
    is_long: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def _each(what: Callable[[Server], object]) -> Change:
    return lambda cluster: [what(server) for server in cluster.servers]


def _first(what: Callable[[Server], object]) -> Change:
    return lambda cluster: what(cluster.servers[0])


def _kill(server: Server) -> None:
    server.kill()


def _start(server: Server) -> None:
    server.start()


def _suspend(server: Server) -> None:
    server.running().suspend()


def _resume(server: Server) -> None:
    server.running().resume()


def _drop(server: Server) -> None:
    assert server.host
    server.host.drop()


def _undrop(server: Server) -> None:
    assert server.host
    server.host.undrop()


def _half_open(server: Server) -> None:
    """The host crashes and comes back, without a message to the other side of its connections."""
    _drop(server)
    server.kill()
    _undrop(server)


def _expire(cluster: Cluster) -> None:
    """Options with which a server does not start."""
    _each(_kill)(cluster)
    _certify(cluster, days=-1)


def _renew(cluster: Cluster) -> None:
    _certify(cluster)
    _each(_start)(cluster)


def _certify(cluster: Cluster, days: int = 3650) -> None:
    for server in cluster.servers:
        assert server.host
        cluster.certify(server.folder.name, server.host, days)


FAULTS = [
    Fault("one server killed", _first(_kill), _first(_start), 0, "cluster"),
    Fault("one server suspended", _first(_suspend), _first(_resume), 5, "cluster", True),
    Fault("one server a black hole", _first(_drop), _first(_undrop), 5, "cluster"),
    Fault("one server half open", _first(_half_open), _first(_start), 5, "cluster", True),
    Fault("all servers killed", _each(_kill), _each(_start), 0, "host", True),
    Fault("all servers suspended", _each(_suspend), _each(_resume), 9, "host"),
    Fault("all servers black holes", _each(_drop), _each(_undrop), 9, "host", True),
    Fault("certificates expired", _expire, _renew, 0, "host", True),
]

ENGINE_FAULTS = [
    Fault(
        "killed",
        lambda cluster: cluster.engine.kill(),
        lambda cluster: cluster.engine.start(),
        1.5,
        "cluster",
    ),
    Fault(
        "suspended",
        lambda cluster: cluster.engine.running().suspend(),
        lambda cluster: cluster.engine.running().resume(),
        1.5,
        "cluster",
        True,
    ),
    Fault(
        "a black hole",
        lambda cluster: cluster.engine.host.drop(),
        lambda cluster: cluster.engine.host.undrop(),
        1.5,
        "cluster",
        True,
    ),
    Fault(
        "full",
        lambda cluster: cluster.engine.set_full(True),
        lambda cluster: cluster.engine.set_full(False),
        0,
        "cluster",
    ),
    Fault(
        "read-only",
        lambda cluster: cluster.engine.set_read_only(True),
        lambda cluster: cluster.engine.set_read_only(False),
        0,
        "cluster",
        True,
    ),
]


def first_graph(host: Server, program: int, says: str = "quick") -> tuple[float, str]:
    """Does what a process does for a graph that it does not know: looks it up, then has it
    compiled. Returns the seconds, and where the program came from."""
    began = time.monotonic()
    (looked,) = host.call(first=program, say=says, call="get")
    assert not looked.error, looked
    if looked.origin == "store":
        assert looked.right
        return time.monotonic() - began, "store"
    (made,) = host.call(first=program, say=says)
    assert made.right, made
    return time.monotonic() - began, made.origin


def bounded(seconds: float, bound: float) -> None:
    """Allows twice the documented time, and the time that a loaded machine needs for four
    processes."""
    assert seconds < 2 * bound + 8, f"{seconds:.1f} s, documented are {bound} s"
