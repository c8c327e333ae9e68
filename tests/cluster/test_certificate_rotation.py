"""Certificates change under calls, as docs/operations_cluster.md describes: no call fails."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

from authority import Authority
from cluster import Cluster, Outcome
from eventually import wait_until


class Load:
    """Clients that call in turns, each with connections of its own, until stop()."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.outcomes: list[Outcome] = []
        self._turns = 0
        self._ends = threading.Event()
        cluster.client_host()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for turn in itertools.count():
            if self._ends.is_set():
                return
            first = 10 * turn
            addresses = self.cluster.addresses(turn % len(self.cluster.servers))
            self.outcomes += self.cluster.call(first=first, count=10, processes=2, server=addresses)
            self._turns = turn + 1

    def wait_for_turns(self) -> None:
        """Waits until each server has answered calls that began after now."""
        # The turn that runs now may have begun earlier.
        turns = self._turns + 1 + len(self.cluster.servers)
        wait_until(
            lambda: self._turns >= turns or not self._thread.is_alive(), "the clients are answered"
        )
        assert self._thread.is_alive(), "its exception stands in the output"

    def stop(self) -> list[Outcome]:
        self._ends.set()
        self._thread.join()
        return self.outcomes


def issue(authority: Authority, cluster: Cluster) -> None:
    for number, server in enumerate(cluster.servers):
        assert server.host
        name = f"server{number}"
        authority.issue(name, f"IP:{server.host.address},DNS:{name}.test")


def point(link: Path, target: Path) -> None:
    """Certificate and key must change in one step, because a server may read between two."""
    temporary = link.with_name(f"{link.name}.new")
    temporary.symlink_to(target)
    os.replace(temporary, link)


def test_a_new_authority_under_load(record_property) -> None:
    cluster = Cluster("redis", 2)
    load = None
    try:
        old = cluster.authority
        new = Authority(cluster.folder / "new")
        first = cluster.folder / "first"
        first.mkdir()
        current = cluster.folder / "current"
        point(current, first)
        for number, end in itertools.product(range(2), ("pem", "key")):
            file = old.folder / f"server{number}.{end}"
            (first / file.name).write_bytes(file.read_bytes())
            point(file, current / file.name)
        only_old = cluster.folder / "only_old.pem"
        only_old.write_bytes(old.ca.read_bytes())

        load = Load(cluster)
        # 1. Clients trust both authorities; a host's daemon keeps its connections all the time.
        old.ca.write_bytes(old.ca.read_bytes() + new.ca.read_bytes())
        daemon = cluster.daemon()
        assert daemon.call(first=1_000_000)[0].right
        assert "a certificate is refused" in cluster.call(ca=new.ca)[0].error
        load.wait_for_turns()
        # 2. Servers change.
        issue(new, cluster)
        point(current, new.folder)
        for turn in range(2):
            address = cluster.addresses(turn).partition(",")[0]
            wait_until(
                lambda at=address: not cluster.call(ca=new.ca, server=at)[0].error,
                "the new certificate is used",
            )
            load.wait_for_turns()
            # 3. Nobody needs the old authority any more.
            assert "a certificate is refused" in cluster.call(ca=only_old, server=address)[0].error
        assert daemon.call(first=1_000_001)[0].right
        assert daemon.compiled() == [], "it was never without servers"
        load.wait_for_turns()
        found = load.stop()
        record_property("calls", len(found))
        assert [o for o in found if o.error or not o.right] == []
    finally:
        if load is not None:
            load.stop()
        cluster.close()
