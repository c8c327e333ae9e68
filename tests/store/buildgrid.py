"""Runs the store's tests against BuildGrid, a real server of the Remote Execution API.

Usage: ./dev python tests/store/buildgrid.py      after ./dev build; exit code of the tests
       ./dev python tests/store/buildgrid.py --install
       ./dev python tests/store/buildgrid.py --serve ADDRESS:PORT     BuildGrid alone, until killed

BuildGrid and what it needs (dependencies/buildgrid.txt) go into an environment of their own,
build/buildgrid, the first time: 54 packages, which nothing else here uses.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/python"))

from eventually import wait_until  # noqa: E402
from free_port import free_port  # noqa: E402

FOLDER = ROOT / "build" / "buildgrid"
TEST = ROOT / "build" / "release" / "tests" / "store"
# Each test that needs one has an instance, which is a cache of its own. BuildGrid takes longer to
# check them than the tests take to run.
INSTANCES = 16

HEAD = """\
server:
  - !channel
    address: {address}:{port}
    insecure-mode: true
thread-pool-size: 16
instances:
"""
INSTANCE = """\
  - name: store{number}
    storages:
      - !lru-storage &storage{number}
        size: 64M
    caches:
      - !lru-action-cache &results{number}
        storage: *storage{number}
        max-cached-refs: 10000
        allow-updates: true
        cache-failed-actions: false
    services:
      - !cas
        storage: *storage{number}
      - !bytestream
        storage: *storage{number}
      - !action-cache
        cache: *results{number}
"""


def install() -> None:
    requirements = ROOT / "dependencies" / "buildgrid.txt"
    stamp = FOLDER / "requirements"
    if stamp.exists() and stamp.read_bytes() == requirements.read_bytes():
        return
    subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
    subprocess.run([FOLDER / "bin" / "pip", "install", "-q", "-r", requirements], check=True)
    stamp.write_bytes(requirements.read_bytes())


def wait_for(port: int, server: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    def listens() -> bool:
        assert server.poll() is None, f"BuildGrid did not start:\n{log.read_text()}"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return False
        return True

    wait_until(listens, log.read_text)


def serve(address: str) -> None:
    """Becomes BuildGrid; its configuration is in the build folder, by the address."""
    host, _, port = address.rpartition(":")
    config = FOLDER / f"serve-{host}-{port}.yml"
    config.write_text(
        HEAD.format(address=host, port=port) + INSTANCE.format(number=1), encoding="utf-8"
    )
    os.execv(FOLDER / "bin" / "bgd", ["bgd", "server", "start", str(config)])


def main() -> int:
    install()
    if sys.argv[1:2] == ["--install"]:
        return 0
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "buildgrid.yml"
        instances = "".join(INSTANCE.format(number=n) for n in range(1, INSTANCES + 1))
        config.write_text(HEAD.format(address="127.0.0.1", port=port) + instances, encoding="utf-8")
        log = pathlib.Path(folder) / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [FOLDER / "bin" / "bgd", "server", "start", config],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(port, server, log)
            environment = os.environ | {"HPU_TEST_REMOTE_CACHE": f"grpc://127.0.0.1:{port}"}
            codes = [
                subprocess.run([TEST / name, f"--gtest_filter={which}"], env=environment).returncode
                for name, which in (
                    ("store_test", "*/buildgrid"),
                    ("remote_cache_test", "*RealServer*"),
                )
            ]
        finally:
            server.kill()
            server.wait()
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
