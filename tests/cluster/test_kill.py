"""kill -9 at random moments, also while a server starts. The oracle is outside the server: what
clients were given exists afterwards, and every program that exists is whole."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from cluster import Cluster, Outcome, Server, client_command, outcomes_of
from eventually import wait_until

SAYS = "size:5000"  # large enough for RocksDB's blob files


class Writers:
    """Clients of the server's host that ask for one new program after another."""

    def __init__(self, server: Server, first: int) -> None:
        command = client_command(
            f"unix:{server.socket}",
            first=first,
            count=1000,
            in_order=True,
            threads=1,
            say=SAYS,
            timeout_ms=20_000,
        )
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def kept(self) -> list[Outcome]:
        """Returns the outcomes that the clients got before their server died."""
        self.popen.kill()
        output, _ = self.popen.communicate(timeout=60)
        lines = output[: output.rfind("\n") + 1]
        return [o for o in outcomes_of(lines) if not o.error]


def programs_of(server: Server, numbers: set[int]) -> list[Outcome]:
    """Returns those of these programs that the server has. Asks in runs of consecutive numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    found: list[Outcome] = []
    for run in runs:
        found += server.call(first=run[0], count=len(run), say=SAYS, call="get", in_order=True)
    return found


@pytest.mark.parametrize("kills", [100, pytest.param(2000, marks=pytest.mark.long)])
def test_a_server_killed_at_random_moments(folder: Path, kills: int, record_property) -> None:
    numbers = random.Random(kills)
    server = Server(None, folder / "server", [])
    kept: list[int] = []
    checked = died_starting = 0
    for kill in range(1, kills + 1):
        server.launch()
        writers: list[Writers] = []
        if numbers.random() < 0.7:
            wait_until(server.serves, "it starts")
            begun = len(server.compiled()) + numbers.randrange(4, 12)
            writers = [Writers(server, 2000 * kill + 1000 * i) for i in range(2)]
            wait_until(lambda b=begun: len(server.compiled()) >= b, "it compiles")
        # The random moment is what is tested, so it is a time and not an event.
        # Early moments are more frequent, because a start may be short.
        time.sleep(numbers.random() * 0.01 if writers else numbers.random() ** 3 * 0.2)
        died_starting += not writers and not server.serves()
        server.kill()
        answered = [o for w in writers for o in w.kept()]
        assert [o for o in answered if not o.right] == [], kill
        new = [o.program for o in answered]
        kept += new
        if kill % 10 != 0:
            continue
        server.launch()
        wait_until(server.serves, "it starts again")
        # Checks all new programs and some of the old ones.
        asked = {*kept[checked:], *numbers.sample(kept, min(100, len(kept)))}
        checked = len(kept)
        found = programs_of(server, asked)
        assert [o for o in found if not o.right or o.error] == []
        lost = [o.program for o in found if o.origin != "store"]
        assert lost == [], f"kept, and gone after kill {kill}"
        # Programs that were being compiled when it died must be whole or absent.
        found = programs_of(server, {number + 1 for number in new} - set(new))
        assert [o for o in found if not o.right or o.error] == []
        assert server.counters()["rocksdb.damaged_at_start"] == 0
        server.kill()
    record_property("programs kept", len(kept))
    record_property("kills while it started", died_starting)
    assert len(kept) > kills
    assert 0 < died_starting < kills


@pytest.mark.parametrize("kills", [12, pytest.param(200, marks=pytest.mark.long)])
def test_a_cluster_killed_at_random_moments(cluster: Cluster, kills: int, record_property) -> None:
    """Kills servers and the engine one by one: three hosts with running clients see no error."""
    numbers = random.Random(kills)
    hosts = [cluster.daemon(first=number) for number in range(3)]
    options = {"processes": 2, "count": 100_000, "timeout_ms": 60_000, "in_order": True}
    clients = []
    for host in hosts:
        command = client_command(f"unix:{host.socket}", say="sleep:30 size:5000", **options)
        with (host.folder / "outcomes").open("w") as file:
            clients.append(subprocess.Popen(command, stdout=file))
    victims = [*cluster.servers, cluster.engine]
    for _ in range(kills):
        # These random times are what is tested.
        time.sleep(numbers.random() * 0.5)
        victim = numbers.choice(victims)
        victim.kill()
        time.sleep(numbers.random() * 0.5)
        victim.start()
    for host in hosts:
        file = host.folder / "outcomes"
        least = file.read_text().count("\n") + kills
        wait_until(
            lambda f=file, n=least: f.read_text().count("\n") > n,
            "it is served after the last kill",
        )
    for client in clients:
        client.kill()
        client.wait(60)
    for host in hosts:
        lines = (host.folder / "outcomes").read_text()
        found = outcomes_of(lines[: lines.rfind("\n") + 1])
        assert [o for o in found if not o.right or o.error] == []
        counters = host.counters()
        assert counters["upstream.compiled"] + counters["upstream.hits"] > 0
        record_property("answers on a host", len(found))
