"""A cache folder that others can write to: no file that they put there hangs or misleads us."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_daemon import Daemon
from fake_daemon import daemon as daemon

_OTHER_USER = 65534


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "fifo": lambda path, _: os.mkfifo(path, 0o666),
    "folder": lambda path, _: path.mkdir(),
    "link": lambda path, secret: path.symlink_to(secret),
    "file": lambda path, _: path.write_text("1 serving\n" * 5),
    "socket": lambda path, _: bind(path),
}
NAMES = ("server.log", "build_id", "run", "run/server.sock.lock", "store", "store/signing.key")


def as_other_user(work: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.setgid(_OTHER_USER)
            os.setuid(_OTHER_USER)
            os.umask(0)
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that others can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="hpu-") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
@pytest.mark.parametrize("name", NAMES)
def test_what_another_user_lays_there(daemon: Daemon, public: Path, name: str) -> None:
    secret = public / "secret"
    secret.write_text("kept")
    secret.chmod(0o600)
    for kind, lay in KINDS.items():
        cache = public / f"{kind}/cache"
        cache.mkdir(parents=True)
        cache.chmod(0o777)
        path = cache / name

        def work(path: Path = path, lay: Callable[[Path, Path], object] = lay) -> None:
            path.parent.mkdir(exist_ok=True)
            lay(path, secret)

        as_other_user(work)
        assert os.lstat(path).st_uid == _OTHER_USER, kind
        other = Daemon(cache.parent, daemon.binary)
        client = other.client()
        assert other.compile("quick", client).origin == "compiled", kind
        client.shutdown("test")
    assert secret.read_text() == "kept"
