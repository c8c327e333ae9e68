"""The server as the systemd unit starts it, under the unit's restrictions, compiling for a host
with a daemon of its own; what both show to Prometheus against what dashboard and alerts ask."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deployed_server import (
    CONFIGURATION,
    Folders,
    Server,
    check,
    free_port,
    sandboxed,
    scrape,
    unit_command,
)
from monitoring_files import asked_metrics

from habana_frameworks.torch import native

pytestmark = [
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command"),
    pytest.mark.skipif(
        shutil.which("systemd-analyze") is None, reason="no systemd-analyze: apt install systemd"
    ),
]

_SCRIPT = """
import torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo import report
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x = torch.arange(16.0).reshape(2, 8)
with torch.no_grad():
    wanted = model(x)
    found = torch.compile(model.to("hpu"), backend="hpu_backend")(x.to("hpu")).cpu()
assert torch.allclose(wanted, found, atol=1e-5), (wanted, found)
print([g.origin for g in report().graphs])
"""


class Deployment:
    """A shared server from the unit, and a host's daemon that asks it."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders(root)
        certificate = self.folders.make_certificate()
        self.callers = self.folders.configuration / "callers"
        self.callers.write_text(
            f"host team read,compile sha256:{hashlib.sha256(b'token').hexdigest()}\n"
        )
        port, self.metrics, self.host_metrics = free_port(), free_port(), free_port()
        text = CONFIGURATION.read_text()
        wanted = {
            "listen": f"tls://127.0.0.1:{port}",
            "metrics": f"127.0.0.1:{self.metrics}",
            "redis": f"127.0.0.1:{free_port()}",  # nobody listens there: an engine that is away
        }
        for name, value in wanted.items():
            text = re.sub(f'^# {name} = ".*"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
        for name in ("callers", "tls-certificate", "tls-key", "trusted-keys"):
            text = re.sub(f"^# (?={name} = )", "", text, flags=re.MULTILINE)
        (self.folders.configuration / "server.conf").write_text(self.folders.here(text))
        before = [self.folders.here(word) for word in unit_command("ExecStartPre")]
        assert before[-1] == "--check-config"
        done = check(before[:-1])
        assert done.returncode == 0, done.stderr
        command = [self.folders.here(word) for word in unit_command("ExecStart")]
        self.server = Server(sandboxed(command), root)
        self.host = self._host(root, certificate, port)

    def _host(self, root: Path, certificate: Path, port: int) -> Server:
        """The daemon of a host, with figures of its own."""
        keys = root / "host-keys"
        keys.mkdir()
        shutil.copy(self.folders.state / "store/signing.pub", keys / "server.pub")
        (root / "token").write_text("token")
        config = root / "client.toml"
        config.write_text(
            f'upstream-ca = "{certificate}"\nupstream-token = "{root}/token"\n'
            f'trusted-keys = "{keys}"\n'
        )
        cache, upstream = root / "host", f"tls://127.0.0.1:{port}"
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
            "--metrics": f"127.0.0.1:{self.host_metrics}",
        }
        command = [native.server_binary(), *(str(word) for pair in words.items() for word in pair)]
        folder = root / "host-log"
        folder.mkdir()
        return Server(command, folder)

    def run_model(self) -> str:
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _SCRIPT],
            env={**os.environ, **self.environment},
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout.strip()

    def figure(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", scrape(self.metrics), re.MULTILINE)
        assert found, name
        return float(found.group(1))

    def wait_for(self, name: str, value: float) -> None:
        deadline = time.monotonic() + 10
        while self.figure(name) != value:
            assert time.monotonic() < deadline, (name, value)
            time.sleep(0.1)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("deployed"))
    yield made
    assert made.host.stop() == 0
    assert made.server.stop() == 0


def test_the_unit_s_server_compiles_under_its_restrictions(deployment):
    before = deployment.figure("hpu_compile_compiled_total")
    deployment.run_model()
    assert deployment.figure("hpu_compile_compiled_total") == before + 1, (
        deployment.server.log.read_text()
    )
    assert deployment.figure("hpu_compile_micros_total") > 1000
    assert deployment.figure("hpu_store_persistent") == 1
    status = Path(f"/proc/{deployment.server.process.pid}/status").read_text()
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
    assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)


def test_every_metric_that_is_asked_for_is_there(deployment):
    deployment.run_model()
    shown = set()
    for port in (deployment.metrics, deployment.host_metrics):
        shown |= set(re.findall(r"^(hpu_\w+)", scrape(port), re.MULTILINE))
    missing = {name: places for name, places in asked_metrics().items() if name not in shown}
    assert missing == {}


def test_a_configuration_that_cannot_be_read_again_is_shown(deployment):
    good = deployment.callers.read_text()
    assert deployment.figure("hpu_server_configuration_refused") == 0
    deployment.callers.write_text("nonsense\n")
    deployment.wait_for("hpu_server_configuration_refused", 1)
    deployment.callers.write_text(good)
    deployment.wait_for("hpu_server_configuration_refused", 0)
