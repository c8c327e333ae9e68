"""Files of the daemon that others remove or open while it runs: this is noticed, reported and
repaired.

The daemon is the product's server around a fake compiler (tests/service/fake_backend.h).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import HANG_LIMIT_S, wait_until
from fake_daemon import Daemon, _client, fake_server, graph, key
from processes import suspend


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, fake_server())
    yield made
    made.stop()


def paths(daemon: Daemon) -> dict[str, Path]:
    found = _client.server_paths(str(daemon.folder / "cache"))
    return {name: Path(path) for name, path in found.items()}


def process(daemon: Daemon) -> tuple[int, bool] | None:
    found: tuple[int, bool] | None = _client.server_process(str(paths(daemon)["socket"]))
    return found


@pytest.mark.parametrize("removed", ["socket", "lock", "key", "folder"])
def test_what_lies_in_the_socket_folder_is_made_again(daemon: Daemon, removed: str) -> None:
    """A new process gets through once the daemon has noticed, which it looks for every second."""
    daemon.compile("quick")
    pid = daemon.client().hello()["pid"]
    socket = paths(daemon)["socket"]
    if removed == "folder":
        shutil.rmtree(socket.parent)
        # otherwise a new client would start a server before the removal is noticed
        wait_until(socket.exists)
    else:
        suffix = {"socket": "", "lock": ".lock", "key": ".pub"}[removed]
        Path(f"{socket}{suffix}").unlink()
    client = daemon.client()
    if removed == "key":
        wait_until(Path(f"{socket}.pub").exists)
    wait_until(lambda: process(daemon) == (pid, False))
    assert client.hello()["pid"] == pid
    assert client.get(key("quick")).origin == "store"
    assert " was removed, " in paths(daemon)["log"].read_text()


def test_a_daemon_that_cannot_listen_again_is_named_before_the_deadline(daemon: Daemon) -> None:
    pid = daemon.client().hello()["pid"]
    suspend(pid)
    try:
        paths(daemon)["socket"].unlink()
        started = time.monotonic()
        with pytest.raises(_client.ServerUnavailable) as caught:
            daemon.start(start_timeout_s=10 * HANG_LIMIT_S)
        assert time.monotonic() - started < HANG_LIMIT_S, "not after all of its time"
        assert f"process {pid} holds " in str(caught.value)
        assert f"kill -9 {pid}" in str(caught.value)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert daemon.client().hello()["pid"] == pid


def test_a_daemon_that_accepts_and_says_nothing_is_named_before_the_deadline(
    daemon: Daemon,
) -> None:
    pid = daemon.client().hello()["pid"]
    suspend(pid)
    try:
        started = time.monotonic()
        with pytest.raises(_client.ServerUnavailable) as caught:
            daemon.start(start_timeout_s=10 * HANG_LIMIT_S)
        assert time.monotonic() - started < HANG_LIMIT_S, "not after all of its time"
        assert "does not answer" in str(caught.value)
        assert f"kill -9 {pid}" in str(caught.value)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert daemon.client().hello()["pid"] == pid


def test_the_lock_tells_who_serves_and_who_stops(daemon: Daemon) -> None:
    assert process(daemon) is None
    client = daemon.client()
    pid = client.hello()["pid"]
    assert process(daemon) == (pid, False)
    client.shutdown()
    wait_until(lambda: process(daemon) in (None, (pid, True)))
    wait_until(lambda: process(daemon) is None)


@pytest.mark.parametrize("what", ["store", "store/db", "."])
def test_a_removed_store_is_told_and_the_next_daemon_has_a_new_one(
    daemon: Daemon, what: str
) -> None:
    daemon.compile("quick")
    before = daemon.client().hello()["pid"]
    log = paths(daemon)["log"]
    lines = log.open()  # stays readable after the file is removed
    shutil.rmtree(daemon.folder / "cache" / what)
    wait_until(lambda: process(daemon) is None and not alive(before))
    text = lines.read()
    assert "was removed while it was open; what it held is compiled again" in text
    assert f"the store in {daemon.folder}/cache/store" in text
    assert daemon.client().get(key("quick")) is None
    assert daemon.compile("quick").origin == "compiled"
    assert daemon.client().hello()["pid"] != before
    daemon.client().shutdown()
    wait_until(lambda: process(daemon) is None)
    assert daemon.client().get(key("quick")).origin == "store", "the new store keeps"


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_client_with_a_connection_goes_over_to_the_next_daemon(daemon: Daemon) -> None:
    daemon.compile("quick")
    client = daemon.client()
    pid = client.hello()["pid"]
    shutil.rmtree(daemon.folder / "cache/store")
    wait_until(lambda: not alive(pid))
    with pytest.raises(_client.ServerUnavailable):
        client.hello()
    daemon.start()
    assert client.hello()["pid"] != pid


def test_every_file_is_the_users_alone_whatever_the_umask(daemon: Daemon) -> None:
    script = (
        "import os, sys; os.umask(0); sys.path.insert(0, sys.argv[1])\n"
        "import _client\n"
        "client = _client.CompileClient(_client.ensure_server(sys.argv[2], sys.argv[3]))\n"
        "assert client.hello()['pid']\n"
    )
    where = str(Path(_client.__file__).parent)
    folder = daemon.folder / "made/by/us/cache"
    try:
        subprocess.run(
            [sys.executable, "-c", script, where, str(daemon.binary), str(folder)],
            check=True,
            timeout=60,
        )
        client = _client.CompileClient(_client.server_paths(str(folder))["socket"])
        client.compile(graph("quick"), {}, "gaudi2", "")
        modes = {
            str(path.relative_to(daemon.folder)): oct(path.stat().st_mode & 0o7777)
            for path in (daemon.folder / "made").rglob("*")
        }
        assert {"made/by/us/cache/build_id", "made/by/us/cache/store/db/LOCK"} <= set(modes)
        public = {"made/by/us/cache/run/server.sock.pub", "made/by/us/cache/store/signing.pub"}
        readable = {path: mode for path, mode in modes.items() if int(mode, 8) & 0o077}
        assert set(readable) <= public, readable
        assert not any(int(mode, 8) & 0o022 for mode in modes.values())
    finally:
        _client.CompileClient(_client.server_paths(str(folder))["socket"]).shutdown()
