"""Faults of hosts and not of processes: names, clocks, disks, a slow engine, a failover."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from child import Process
from cluster import PORT, Cluster, Server, run_clients
from engine import PORT as ENGINE_PORT
from engine import Redis
from eventually import wait_until
from faults import bounded, first_graph
from network import Host

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")

programs = itertools.count()


@pytest.fixture
def names(cluster: Cluster) -> Iterator[Host]:
    """A host that resolves the servers' names."""
    host = cluster.network.host("names")
    known = [f"{s.folder.name}.test={s.host.address}" for s in cluster.servers if s.host]
    script = Path(__file__).parent / "name_server.py"
    process = Process(host.command(sys.executable, script, *known))
    yield host
    process.kill()


def test_names_that_nobody_resolves(cluster: Cluster, names: Host, record_property) -> None:
    user = cluster.network.host("user")
    user.etc("resolv.conf", f"nameserver {names.address}\n")
    addresses = ",".join(f"tls://{s.folder.name}.test:{PORT}" for s in cluster.servers)
    names.drop()
    daemon = cluster.daemon(addresses=addresses, host=user)
    seconds, origin = first_graph(daemon, next(programs))
    record_property("seconds", round(seconds, 2))
    bounded(seconds, 4.5)
    assert (origin, len(daemon.compiled())) == ("compiled", 1)
    names.undrop()

    def used() -> bool:
        first_graph(daemon, next(programs))
        return daemon.counters()["upstream.compiled"] > 0

    wait_until(used, "the servers are found")
    # Existing connections need no names.
    names.drop()
    here = len(daemon.compiled())
    bounded(first_graph(daemon, next(programs))[0], 0)
    assert len(daemon.compiled()) == here


@pytest.mark.skipif(not FAKETIME.exists(), reason="no libfaketime: apt-get install faketime")
@pytest.mark.parametrize("jump", ["+30d", "-30d"])
def test_a_clock_that_jumps(cluster: Cluster, jump: str) -> None:
    """A change of the clock of one server, while it has a lease that another one waits for."""
    server = cluster.servers[0]
    clock = cluster.folder / "clock"
    clock.write_text("+0")
    server.environment = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    server.restart()
    hosts = [cluster.daemon(first=0), cluster.daemon(first=1)]
    answers: list[tuple[float, str]] = []

    def ask(host: Server) -> None:
        answers.append(first_graph(host, 7, "sleep:3000"))

    threads = [threading.Thread(target=ask, args=(host,)) for host in hosts]
    threads[0].start()
    wait_until(lambda: len(server.compiled()) == 1, "it compiles")
    threads[1].start()
    clock.write_text(jump)
    for thread in threads:
        thread.join(60)
    assert len(answers) == 2
    for seconds, _ in answers:
        bounded(seconds, 3)
    assert cluster.compiled()["sleep:3000 #7"] == 1, "its lease held"
    # New leases, tokens and programs are as good as earlier ones.
    for program in range(100, 110):
        assert first_graph(hosts[0], program)[1] == "compiled"
    cluster.settle()
    for program in range(100, 110):
        assert first_graph(hosts[1], program)[1] == "store"
    assert all(host.compiled() == [] for host in hosts)


@pytest.fixture
def small_disk(cluster: Cluster) -> Iterator[Server]:
    """A server whose store has 48 MiB."""
    server = cluster.servers[0]
    server.kill()
    store = server.folder / "store"
    shutil.copytree(store, server.folder / "copy")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", store], check=True)
    shutil.copytree(server.folder / "copy", store, dirs_exist_ok=True)
    store.chmod(0o700)
    server.start()
    yield server
    server.kill()
    subprocess.run(["umount", "--lazy", store], check=True)


@pytest.mark.long
def test_a_disk_that_is_full(cluster: Cluster, small_disk: Server) -> None:
    hosts = [cluster.daemon(first=0), cluster.daemon(first=1)]
    assert first_graph(hosts[0], next(programs))[1] == "compiled"
    filler = small_disk.folder / "store/filler"
    with pytest.raises(OSError), filler.open("wb", buffering=0) as file:  # noqa: PT012
        while file.write(b"x" * 4096) == 4096:
            pass
        raise OSError
    entries = small_disk.counters()["rocksdb.entries"]
    first = next(programs)
    for program in range(first, first + 8):
        assert first_graph(hosts[0], program, "size:3000000")[1] == "compiled"
    cluster.settle()
    for program in range(first, first + 8):
        assert first_graph(hosts[1], program, "size:3000000")[1] == "store", "by the engine"
    assert hosts[0].compiled() == hosts[1].compiled() == []
    assert small_disk.counters()["rocksdb.write_failures"] > 0
    assert small_disk.counters()["rocksdb.entries"] < entries + 8
    entries = small_disk.counters()["rocksdb.entries"]
    filler.unlink()
    later = itertools.count(1000)

    def kept() -> bool:
        first_graph(hosts[0], next(later), "size:3000000")
        return small_disk.counters()["rocksdb.entries"] > entries

    wait_until(kept, "new programs are kept again", 90)


