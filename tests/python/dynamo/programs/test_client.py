"""Requests of _client to a server process with a fake compiler."""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import threading

import pytest
from eventually import HANG_LIMIT_S
from fake_daemon import Daemon, _client, graph, key
from fake_daemon import daemon as daemon
from processes import suspend


def test_key_of_known_fields_is_pinned() -> None:
    """Changing this key invalidates every alias, so change it together with the salt
    (docs/cache_key.md)."""
    builder = _client.KeyBuilder()
    builder.field("graph", "relu(x)")
    builder.field("rank", 2)
    builder.field("constant", b"\x00\x01")

    def framed(data: bytes) -> bytes:
        return struct.pack("<q", len(data)) + data

    expected = hashlib.sha256(
        framed(b"hpu-front-end-key-v1")
        + framed(b"graph") + framed(b"text") + framed(b"relu(x)")
        + framed(b"rank") + framed(b"number") + struct.pack("<q", 2)
        + framed(b"constant") + framed(b"bytes") + framed(b"\x00\x01")
    )  # fmt: skip
    assert builder.digest() == expected.digest()
    assert (
        builder.digest().hex() == "d35ea95030653a42943a95523c08aed9f547005bf622d424f3b02d034cd651ca"
    )
    assert builder.factors() == [("graph", "relu(x)"), ("rank", "2"), ("constant", "0001")]


def test_key_tells_kinds_apart_and_refuses_others() -> None:
    digests = set()
    for value in (1, "1", b"1"):
        builder = _client.KeyBuilder()
        builder.field("x", value)
        digests.add(builder.digest())
    assert len(digests) == 3
    with pytest.raises(TypeError, match="key field x must be str, int or bytes, not float"):
        _client.KeyBuilder().field("x", 1.5)


def test_cold_warm_and_after_restart(daemon: Daemon) -> None:
    stages = []

    def progress(stage: str, done: int, total: int) -> None:
        stages.append((stage, done, total))
        if stage == "held":
            daemon.release()

    name = daemon.held("size:1000000")
    first = daemon.compile(name, progress=progress)
    assert first.origin == "compiled"
    # It depends on the machine which tenths arrive; those that do belong to this stage and are in
    # order.
    steps = [(done, total) for stage, done, total in stages if stage == "held"]
    assert steps == sorted(set(steps))
    assert steps[0] == (0, 10) and {total for _, total in steps} == {10}
    assert len(first.recipes) == 1 and len(first.recipes[0]) == 1_000_000
    digest, size = first.manifest["recipes"][0]
    assert (hashlib.sha256(first.recipes[0]).hexdigest(), 1_000_000) == (digest, size)
    factors = ["compiler", "device", "isa_level", "deterministic", "graph"]
    assert [name for name, _ in first.manifest["factors"]] == factors
    client = daemon.client()
    found = client.get(key(name))
    assert found.origin == "store"
    assert bytes(found.program) == bytes(first.program)
    assert memoryview(found.recipes[0]) == memoryview(first.recipes[0])
    assert memoryview(found.recipes[0]).readonly
    by_content = client.get_content(bytes.fromhex(first.manifest["key"]))
    assert bytes(by_content.program) == bytes(first.program)
    assert client.get(key("unknown")) is None
    assert client.get_content(key("unknown")) is None
    client.shutdown("restart")
    assert daemon.client().get(key(name)).origin == "store"
    assert daemon.compile_count() == 1
    (listed,) = daemon.client().list()
    assert listed["key"] == first.manifest["key"]
    (alias,) = listed["aliases"]
    assert alias["front_end_key"] == key(name).hex()
    assert alias["label"] == f"label {name}"
    assert alias["factors"] == [("graph", name)]
    again = daemon.compile(name, skip_cache_lookup=True)
    assert again.origin == "compiled" and daemon.compile_count() == 2


