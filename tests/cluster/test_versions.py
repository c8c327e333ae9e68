"""Builds and formats mix in a cluster: a program of another one is a miss, never an error."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from cluster import FAKE_SERVER, Cluster
from faults import first_graph


def test_two_builds_share_an_engine(cluster: Cluster) -> None:
    """Each host gets programs of its own build, from whichever server has it."""
    other_build = cluster.folder / "other/hpu_fake_compile_server"
    other_build.parent.mkdir()
    shutil.copy(FAKE_SERVER, other_build)
    with other_build.open("ab") as file:
        file.write(b"another build")
    cluster.servers[1].binary = other_build
    cluster.servers[1].restart()
    old = [cluster.daemon(first=n) for n in (0, 1, 2)]
    new = [cluster.daemon(first=n, binary=other_build) for n in (0, 1, 2)]
    assert old[0].build_id() != new[0].build_id()
    for number, hosts in ((0, [*old, *new]), (1, [*new, *old])):
        for host in hosts:
            assert first_graph(host, number)[1] in ("compiled", "store")
            cluster.settle()
    assert cluster.compiled() == {"quick #0": 2, "quick #1": 2}, "each once by each build"
    assert all(host.compiled() == [] for host in [*old, *new])
    counters = [server.counters() for server in cluster.servers]
    refused = ("verifying.damaged", "verifying.untrusted", "verifying.bad_aliases")
    assert [c[name] for c in counters for name in refused] == [0] * 9
    # A host whose build no server has compiles for itself.
    cluster.servers[1].kill()
    (made,) = new[0].call(first=2)
    assert made.right
    assert new[0].compiled() == ["quick #2"]


def _field(number: int, value: bytes) -> bytes:
    assert len(value) < 1 << 14
    size = len(value)
    length = bytes([size]) if size < 128 else bytes([size % 128 + 128, size // 128])
    return bytes([number << 3 | 2]) + length + value


def _fields(message: bytes) -> list[bytes]:
    """Reads a message that has only text fields."""
    found = []
    while message:
        size, begin = message[1], 2
        if size >= 128:
            size, begin = size - 128 + (message[2] << 7), 3
        found.append(message[begin : begin + size])
        message = message[begin + size :]
    return found


def _sign(folder: Path, secret: bytes, text: bytes) -> bytes:
    """Signs with Ed25519, as a server with this key would."""
    key, data = folder / "key.der", folder / "data"
    key.write_bytes(bytes.fromhex("302e020100300506032b657004220420") + secret[:32])
    data.write_bytes(text)
    command = ["openssl", "pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", key, "-in"]
    return subprocess.run([*command, data], capture_output=True, check=True).stdout


def test_records_of_a_later_version_are_misses(cluster: Cluster) -> None:
    """The record is signed by a trusted server, in a format that this one does not know."""
    first, second = (address for address in cluster.addresses().split(",")[:2])
    assert cluster.call(server=first)[0].right
    cluster.settle()
    secret = (cluster.servers[0].folder / "store/signing.key").read_bytes()
    texts = {"manifests": b"hpu-recipe-manifest-v1", "aliases": b"hpu-front-end-alias-v1"}
    for kind, text in texts.items():
        for name in cluster.engine.objects(kind):
            record, signature, public_key = _fields(cluster.engine.read(name))
            assert _sign(cluster.folder, secret, text + record) == signature, "as servers do"
            assert record[0] == 0x08, "the version comes first"
            later = record[:1] + b"\x63" + record[2:]
            signature = _sign(cluster.folder, secret, text + later)
            fields = enumerate((later, signature, public_key), 1)
            cluster.engine.write(name, b"".join(_field(n, value) for n, value in fields))
    (looked,) = cluster.call(server=second, call="get")
    assert looked.origin == "miss"
    (made,) = cluster.call(server=second)
    assert (made.origin, made.right) == ("compiled", True)
    counters = cluster.servers[1].counters()
    assert counters["verifying.damaged"] == counters["verifying.untrusted"] == 0
    assert counters["redis.quarantined"] == 0
