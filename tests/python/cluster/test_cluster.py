"""Hosts that share a compile server: a daemon each, TLS between (docs/cluster.md)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import stop_daemon
from eventually import HANG_LIMIT_S, wait_until
from free_port import free_port
from paths import ROOT
from processes import output_of, run_tool, suspend

from habana_frameworks.torch import native

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command")

_SCRIPT = """
import json, time
import torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo import report
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x = torch.arange(16.0).reshape(2, 8)
with torch.no_grad():
    wanted = model(x)
    begin = time.monotonic()
    found = torch.compile(model.to("hpu"), backend="hpu_backend")(x.to("hpu")).cpu()
assert torch.allclose(wanted, found, atol=1e-5), (wanted, found)
print(json.dumps({"origins": [g.origin for g in report().graphs], "s": time.monotonic() - begin}))
"""


def _cli(*arguments: str, **env: str) -> str:
    done = run_tool(*arguments, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Cluster:
    """A shared server on this host and the folders of the hosts that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"tls://127.0.0.1:{free_port()}"
        self._openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj"
            " /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
            " -keyout server.key -out server.pem"
        )
        line = json.loads(
            _cli("token", "node", "team", "read,compile", "--json", "--out", str(folder / "token"))
        )["line"]
        (folder / "callers").write_text(f"# who may call\n{line}\n")
        self.hosts: list[Path] = []
        self.start()
        keys = folder / "keys"
        keys.mkdir()
        shutil.copy(folder / "server/store/signing.pub", keys / "cluster.pub")
        self.config = folder / "client.toml"
        self.config.write_text(
            f'upstream-ca = "{folder}/server.pem"\n'
            f'upstream-token = "{folder}/token"\n'
            f'trusted-keys = "{keys}"\n'
        )

    def _openssl(self, arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True
        )

    def start(self) -> None:
        folder = self.folder
        self.process = subprocess.Popen(
            [
                native.server_binary(),
                "--cache-dir",
                str(folder / "server"),
                "--idle-timeout",
                "0",
                "--listen",
                self.address,
                "--callers",
                str(folder / "callers"),
                "--tls-certificate",
                str(folder / "server.pem"),
                "--tls-key",
                str(folder / "server.key"),
            ]
        )
        log = folder / "server/server.log"

        def listens() -> bool:
            assert self.process.poll() is None, log.read_text()
            return log.exists() and "listening to the network" in log.read_text()

        wait_until(listens)

    def run(self, host: str, **env: str) -> dict:
        """Runs the script on a host, which is its cache folder."""
        cache = self.folder / host
        self.hosts.append(cache)
        done = output_of(_SCRIPT, **{**self.env(host), **env})
        return {**json.loads(done.stdout), "stderr": done.stderr}

    def env(self, host: str) -> dict[str, str]:
        return {
            "HPU_CACHE_DIR": str(self.folder / host),
            "HPU_COMPILE_SERVER": self.address,
            "HPU_COMPILE_SERVER_CONFIG": str(self.config),
        }

    def stats(self, host: str) -> dict[str, int]:
        return json.loads(_cli("stats", "--json", **self.env(host)))

    def stop(self) -> None:
        for cache in set(self.hosts):
            stop_daemon(cache)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_a_second_host_compiles_nothing(cluster: Cluster) -> None:
    assert cluster.run("host1")["origins"] == ["compiled"]
    assert cluster.stats("host1")["compile.compiled"] == 0, "the shared server did"
    assert cluster.run("host2")["origins"] == ["store"]
    assert cluster.stats("host2")["upstream.hits"] == 1
    assert cluster.run("host2")["origins"] == ["store"]
    assert cluster.stats("host2")["upstream.hits"] == 1, "near from the second time on"
    status = json.loads(_cli("status", "--json", **cluster.env("host2")))
    assert status["upstream"] == cluster.address
    assert status["config_file"] == str(cluster.config)


def test_a_hung_server_delays_the_first_graph_and_nothing_else(cluster: Cluster) -> None:
    cluster.run("host1")  # so that the measurement does not include a daemon's start
    suspend(cluster.process.pid)
    try:
        late = cluster.run("host2")
        assert late["origins"] == ["compiled"]
        assert late["s"] < HANG_LIMIT_S
        assert cluster.stats("host2")["compile.compiled"] == 1
    finally:
        os.kill(cluster.process.pid, signal.SIGCONT)


