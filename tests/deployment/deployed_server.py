"""Runs the compile server as deployment/ does: from the systemd unit or a manifest's arguments,
with the paths of a deployment replaced by those of a test's folder."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from habana_frameworks.torch import native

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/python"))

from eventually import HANG_LIMIT_S, wait_until  # noqa: E402
from free_port import free_port  # noqa: E402

DEPLOYMENT = ROOT / "deployment"
UNIT = DEPLOYMENT / "systemd/hpu-compile-server.service"
CONFIGURATION = DEPLOYMENT / "server.conf"
PROGRAM = "/usr/lib/hpu-compile-server/hpu_compile_server"

TOKEN = "a token"

_MODEL = """
import torch
import habana_frameworks.torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x = torch.arange(16.0).reshape(2, 8)
with torch.no_grad():
    wanted = model(x)
    found = torch.compile(model.to("hpu"), backend="hpu_backend")(x.to("hpu")).cpu()
assert torch.allclose(wanted, found, atol=1e-5), (wanted, found)
"""

_server_numbers = itertools.count()

_OPTION_LINE = re.compile(r"^(# )?([a-z][a-z-]*) = (.+)$")


def option_lines(text: str) -> dict[str, tuple[bool, str]]:
    """The options that a configuration file names: for each, whether it is set, and its value."""
    found = {}
    for line in text.splitlines():
        if match := _OPTION_LINE.match(line):
            commented, name, value = match.groups()
            assert name not in found, f"{name} twice"
            found[name] = (commented is None, value.strip('"'))
    return found


def unit_settings(section: str) -> list[tuple[str, str]]:
    """The settings of a section of the unit, in order; a name may occur more than once."""
    settings, current = [], ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == section and "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            settings.append((name, value))
    return settings


def unit_command(name: str) -> list[str]:
    """The words of ExecStart, or of another setting that is a command, without systemd's prefix for
    a command that may fail."""
    return shlex.split(dict(unit_settings("Service"))[name].removeprefix("-"))


class Folders:
    """The places of a deployment's files in a test: under `root`, or by their real paths where that
    is the root of another system."""

    def __init__(self, root: Path, *, is_system: bool = False) -> None:
        self.configuration = root / ("etc/hpu-compile-server" if is_system else "etc")
        self.state = root / ("var/lib/hpu-compile-server" if is_system else "state")
        self.runtime = root / ("run/hpu-compile-server" if is_system else "run")
        for folder in (self.configuration, self.state, self.runtime):
            folder.mkdir(mode=0o700, exist_ok=is_system)
        (self.configuration / "keys").mkdir()
        (self.configuration / "tls").mkdir()
        self.callers = self.configuration / "callers"
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        self.callers.write_text(f"host team read,compile sha256:{digest}\n")

    def here(self, text: str) -> str:
        """The text with this test's paths."""
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


def network_configuration(port: int, metrics: int) -> str:
    """deployment/server.conf with the settings that a shared server needs; its Redis engine is not
    reachable."""
    text = CONFIGURATION.read_text()
    wanted = {
        "listen": f"tls://127.0.0.1:{port}",
        "metrics": f"127.0.0.1:{metrics}",
        "redis": f"127.0.0.1:{free_port()}",
    }
    for name, value in wanted.items():
        text = re.sub(f'^# {name} = ".*"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
    for name in ("callers", "tls-certificate", "tls-key", "trusted-keys"):
        text = re.sub(f"^# (?={name} = )", "", text, flags=re.MULTILINE)
    return text


def check(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the server to its end, with --check-config added."""
    return subprocess.run(
        [*command, "--check-config"],
        capture_output=True,
        text=True,
        timeout=HANG_LIMIT_S,
        check=False,
    )


class Server:
    """A running server. It is ready when it reports so to the socket of a service manager."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.log = folder / "stderr.log"
        # The name is outside the file system, so that it exists in another root too.
        name = f"hpu-test-{os.getpid()}-{next(_server_numbers)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, self.log.open("w") as log:
            manager.bind(f"\0{name}")
            manager.setblocking(False)
            self.process = subprocess.Popen(
                command,
                stderr=log,
                stdout=log,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": f"@{name}"},
            )
            wait_until(lambda: self._is_ready(manager), self.log.read_text)

    def _is_ready(self, manager: socket.socket) -> bool:
        try:
            assert manager.recv(100) == b"READY=1"
        except BlockingIOError:
            assert self.process.poll() is None, self.log.read_text()
            return False
        return True

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(HANG_LIMIT_S)


class Host:
    """A host with a daemon of its own, which asks a shared server and serves metrics too."""

    def __init__(self, root: Path, folders: Folders, port: int) -> None:
        self.metrics = free_port()
        self.keys = root / "keys"
        self.keys.mkdir()
        shutil.copy(folders.state / "store/signing.pub", self.keys / "server.pub")
        (root / "token").write_text(TOKEN)
        config = root / "client.toml"
        config.write_text(
            f'upstream-ca = "{folders.configuration}/tls/tls.crt"\n'
            f'upstream-token = "{root}/token"\ntrusted-keys = "{self.keys}"\n'
        )
        cache, upstream = root / "cache", f"tls://127.0.0.1:{port}"
        cache.mkdir(mode=0o700)
        self.environment = {
            "HPU_CACHE_DIR": str(cache),
            "HPU_COMPILE_SERVER": upstream,
            "HPU_COMPILE_SERVER_CONFIG": str(config),
        }
        words = {
            "--cache-dir": cache,
            "--upstream": upstream,
            "--config": config,
            "--metrics": f"127.0.0.1:{self.metrics}",
        }
        command = [native.server_binary(), *(str(word) for pair in words.items() for word in pair)]
        self.daemon = Server(command, root)

    def run_model(self) -> None:
        """Compiles a model and compares its output."""
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _MODEL],
            env={**os.environ, **self.environment},
            check=True,
            timeout=120,
        )


def scrape(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=HANG_LIMIT_S) as page:
        return page.read().decode()


def figure(port: int, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", scrape(port), re.MULTILINE)
    assert found, name
    return float(found.group(1))


def children(pid: int) -> list[int]:
    """The children of all threads, because each compiling thread has a worker of its own."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def sandboxed(command: list[str]) -> list[str]:
    """The command under the restrictions of the unit."""
    return [sys.executable, str(Path(__file__).with_name("unit_sandbox.py")), *command]