class SlowRedis(Redis):
    """Each answer comes 200 ms late."""

    def start(self) -> None:
        super().start()
        script = Path(__file__).parent / "slow_proxy.py"
        arguments = (str(ENGINE_PORT + 1), str(ENGINE_PORT), "0.2")
        self.proxy = Process(self.host.command(sys.executable, script, *arguments))

    def close(self) -> None:
        self.proxy.kill()
        super().close()

    def server_options(self) -> list[str]:
        return ["--redis", f"{self.host.address}:{ENGINE_PORT + 1}"]


class RedisPair(Redis):
    """A master and its replica on one host."""

    def start(self) -> None:
        super().start()
        if hasattr(self, "replica"):
            return
        folder = self.folder / "replica"
        self.replica = _Replica(self.host, folder, "--replicaof", "127.0.0.1", str(ENGINE_PORT))

    def close(self) -> None:
        self.replica.close()
        super().close()

    def server_options(self) -> list[str]:
        return ["--redis", f"{self.address},{self.host.address}:{ENGINE_PORT + 1}"]


class _Replica(Redis):
    port = ENGINE_PORT + 1


def test_a_slow_engine_makes_nothing_slower(record_property) -> None:
    """No request takes longer than compiling: a graph that is compiled quickly is not waited for,
    and one that takes long is taken from the engine while it is compiled."""
    cluster = Cluster(SlowRedis, 2, hedge=True)
    gate = cluster.folder / "gate"
    long = f"held:{gate}"
    try:
        hosts = [cluster.daemon(first=0), cluster.daemon(first=1)]
        # A graph costs three answers of 200 ms, one after the other, at least.
        for program in range(2):
            began = time.monotonic()
            (made,) = cluster.call(first=program)
            record_property("seconds to compile", round(time.monotonic() - began, 2))
            assert (made.origin, made.right) == ("compiled", True)
        first = cluster.servers[0].counters()
        assert first["shared.hedged"] > 0
        assert first["compile.hedged"] > 0, "nor is the lease waited for"
        gate.touch()
        hosts[0].call(first=9, say=long)
        gate.unlink()
        cluster.settle()
        seconds, origin = first_graph(hosts[1], 9, long)
        record_property("seconds to find", round(seconds, 2))
        assert origin == "store", "while it is compiled without an end"
        second = cluster.servers[1].counters()
        assert second["shared.late"] > 0
    finally:
        cluster.close()


@pytest.mark.long
def test_silent_servers_make_nothing_slower(record_property) -> None:
    cluster = Cluster("redis", 2, hedge=True)
    try:
        host = cluster.daemon()
        first_graph(host, 1)
        assert host.compiled() == [], "by a server"
        for server in cluster.servers:
            server.running().suspend()
        seconds, origin = first_graph(host, 2)
        record_property("seconds", round(seconds, 2))
        bounded(seconds, 0.5)
        assert (origin, len(host.compiled())) == ("compiled", 1)
        assert host.counters()["upstream.hedged"] == 1
    finally:
        cluster.close()


def test_an_engine_that_fails_over() -> None:
    cluster = Cluster(RedisPair, 2)
    try:
        hosts = [cluster.daemon(first=0), cluster.daemon(first=1)]
        assert first_graph(hosts[0], 1)[1] == "compiled"
        cluster.settle()
        cluster.engine.call("WAIT", "1", "10000")
        cluster.engine.kill()
        cluster.engine.replica.call("REPLICAOF", "NO", "ONE")
        assert first_graph(hosts[0], 2)[1] == "compiled"
        assert first_graph(hosts[1], 1)[1] == "store", "the replica had it"
        later = itertools.count(10)

        def shared() -> bool:
            program = next(later)
            first_graph(hosts[0], program)
            cluster.settle()
            return first_graph(hosts[1], program)[1] == "store"

        wait_until(shared, "servers share again")
        assert all(host.compiled() == [] for host in hosts)
    finally:
        cluster.close()


def test_tokens_and_authorities(cluster: Cluster) -> None:
    """A caller without rights gets nothing, over a real network; roles are in network_test."""
    cluster.allow("stranger", "another", "read,compile")
    wait_until(lambda: not cluster.call(token=cluster.tokens["stranger"])[0].error, "known")
    assert cluster.call(count=3)[0].right
    foreign = cluster.call(count=3, call="get", token=cluster.tokens["stranger"])
    assert [o.origin for o in foreign].count("store") == 1, "what its own tenant has named"
    unknown = cluster.folder / "unknown"
    unknown.write_text("token of nobody\n")
    for what in ({"token": unknown}, {"token": "/dev/null"}):
        for call in ("get", "compile"):
            found = cluster.call(count=3, call=call, **what)
            assert [(o.origin, o.right) for o in found] == [("error", False)] * 3
    wrong = type(cluster.authority)(cluster.folder / "wrong")
    found = cluster.call(ca=wrong.ca)
    assert found[0].origin == "error"
    assert "a certificate is refused" in found[0].error
    # A token is withdrawn while everything runs.
    lines = cluster.callers.read_text().splitlines(keepends=True)
    cluster.callers.write_text("".join(line for line in lines if "stranger" not in line))
    wait_until(
        lambda: "UNAUTHENTICATED" in cluster.call(token=cluster.tokens["stranger"])[0].error,
        "the token is withdrawn",
    )
    # A daemon without a valid token compiles for its user.
    assert run_clients(f"unix:{cluster.daemon(token=unknown).socket}")[0].right
    assert len(cluster.daemons[-1].compiled()) == 1