def test_another_server_than_the_daemon_has_is_told(cluster: Cluster) -> None:
    cluster.run("host1")
    other = f"tls://127.0.0.1:{free_port()}"
    told = cluster.run("host1", HPU_COMPILE_SERVER=other)["stderr"]
    assert f"HPU_COMPILE_SERVER names {other}; the daemon that runs asks {cluster.address}" in told


def test_an_address_that_is_none_costs_the_recipes_and_is_told(cluster: Cluster) -> None:
    answer = cluster.run("host1", HPU_COMPILE_SERVER="10.0.0.1:80")
    assert answer["origins"] == ["eager"]
    assert "compile server address '10.0.0.1:80': it begins with tls://" in answer["stderr"]


def test_a_configuration_with_an_error_is_told(cluster: Cluster) -> None:
    cluster.config.write_text('upstream-ca = "/a"\nupsteam = "x"\n')
    answer = cluster.run("host1")
    assert answer["origins"] == ["eager"]
    assert f"{cluster.config} line 2: 'upsteam' is no option of the server" in answer["stderr"]


def test_a_daemon_without_servers_is_replaced_by_one_with(cluster: Cluster) -> None:
    alone = cluster.run("host1", HPU_COMPILE_SERVER="", HPU_COMPILE_SERVER_CONFIG="")
    assert alone["origins"] == ["compiled"]
    before = json.loads(_cli("status", "--json", **cluster.env("host1")))
    assert before["upstream"] == ""
    assert cluster.run("host1")["origins"] == ["store"]
    after = json.loads(_cli("status", "--json", **cluster.env("host1")))
    assert after["upstream"] == cluster.address
    assert after["pid"] != before["pid"]


def test_a_token_may_have_a_last_day() -> None:
    line = json.loads(_cli("token", "a", "b", "read", "--json", "--days", "2"))["line"]
    last = datetime.strptime(line.split()[-1], "%Y-%m-%d").replace(tzinfo=UTC)
    assert timedelta(days=1) < last - datetime.now(UTC) <= timedelta(days=2)


def test_the_token_is_for_its_owner_alone(tmp_path) -> None:
    out = tmp_path / "token"
    answer = json.loads(_cli("token", "a", "b", "read", "--json", "--out", str(out)))
    assert answer["line"].startswith("a b read sha256:")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_text().strip() not in json.dumps(answer)


def test_serve_is_the_server(tmp_path) -> None:
    assert "--tls-client-ca" in _cli("serve", "--help")
    cache = tmp_path / "cache"
    assert "the options are good" in _cli("serve", "--check-config", "--cache-dir", str(cache))
    assert not cache.exists(), "a look changes nothing"
    assert "serve" in _cli("--help")


def test_the_server_says_what_is_wrong_with_its_options(tmp_path) -> None:
    def answer(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [native.server_binary(), "--check-config", "--cache-dir", str(tmp_path), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).strip()

    assert answer() == (0, "the options are good")
    (tmp_path / "callers").write_text("someone team read,write certificate\n")
    assert answer("--listen", "tcp://127.0.0.1:1", "--callers", str(tmp_path / "callers")) == (
        1,
        f"INVALID_ARGUMENT: callers' file {tmp_path}/callers: line 1, field ROLES: 'read,write' is "
        "not read, compile or admin, separated by commas",
    )
    config = tmp_path / "config"
    config.write_text('# comment\nmax-size = "1GB"\nupsteam = "tls://a:1"\n')
    code, text = answer("--config", str(config))
    assert code != 0
    assert f"{config} line 3: 'upsteam' is no option of the server" in text
    config.write_text('upstream = "tls://a"\n')
    assert "compile server address 'tls://a': it needs a port" in answer("--config", str(config))[1]
    assert 'remote cache address "h:1" has no scheme' in answer("--remote-cache", "h:1")[1]
    engines = ("--remote-cache", "grpc://h:1", "--redis", "h:1")
    assert answer(*engines) == (0, "the options are good")
    assert "Redis keeps leases only" in answer(*engines, "--redis-read-only")[1]


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_the_example_compiles_each_model_once() -> None:
    example = ROOT / "examples/cluster/cluster.py"
    done = subprocess.run(
        [sys.executable, str(example), "--hosts", "3", "--models", "2", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["compiled"] == 2
    assert all(place.startswith("server") for place in answer["compiled_by"])
