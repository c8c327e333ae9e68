"""Callers without rights get nothing and disturb nobody: garbage, readers that do not read, ten
thousand connections. An authorised client is served meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import PORT, Cluster, Outcome, Server
from eventually import wait_until

MEMORY = 1 << 30  # the limit of a server, whatever strangers do


@pytest.fixture
def one(engine: str) -> Iterator[Cluster]:
    made = Cluster(engine, 1)
    yield made
    made.close()


@contextlib.contextmanager
def stranger(cluster: Cluster, what: str, number: str) -> Iterator[subprocess.Popen]:
    """The server exists and continues during the block."""
    (server,) = cluster.servers
    assert server.host
    script = Path(__file__).parent / "stranger.py"
    place = [server.host.address, str(PORT), cluster.authority.ca, cluster.tokens["worker"]]
    command = cluster.network.host("stranger").command(sys.executable, script, what, *place, number)
    popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert popen.stdout
    assert popen.stdout.readline() == "ready\n"
    yield popen
    popen.kill()
    popen.wait()


def count(popen: subprocess.Popen) -> int:
    output, _ = popen.communicate(timeout=1000)
    return int(output)


def served(cluster: Cluster, first: int) -> list[Outcome]:
    """Returns the outcomes of an authorised caller, which must all be right."""
    found = cluster.call(first=first, count=20, processes=2, rounds=3, timeout_ms=60_000)
    assert len(found) == 120
    assert [o for o in found if not o.right or o.error] == []
    return found


def unharmed(server: Server, pid: int) -> None:
    assert server.running().alive
    assert server.running().pid == pid
    assert server.running().resident_bytes() < MEMORY


@pytest.mark.parametrize("least", [2000, pytest.param(100_000, marks=pytest.mark.long)])
def test_garbage(one: Cluster, least: int, record_property) -> None:
    (server,) = one.servers
    pid = server.running().pid
    with stranger(one, "fuzz", str(least)) as popen:
        served(one, 0)
        record_property("connections", count(popen))
    served(one, 100)
    unharmed(server, pid)
    counters = server.counters()
    # One of nine connections is a whole call without a valid token; most of these cannot be parsed.
    assert counters["server.refused"] > least / 100
    assert counters["compile.worker_losses"] == 0
    assert set(one.compiled().values()) == {1}
    assert len(one.compiled()) == 40, "nothing was compiled for a stranger"


def test_another_tenant_is_not_told_what_is_there(engine: str) -> None:
    """With two servers and one engine: the tenant compiles what others have, and has it from then
    on."""
    cluster = Cluster(engine, 2)
    try:
        cluster.allow("another", "another-team", "read,compile")
        token = cluster.tokens["another"]
        first, second = (cluster.addresses(n).split(",")[0] for n in (0, 1))
        for server in (first, second):
            asking = {"server": server, "token": token, "call": "get"}
            wait_until(lambda a=asking: not cluster.call(**a)[0].error, "it is known")

        def origins(server: str, **options: object) -> list[str]:
            found = cluster.call(server=server, count=5, **options)
            assert [o for o in found if not o.right or o.error] == []
            return [o.origin for o in found]

        assert origins(first) == ["compiled"] * 5
        cluster.settle()
        assert origins(second, token=token) == ["compiled"] * 5
        assert set(cluster.compiled().values()) == {2}
        cluster.settle()
        for server in (first, second):
            assert origins(server) == ["store"] * 5
            assert origins(server, token=token) == ["store"] * 5
        assert set(cluster.compiled().values()) == {2}
    finally:
        cluster.close()


def test_ten_thousand_connections(one: Cluster, record_property) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 11_000:
        pytest.skip(f"{most} open files are allowed, 11000 are needed: ulimit -n")
    (server,) = one.servers
    before = server.running().resident_bytes()
    pid = server.running().pid
    with stranger(one, "connections", "10000") as popen:
        served(one, 0)
        grown = server.running().resident_bytes() - before
        record_property("MiB of the server for 10000 connections", grown >> 20)
        unharmed(server, pid)
        assert count(popen) == 10_000
    served(one, 100)


def test_readers_that_do_not_read(one: Cluster, record_property) -> None:
    """20 connections with 50 calls each for 4 MB: the server does not hold all their answers."""
    (server,) = one.servers
    says = "size:4000000"
    (made,) = one.call(say=says)
    assert made.right
    key = hashlib.sha256(f"front end of {says} #0".encode()).hexdigest()
    before = server.running().resident_bytes()
    pid = server.running().pid
    hits = server.counters()["store.get_hits"]
    with stranger(one, "slow-readers", key):
        wait_until(lambda: server.counters()["store.get_hits"] >= hits + 200, "they are heard")
        served(one, 0)
        grown = server.running().resident_bytes() - before
        record_property("MiB of the server for 1000 streams", grown >> 20)
        unharmed(server, pid)
        served(one, 100)
    served(one, 200)