def test_another_graphs_front_end_key_stays_with_who_wrote_it(daemon: Daemon) -> None:
    """Model B's graph sent with model A's key: the program for A is always made from A's graph."""
    a = daemon.compile("size:10 A")
    attack = daemon.compile("size:20 B", front_end=(key("size:10 A"), [("graph", "A")], "A"))
    assert len(attack.recipes[0]) == 20
    client = daemon.client()
    assert attack.manifest["key"] != a.manifest["key"]
    by_content = client.get_content(bytes.fromhex(a.manifest["key"]))
    assert bytes(by_content.program) == bytes(a.program)
    # This tenant itself wrote B into the alias; a process of A that compiles ends that.
    assert client.get(key("size:10 A")).manifest["key"] == attack.manifest["key"]
    again = daemon.compile("size:10 A")
    assert (again.manifest["key"], again.origin) == (a.manifest["key"], "store")
    assert bytes(client.get(key("size:10 A")).program) == bytes(a.program)
    assert client.stats()["alias.replaced"] == 2
    assert "alias replaced front_end_key=" + key("size:10 A").hex() in daemon.log()
    assert daemon.compile_count() == 2


def test_an_option_that_is_no_compile_option_is_refused(daemon: Daemon) -> None:
    client = daemon.client()
    for options, text in (
        ({"no_such": "1"}, "unknown compile option no_such; there are: deterministic"),
        ({"deterministic": "True"}, "option deterministic is 'True'; allowed: true, false"),
    ):
        with pytest.raises(_client.CompileError, match=text) as caught:
            client.compile(graph("quick"), options, "gaudi2", "x86-64-v3")
        assert caught.value.code == "INVALID_ARGUMENT"
    assert daemon.compile_count() == 0


def test_every_request_is_in_the_log_with_its_keys(daemon: Daemon) -> None:
    program = daemon.compile("quick")
    client = daemon.client()
    client.get(key("quick"))
    client.get(key("unknown"))
    log = daemon.log()
    content = program.manifest["key"]
    assert f"answered key={content} origin=compiled front_end_key={key('quick').hex()}" in log
    assert f"fetched front_end_key={key('quick').hex()} program={content}" in log
    assert f"not fetched front_end_key={key('unknown').hex()} reason=NOT_FOUND" in log


def test_verdicts_carry_their_code(daemon: Daemon) -> None:
    for name, code in (("unimplemented", "UNIMPLEMENTED"), ("crash", "INTERNAL")):
        with pytest.raises(_client.CompileError) as caught:
            daemon.compile(name)
        assert caught.value.code == code
        assert not isinstance(caught.value, _client.ServerUnavailable)
    assert daemon.compile("quick").origin == "compiled"


def test_calls_end_at_their_deadline(daemon: Daemon) -> None:
    with pytest.raises(_client.CompileError, match="that compile_timeout_s gives") as caught:
        daemon.compile(daemon.held(), timeout_s=1)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert not isinstance(caught.value, _client.ServerUnavailable), "the server is there"


def test_a_server_that_does_not_answer_is_unavailable(daemon: Daemon) -> None:
    socket = daemon.start()
    client = _client.CompileClient(socket, call_timeout_s=5)
    pid = client.hello()["pid"]
    suspend(pid)
    try:
        with pytest.raises(_client.ServerUnavailable, match="did not answer within 5000 ms"):
            client.get(key("any"))
    finally:
        os.kill(pid, signal.SIGCONT)


def test_ctrl_c_ends_a_compile(daemon: Daemon) -> None:
    client = daemon.client()
    compiling = threading.Event()

    def interrupt() -> None:
        assert compiling.wait(HANG_LIMIT_S)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        daemon.compile(daemon.held(), client, progress=lambda *_: compiling.set())
    thread.join()
    assert client.hello()["pid"] > 0


def test_an_exception_of_the_progress_callback_comes_through(daemon: Daemon) -> None:
    def progress(stage: str, done: int, total: int) -> None:
        if stage == "held":
            raise ZeroDivisionError(stage)

    with pytest.raises(ZeroDivisionError, match="held"):
        daemon.compile(daemon.held(), progress=progress)


def test_fetching_a_megabyte_is_quick(daemon: Daemon) -> None:
    daemon.compile("size:1000000")
    times = []
    for _ in range(10):
        client = daemon.client()
        client.hello()
        times.append(client.get(key("size:1000000")).fetch_ms)
    # 3 ms when the machine is free; the bound is loose because others use it too.
    assert min(times) < 20
