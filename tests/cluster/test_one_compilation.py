"""When many clients ask several servers for one program, one server compiles it, once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cluster import Cluster, Outcome, Server, client_command, outcomes_of
from eventually import wait_until


class Clients:
    """128 processes that ask all servers for the same programs, each in an order of its own."""

    def __init__(self, cluster: Cluster, programs: int, says: str) -> None:
        options = {"rotate": True, "processes": 128, "count": programs, "say": says}
        command = client_command(
            cluster.addresses(), timeout_ms=300_000, **options, **cluster.access()
        )
        self.calls = 128 * programs
        self.popen = subprocess.Popen(
            cluster.client_host().command(*command), stdout=subprocess.PIPE, text=True
        )

    def outcomes(self) -> list[Outcome]:
        output, _ = self.popen.communicate(timeout=600)
        assert self.popen.returncode == 0
        found = outcomes_of(output)
        assert len(found) == self.calls
        assert [o for o in found if not o.right or o.error] == []
        return found


@pytest.mark.parametrize(
    "programs", [40, pytest.param(2000, marks=pytest.mark.long)], ids=["40", "2000"]
)
def test_many_clients_one_compilation_per_key(cluster: Cluster, programs: int) -> None:
    Clients(cluster, programs, "sleep:20").outcomes()
    compiled = cluster.compiled()
    assert len(compiled) == programs
    assert set(compiled.values()) == {1}, compiled.most_common(3)
    assert cluster.total("compile.compiled") == programs
    assert cluster.total("lease.without") == 0
    compilers = [server for server in cluster.servers if server.compiled()]
    assert len(compilers) == 3, "whoever is asked first compiles"


def test_the_death_of_a_server_costs_what_it_had_not_handed_over(cluster: Cluster) -> None:
    """Clients whose server died go to another one, which waits for the dead one's leases."""
    programs = 60
    clients = Clients(cluster, programs, "sleep:200")
    victim = cluster.servers[0]
    wait_until(lambda: len(victim.compiled()) >= 5, "it compiles")
    victim.kill()
    clients.outcomes()
    compiled = cluster.compiled()
    assert len(compiled) == programs
    again = {key for key, times in compiled.items() if times > 1}
    assert again <= set(victim.compiled()), "only what the dead server had begun"
    assert max(compiled.values()) <= 2
    # These were running in its workers (one per core), or waiting to be written.
    assert len(again) <= 2 * len(os.sched_getaffinity(0)) + 2
    assert victim.compiled() != [], "it was killed in the middle"
    assert cluster.total("lease.without") == 0


def test_a_thousand_clients_connect_to_a_daemon_at_once(folder: Path) -> None:
    daemon = Server(None, folder / "daemon", [])
    daemon.start()
    try:
        found = daemon.call(processes=2, threads=500, timeout_ms=120_000)
        assert len(found) == 1000
        assert [o for o in found if not o.right or o.error] == []
        assert daemon.compiled() == ["quick #0"]
    finally:
        daemon.kill()
