"""The server as the systemd unit starts it, under the unit's restrictions, compiling for a host
with a daemon of its own. The metrics of both are compared with those that dashboard and alerts ask
for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from deployed_server import (
    Folders,
    Host,
    Server,
    check,
    children,
    figure,
    free_port,
    network_configuration,
    sandboxed,
    scrape,
    unit_command,
)
from eventually import wait_until
from monitoring_files import asked_metrics

pytestmark = [
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command"),
    pytest.mark.skipif(
        shutil.which("systemd-analyze") is None, reason="no systemd-analyze: apt install systemd"
    ),
]


class Deployment:
    """A shared server from the unit, and a host that asks it."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders(root)
        self.folders.make_certificate()
        port, self.metrics = free_port(), free_port()
        (self.folders.configuration / "server.conf").write_text(
            self.folders.here(network_configuration(port, self.metrics))
        )
        before = [self.folders.here(word) for word in unit_command("ExecStartPre")]
        assert before[-1] == "--check-config"
        done = check(before[:-1])
        assert done.returncode == 0, done.stderr
        self.root, self.port = root, port
        self.start()
        self.host = self.new_host("host")

    def start(self) -> None:
        command = [self.folders.here(word) for word in unit_command("ExecStart")]
        self.server = Server(sandboxed(command), self.root)

    def new_host(self, name: str) -> Host:
        (self.root / name).mkdir()
        return Host(self.root / name, self.folders, self.port)

    def figure(self, name: str) -> float:
        return figure(self.metrics, name)

    def wait_for(self, name: str, value: float) -> None:
        wait_until(lambda: self.figure(name) == value, (name, value))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("deployed"))
    made.host.run_model()
    yield made
    assert made.host.daemon.stop() == 0
    assert made.server.stop() == 0


def test_the_unit_s_server_compiles_under_its_restrictions(deployment):
    log = deployment.server.log.read_text()
    assert deployment.figure("hpu_compile_compiled_total") == 1, log
    assert deployment.figure("hpu_compile_micros_total") > 1000
    assert deployment.figure("hpu_store_persistent") == 1
    assert figure(deployment.host.metrics, "hpu_upstream_compiled_total") == 1
    pid = deployment.server.process.pid
    status = Path(f"/proc/{pid}/status").read_text()
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
    assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
    workers = children(pid)
    assert workers
    for worker in workers:
        limits = Path(f"/proc/{worker}/limits").read_text()
        assert re.search(rf"^Max address space\s+{64 * 2**30}\s", limits, re.MULTILINE)


def test_every_metric_that_is_asked_for_is_there(deployment):
    shown = set()
    for port in (deployment.metrics, deployment.host.metrics):
        shown |= set(re.findall(r"^(hpu_\w+)", scrape(port), re.MULTILINE))
    missing = {name: places for name, places in asked_metrics().items() if name not in shown}
    assert missing == {}


def test_a_configuration_that_cannot_be_read_again_is_shown(deployment):
    callers = deployment.folders.callers
    good = callers.read_text()
    assert deployment.figure("hpu_server_configuration_refused") == 0
    callers.write_text("nonsense\n")
    deployment.wait_for("hpu_server_configuration_refused", 1)
    callers.write_text(good)
    deployment.wait_for("hpu_server_configuration_refused", 0)


def test_programs_survive_a_new_signing_key(deployment):
    """Key rotation as docs/operations_cluster.md describes it."""
    store, keys = deployment.folders.state / "store", deployment.folders.configuration / "keys"
    old = (store / "signing.pub").read_bytes()
    (keys / "server-old.pub").write_bytes(old)
    assert deployment.server.stop() == 0
    (store / "signing.key").unlink()
    deployment.start()
    assert (store / "signing.pub").read_bytes() != old
    host = deployment.new_host("host of both keys")
    try:
        (host.keys / "server-old.pub").write_bytes(old)
        published = Path(host.environment["HPU_CACHE_DIR"]) / "run/server.sock.pub"
        wait_until(lambda: old in published.read_bytes(), "the daemon believes the old key")
        host.run_model()
        assert figure(host.metrics, "hpu_upstream_hits_total") == 1, host.daemon.log.read_text()
        assert deployment.figure("hpu_compile_compiled_total") == 0
    finally:
        assert host.daemon.stop() == 0
