"""Damaged or foreign values are never handed out, whatever is in the engine or in a store: they are
counted, compiled again, and then right for everybody."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, Server
from damage import DAMAGES, append
from eventually import wait_until
from hostile_engine import MODES, HostileEngine

PROGRAMS = 48


def from_one_server(cluster: Cluster, number: int, **options: object) -> list:
    server = cluster.addresses(number).split(",")[0]
    return cluster.call(server=server, count=PROGRAMS, in_order=True, **options)


RECIPE_BYTES = 100  # recipes of the fake compiler; its programs are larger


def objects(cluster: Cluster, kind: str) -> list[bytes]:
    if kind not in ("programs", "recipes"):
        return cluster.engine.objects(kind)
    names = cluster.engine.objects("blobs")
    is_recipe = {name: len(cluster.engine.read(name)) == RECIPE_BYTES for name in names}
    return [name for name in names if is_recipe[name] == (kind == "recipes")]


@pytest.mark.parametrize("kind", ["manifests", "aliases", "programs", "recipes"])
def test_spoiled_values_of_the_engine(cluster: Cluster, kind: str) -> None:
    numbers = random.Random(kind)
    made = from_one_server(cluster, 0)
    assert {o.origin for o in made} == {"compiled"}
    cluster.settle()
    names = objects(cluster, kind)
    # Each program has an alias and a claim.
    assert len(names) == PROGRAMS * (2 if kind == "aliases" else 1)
    values = [cluster.engine.read(name) for name in names]
    damages = [DAMAGES[i % len(DAMAGES)] for i in range(len(names))]
    for i, (name, damage) in enumerate(zip(names, damages, strict=True)):
        value = damage(values[i], values[i - 1], numbers)
        assert value != values[i]
        cluster.engine.write(name, value)

    found = from_one_server(cluster, 1, call="get")
    assert [o for o in found if not o.right or o.error] == []
    # Bytes that were appended to a signed record are not signed, and are ignored.
    harmless = damages.count(append) if kind in ("manifests", "aliases") else 0
    assert sum(o.origin == "miss" for o in found) >= PROGRAMS - harmless
    made = from_one_server(cluster, 1)
    assert [o for o in made if not o.right or o.error] == []
    compiled = cluster.compiled()
    assert len(compiled) == PROGRAMS
    # A program without its alias is found by its graph, but not without its claim.
    again = PROGRAMS - harmless
    assert again <= compiled.total() - PROGRAMS <= again + harmless
    counters = cluster.servers[1].counters()
    refused = [f"verifying.{n}" for n in ("damaged", "untrusted", "bad_aliases")]
    refused += ["redis.incomplete"] if cluster.engine.name == "redis" else []
    assert sum(counters[name] for name in refused) >= PROGRAMS - harmless, "all are counted"

    cluster.settle()
    healed = from_one_server(cluster, 2)
    assert [(o.origin, o.right) for o in healed] == [("store", True)] * PROGRAMS
    assert cluster.compiled() == compiled


@pytest.fixture
def hostile() -> Iterator[Cluster]:
    made = Cluster(HostileEngine, 1)
    yield made
    made.close()


@pytest.mark.parametrize("mode", MODES)
def test_an_engine_that_answers_anything(hostile: Cluster, mode: str) -> None:
    hostile.engine.set_mode(mode)
    server = hostile.servers[0]
    (plain,) = hostile.call(say="quick before")
    assert plain.right, plain
    found = hostile.call(count=20, processes=4, threads=2, rounds=2, timeout_ms=120_000)
    assert [o for o in found if not o.right or o.error] == []
    compiled = hostile.compiled()
    assert set(compiled.values()) == {1}, "its own store has what it compiled"
    assert hostile.engine.requests() > 0, "it was asked"
    assert server.running().alive


def test_a_lease_that_nobody_will_ever_give_back(cluster: Cluster) -> None:
    """The lease is not one of ours, which all expire."""
    (made,) = cluster.call(server=cluster.addresses(0).split(",")[0])
    assert made.right
    cluster.settle()
    # A tenant's compilation has the name of its claim.
    aliases = cluster.engine.objects("aliases")
    cluster.engine.clear()
    for alias in aliases:
        cluster.engine.hold_lease(alias, None)
    (made,) = cluster.call(server=cluster.addresses(1).split(",")[0], timeout_ms=30_000)
    assert made.right, made
    assert cluster.compiled()["quick #0"] == 2
    assert cluster.servers[1].counters()["lease.without"] == 1


def copy_of(server: Server, folder: Path) -> Server:
    """Its store, with a server on this host."""
    shutil.copytree(server.folder / "store", folder / "store", dirs_exist_ok=True)
    return Server(None, folder, [])


@pytest.mark.parametrize("rounds", [6, pytest.param(300, marks=pytest.mark.long)])
def test_flipped_bits_in_the_files_of_a_store(folder: Path, rounds: int) -> None:
    """Flips one bit of any file; what a server then hands out is right or missing."""
    numbers = random.Random(rounds)
    original = Server(None, folder / "original", [])
    original.start()
    wanted = original.call(count=20, say="size:5000", in_order=True)
    assert {o.origin for o in wanted} == {"compiled"}
    original.running().terminate()
    missed = 0
    for number in range(rounds):
        server = copy_of(original, folder / str(number))
        files = [p for p in (server.folder / "store").rglob("*") if p.is_file()]
        files = [p for p in files if p.stat().st_size > 0 and p.name != "LOCK"]
        path = numbers.choices(files, [p.stat().st_size for p in files])[0]
        data = bytearray(path.read_bytes())
        bit = numbers.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
        server.start()
        try:
            found = server.call(count=20, say="size:5000", in_order=True, call="get")
            assert [o for o in found if not o.right or o.error] == [], (path.name, bit)
            missed += sum(o.origin == "miss" for o in found)
            made = server.call(count=20, say="size:5000", in_order=True)
            assert [o for o in made if not o.right or o.error] == [], (path.name, bit)
        finally:
            server.kill()
            shutil.rmtree(server.folder)
    assert missed > 0, "no flip hit anything"
    wait_until(lambda: not original.running().alive, "it has ended")
