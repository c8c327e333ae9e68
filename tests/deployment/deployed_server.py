"""Runs the compile server as deployment/ does: from the systemd unit or a manifest's arguments,
with the paths of a deployment replaced by those of a test's folder."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from habana_frameworks.torch import native

ROOT = Path(__file__).parents[2]
DEPLOYMENT = ROOT / "deployment"
UNIT = DEPLOYMENT / "systemd/hpu-compile-server.service"
CONFIGURATION = DEPLOYMENT / "server.conf"
PROGRAM = "/usr/lib/hpu-compile-server/hpu_compile_server"

_OPTION_LINE = re.compile(r"^(# )?([a-z][a-z-]*) = (.+)$")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def option_lines(text: str) -> dict[str, tuple[bool, str]]:
    """Of a configuration file: each option that it names, whether it is set, and its value."""
    found = {}
    for line in text.splitlines():
        if match := _OPTION_LINE.match(line):
            commented, name, value = match.groups()
            assert name not in found, f"{name} twice"
            found[name] = (commented is None, value.strip('"'))
    return found


def unit_settings(section: str) -> list[tuple[str, str]]:
    """Of the unit, in order; a name may come more than once."""
    settings, current = [], ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == section and "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            settings.append((name, value))
    return settings


def unit_command(name: str) -> list[str]:
    """The words of ExecStart or another setting that is a command."""
    return shlex.split(dict(unit_settings("Service"))[name])


class Folders:
    """Where a deployment's files are in a test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.configuration = root / "etc"
        self.state = root / "state"
        self.runtime = root / "run"
        for folder in (self.configuration, self.state, self.runtime):
            folder.mkdir(mode=0o700)
        (self.configuration / "keys").mkdir()
        (self.configuration / "tls").mkdir()
        (self.configuration / "callers").touch()

    def here(self, text: str) -> str:
        """The same with this test's paths."""
        return (
            text.replace(PROGRAM, native.server_binary())
            .replace("/etc/hpu-compile-server", str(self.configuration))
            .replace("/var/lib/hpu-compile-server", str(self.state))
            .replace("/run/hpu-compile-server", str(self.runtime))
        )

    def make_certificate(self) -> Path:
        """A certificate for this host that is its own authority."""
        tls = self.configuration / "tls"
        words = (
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj"
            " /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.crt"
        )
        subprocess.run(["openssl", *words.split()], cwd=tls, check=True, capture_output=True)
        return tls / "tls.crt"


def check(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the server to its end, --check-config added."""
    return subprocess.run(
        [*command, "--check-config"], capture_output=True, text=True, timeout=30, check=False
    )


class Server:
    """A running server; ready is when it says so to the socket of a service manager."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.log = folder / "stderr.log"
        path = folder / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, self.log.open("w") as log:
            manager.bind(str(path))
            manager.settimeout(0.2)
            self.process = subprocess.Popen(
                command, stderr=log, stdout=log, env={"NOTIFY_SOCKET": str(path)}
            )
            self._wait(manager)

    def _wait(self, manager: socket.socket) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                assert manager.recv(100) == b"READY=1"
                return
            except TimeoutError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, self.log.read_text()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=30)


def scrape(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as page:
        return page.read().decode()


def sandboxed(command: list[str]) -> list[str]:
    """The command under what the unit forbids."""
    return [sys.executable, str(Path(__file__).with_name("unit_sandbox.py")), *command]
