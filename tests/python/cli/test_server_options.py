"""hpu-compile serve --check-config: settings that cannot work are named before a server starts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_frameworks.torch import native

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command")

_NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
_CALLER = f"node7 team-a read sha256:{'0' * 64}\n"


def openssl(folder: Path, arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def issued(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("issued")
    for name in ("server", "other"):
        openssl(folder, f"req -x509 {_NEW_KEY} -subj /CN={name} -keyout {name}.key -out {name}.pem")
    openssl(folder, f"req {_NEW_KEY} -subj /CN=leaf -keyout leaf.key -out leaf.csr")
    openssl(
        folder,
        "x509 -req -CA server.pem -CAkey server.key -CAcreateserial -in leaf.csr -out leaf.pem",
    )
    return folder


class Server:
    """The options of a server that could start, and the files that they name."""

    def __init__(self, folder: Path, issued: Path) -> None:
        self.folder = folder
        for name in ("server.pem", "server.key", "leaf.pem", "other.key"):
            shutil.copy(issued / name, folder / name)
        self.write("callers", _CALLER)
        self.write("token", "secret\n")
        (folder / "keys").mkdir()
        self.options = {
            "cache-dir": str(folder / "cache"),
            "listen": "tls://127.0.0.1:8471",
            "callers": str(folder / "callers"),
            "tls-certificate": str(folder / "server.pem"),
            "tls-key": str(folder / "server.key"),
            "tls-client-ca": str(folder / "server.pem"),
            "trusted-keys": str(folder / "keys"),
            "audit-log": str(folder / "audit.log"),
            "upstream": "tls://h:1",
            "upstream-ca": str(folder / "server.pem"),
            "upstream-certificate": str(folder / "server.pem"),
            "upstream-key": str(folder / "server.key"),
            "upstream-token": str(folder / "token"),
            "redis": "h:1",
            "redis-password": str(folder / "token"),
        }

    def path(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        self.path(name).write_text(text)
        self.path(name).chmod(mode)

    def check(self, in_file: bool = False) -> tuple[int, str]:
        options = [f"--{name}={value}" for name, value in self.options.items()]
        if in_file:
            lines = [f'{name} = "{value}"' for name, value in self.options.items()]
            self.write("config", "\n".join(lines) + "\n")
            options = ["--config", str(self.path("config"))]
        done = subprocess.run(
            [native.server_binary(), "--check-config", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).strip()


@pytest.fixture
def server(tmp_path, issued) -> Server:
    return Server(tmp_path, issued)


def test_good_options_are_good(server) -> None:
    assert server.check() == (0, "the options are good")
    assert server.check(in_file=True) == (0, "the options are good")
    assert not server.path("cache").exists() and not server.path("audit.log").exists()


FILES = ("callers", "tls-certificate", "tls-key", "tls-client-ca", "upstream-ca", "upstream-key")
FILES += ("upstream-certificate", "upstream-token", "redis-password")


@pytest.mark.parametrize("option", FILES)
def test_what_is_no_regular_file_is_named_and_not_waited_for(server, option) -> None:
    there = server.path("there")
    for lay, kind in ((os.mkfifo, "a FIFO"), (Path.mkdir, "a folder")):
        lay(there)
        server.options[option] = str(there)
        code, text = server.check()
        assert code == 1
        assert f"{there} cannot be read: it is {kind} and not a regular file" in text
        Path.rmdir(there) if there.is_dir() else there.unlink()
    server.options[option] = "/dev/zero"
    assert "it is a device and not a regular file" in server.check()[1]
    server.options[option] = str(there)
    assert f"there is no file {there}" in server.check()[1]


def test_the_options_file_itself(server) -> None:
    fifo = server.path("fifo")
    os.mkfifo(fifo)
    for there, text in ((fifo, "it is a FIFO"), (server.folder, "it is a folder")):
        done = subprocess.run(
            [native.server_binary(), "--check-config", "--config", str(there)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode != 0
        assert text in done.stderr


def chmod(name: str, mode: int) -> Callable[[Server], object]:
    return lambda server: server.path(name).chmod(mode)


def write(name: str, text: str) -> Callable[[Server], object]:
    return lambda server: server.write(name, text)


def point(option: str, value: str) -> Callable[[Server], object]:
    return lambda server: server.options.update({option: value.format(server.folder)})


def bind_regular(server: Server) -> None:
    server.write("taken", "somebody's")
    server.options["socket"] = str(server.path("taken"))


WRONG: dict[str, tuple[Callable[[Server], object], str]] = {
    "key of another certificate": (
        point("tls-key", "{}/other.key"),
        "--tls-key {0}/other.key is not the key of the first certificate in --tls-certificate",
    ),
    "client key of another certificate": (
        point("upstream-key", "{}/other.key"),
        "--upstream-key {0}/other.key is not the key of the first certificate in",
    ),
    "key without a key": (write("server.key", "\n"), "server.key has no private key in PEM"),
    "empty certificate": (write("server.pem", ""), "server.pem has no certificate in PEM"),
    "authority that is none": (
        point("tls-client-ca", "{}/leaf.pem"),
        "certificate 1 is not an authority's: it may sign no other",
    ),
    "key that others write": (
        chmod("server.key", 0o666),
        "--tls-key: {0}/server.key can be written by other users; chmod go-w",
    ),
    "key that others read": (
        chmod("server.key", 0o644),
        "--tls-key: {0}/server.key is a secret that every user can read; chmod 600",
    ),
    "callers that others write": (
        chmod("callers", 0o666),
        "callers' file: {0}/callers can be written by other users; chmod go-w",
    ),
    "token that others read": (
        chmod("token", 0o644),
        "--upstream-token: {0}/token is a secret that every user can read",
    ),
    "damaged callers": (write("callers", _CALLER[:-9]), "line 1, field CREDENTIAL"),
    "no caller": (write("callers", "# nobody\n"), "callers' file {0}/callers names no caller"),
    "damaged trusted key": (
        write("keys/a.pub", "short"),
        "--trusted-keys: key file {0}/keys/a.pub has 5 bytes instead of 32",
    ),
    "no trusted keys": (point("trusted-keys", "{}/none"), "none: No such file or directory"),
    "long socket": (point("socket", "/" + "x" * 120), "at most 107 are possible"),
    "socket that is none": (bind_regular, "there is something that is no socket"),
    "audit log in no folder": (
        point("audit-log", "{}/none/log"),
        "the audit log {0}/none/log cannot be opened: No such file or directory",
    ),
    "audit log that is a folder": (point("audit-log", "{}/keys"), "keys cannot be opened: Is a"),
    "empty token": (write("token", "\n"), "no token in the first line of {0}/token"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_work_is_named(server, what) -> None:
    spoil, text = WRONG[what]
    spoil(server)
    code, told = server.check()
    assert code == 1
    assert text.format(server.folder) in told


def test_an_audit_log_may_be_a_pipe_that_somebody_reads(server) -> None:
    fifo = server.path("audit.log")
    os.mkfifo(fifo)
    code, text = server.check()
    assert (code, "it is a FIFO that nobody reads" in text) == (1, True)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert server.check() == (0, "the options are good")
    finally:
        os.close(reader)


def test_a_server_that_cannot_listen_says_why(server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"tls://127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [native.server_binary(), "--foreground", "--listen", address]
            + [f"--{name}={server.options[name]}" for name in ("cache-dir", "callers")]
            + [f"--{name}={server.options[name]}" for name in ("tls-certificate", "tls-key")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert f"cannot listen: {address}: Address already in use" in done.stderr
