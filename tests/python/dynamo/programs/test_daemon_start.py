"""How _client starts the server of a cache folder, finds it, and replaces it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from eventually import HANG_LIMIT_S, wait_until
from fake_daemon import Daemon, _client, graph, key
from fake_daemon import daemon as daemon
from processes import output_of, suspend

from habana_frameworks.torch.dynamo.compile_backend import config
from habana_frameworks.torch.dynamo.programs import local_daemon


def test_many_processes_start_one_server_and_compile_once(daemon: Daemon) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import _client\n"
        "client = _client.CompileClient(_client.ensure_server(sys.argv[2], sys.argv[3]))\n"
        "p = client.compile(bytes.fromhex(sys.argv[4]), {}, 'gaudi2', '')\n"
        "print(client.hello()['pid'], p.origin)\n"
    )
    where = str(Path(_client.__file__).parent)
    arguments = [where, str(daemon.binary), str(daemon.folder / "cache")]
    arguments.append(graph(daemon.held()).hex())
    processes = [
        subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    wait_until(lambda: daemon.compile_count() == 1)
    wait_until(lambda: daemon.client().stats()["compile.coalesced"] == 5)
    daemon.release()
    lines = [p.communicate(timeout=HANG_LIMIT_S)[0].decode().split() for p in processes]
    assert len({pid for pid, _ in lines}) == 1
    assert sorted(origin for _, origin in lines) == ["coalesced"] * 5 + ["compiled"]
    assert daemon.compile_count() == 1


def test_a_server_that_is_started_by_hand_in_between_is_found(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = daemon.folder / "gate"
    gate.touch()
    by_hand = [str(daemon.binary), "--daemon", "--cache-dir", str(daemon.folder / "cache")]

    def start_by_hand() -> None:
        wait_until(lambda: Path(f"{gate}.reached").exists())
        without_gate = {k: v for k, v in os.environ.items() if k != "HPU_FAKE_START_GATE"}
        with subprocess.Popen(by_hand, env=without_gate, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        gate.unlink()

    monkeypatch.setenv("HPU_FAKE_START_GATE", str(gate))
    with ThreadPoolExecutor(1) as other:
        started = other.submit(start_by_hand)
        assert daemon.compile("quick").origin == "compiled"
        started.result()
    assert "another compile server holds" in daemon.log()


def test_a_server_of_another_build_is_replaced(daemon: Daemon, tmp_path: Path) -> None:
    other = tmp_path / "other_server"
    shutil.copy(daemon.binary, other)
    with other.open("ab") as file:
        file.write(b"another build")
    client = daemon.client()
    before = client.hello()
    socket = _client.ensure_server(str(other), str(daemon.folder / "cache"))
    after = _client.CompileClient(socket).hello()
    assert after["build_id"] != before["build_id"] and after["pid"] != before["pid"]
    assert client.hello() == after, "an old client finds the new server by itself"


def test_a_killed_server_is_noticed_and_started_again(daemon: Daemon) -> None:
    daemon.compile("quick")
    client = daemon.client()
    pid = client.hello()["pid"]

    def kill(stage: str, done: int, total: int) -> None:
        if stage == "held":
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(_client.ServerUnavailable):
        daemon.compile(daemon.held(), client, progress=kill)
    assert os.path.exists(_client.server_paths(str(daemon.folder / "cache"))["socket"]), (
        "left behind"
    )
    assert daemon.client().get(key("quick")).origin == "store"


def test_links_in_a_folder_of_many_users_are_not_followed(daemon: Daemon) -> None:
    """Log and build id are in the private folder where others can write to the cache folder."""
    cache = daemon.folder / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    other = daemon.folder / "other"
    other.write_text("kept")
    for name in ("server.log", "build_id"):
        (cache / name).symlink_to(other)
    daemon.compile("quick")
    assert other.read_text() == "kept"
    assert "compile server ready" in (cache / "run/server.log").read_text()
    assert len((cache / "run/build_id").read_text().splitlines()) >= 1


def test_the_daemon_has_the_deadline_it_is_started_with(daemon: Daemon) -> None:
    client = _client.CompileClient(daemon.start(compile_timeout_s=0.3))
    with pytest.raises(_client.CompileError, match="took longer than 300 ms") as caught:
        daemon.compile(daemon.held(), client)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert not isinstance(caught.value, _client.ServerUnavailable)


def test_a_forked_child_is_refused_and_the_parent_goes_on(daemon: Daemon) -> None:
    client = daemon.client()
    daemon.compile("quick", client)
    child = os.fork()
    if child == 0:
        try:
            client.hello()
        except _client.ServerUnavailable as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    ended = os.pidfd_open(child)
    assert select.select([ended], [], [], HANG_LIMIT_S)[0], "the child hangs"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(ended)
    assert daemon.compile("quick 2", client).origin == "compiled"


def test_a_long_cache_path_gets_a_short_socket(daemon: Daemon) -> None:
    folder = daemon.folder / ("long" * 30)
    socket = _client.ensure_server(str(daemon.binary), str(folder))
    try:
        assert len(socket) < 108 and not socket.startswith(str(folder))
        assert os.stat(os.path.dirname(socket)).st_mode & 0o777 == 0o700
        assert (folder / "store" / "db").exists()
    finally:
        _client.CompileClient(socket).shutdown()
        shutil.rmtree(os.path.dirname(socket), ignore_errors=True)


def test_a_server_that_cannot_start_says_why(daemon: Daemon, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(_client.ServerUnavailable, match="no such library"):
        _client.ensure_server(str(broken), str(daemon.folder / "cache"))
    with pytest.raises(_client.CompileError) as caught:
        _client.ensure_server(str(tmp_path / "missing"), str(daemon.folder / "cache"))
    assert caught.value.code == "NOT_FOUND"


_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(path: str) -> Iterator[int]:
    """Another process holds the lock; yields its process id."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()


def test_a_stopped_process_that_holds_the_start_lock_is_named(daemon: Daemon) -> None:
    """Nobody waits until its own deadline of 20 s."""
    socket = _client.server_paths(str(daemon.folder / "cache"))["socket"]
    with held(socket + ".start") as holder:
        suspend(holder)
        with pytest.raises(_client.ServerUnavailable) as caught:
            daemon.start(start_timeout_s=600)
        assert (
            f"process {holder} holds {socket}.start and is stopped; let it go on: "
            f"kill -CONT {holder}, or end it: kill -9 {holder}"
        ) in str(caught.value)
        # The process continues, and is as slow as it may be.
        os.kill(holder, signal.SIGCONT)
        with pytest.raises(_client.ServerUnavailable) as caught:
            daemon.start(start_timeout_s=0.1)
        assert (
            f"{socket}.start stayed locked by process {holder}; if it hangs, end it: kill -9"
        ) in str(caught.value)
    assert daemon.compile("quick").origin == "compiled"


@pytest.mark.parametrize("name", ["server.sock.start", "server.sock.lock", "server.sock.pub"])
def test_a_fifo_in_place_of_a_file_beside_the_socket_hangs_nobody(
    daemon: Daemon, name: str
) -> None:
    run = daemon.folder / "cache/run"
    daemon.compile("quick")
    socket = daemon.start()
    _client.CompileClient(socket).shutdown()
    wait_until(lambda: _client.server_process(socket) is None)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    if name.endswith(".pub"):  # which every server writes anew
        assert daemon.compile("quick").origin == "store"
        assert (run / name).is_file()
        return
    with pytest.raises(_client.ServerUnavailable, match="it is a FIFO and not a regular file"):
        daemon.start()


@pytest.mark.parametrize("name", ["server.log", "build_id"])
def test_a_fifo_in_place_of_a_log_or_of_the_build_ids_hangs_nobody(
    daemon: Daemon, name: str
) -> None:
    cache = daemon.folder / "cache"
    cache.mkdir(mode=0o700)
    os.mkfifo(cache / name)
    assert daemon.compile("quick").origin == "compiled"


@pytest.mark.parametrize(("own", "daemons"), [(0.5, 600.0), (1000.0, 1000.0)])
def test_a_short_deadline_of_one_process_is_not_the_daemons(own, daemons):
    with config.patch(compile_timeout_s=own):
        assert local_daemon._daemons_own_limit() == daemons


def test_programs_compile_where_standard_error_is_closed():
    done = output_of(
        "import sys, torch, habana_frameworks.torch\n"
        "sys.stderr = None\n"
        "compiled = torch.compile(lambda x: x * 4.25 + 1, backend='hpu_backend')\n"
        "print(compiled(torch.ones(2).to('hpu')).tolist())\n"
    )
    assert "[5.25, 5.25]" in done.stdout
