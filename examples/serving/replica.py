"""One service as a process, started and stopped as an orchestrator does it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from habana_frameworks.torch import native

_SERVICE = Path(__file__).with_name("service.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cache_folder() -> Iterator[Path]:
    """A new cache folder, whose daemon is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        stop_daemon(Path(folder))


def stop_daemon(folder: Path) -> None:
    client = native.client_module()
    found = client.server_process(client.server_paths(str(folder))["socket"])
    if found is not None:
        os.kill(found[0], signal.SIGTERM)


class Replica:
    """A service of this machine; its port stays the same over restarts."""

    def __init__(
        self, backend: str, size: str, environment: Mapping[str, str], drain: float = 1.0
    ) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._command = [sys.executable, str(_SERVICE), "--backend", backend, "--size", size]
        self._command += ["--port", self.url.rpartition(":")[2], "--drain", str(drain)]
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # A file, because a pipe that nobody reads would stop the service once it is full.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open until stop)
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=self._log, stderr=self._log
        )

    def wait_ready(self, seconds: float = 1800) -> float:
        """Seconds from the start of the process until /ready says so."""
        while time.monotonic() < self.started + seconds:
            try:
                with urllib.request.urlopen(f"{self.url}/ready", timeout=5):
                    return time.monotonic() - self.started
            except (urllib.error.URLError, OSError):
                if self._process is None or self._process.poll() is not None:
                    raise RuntimeError(f"the service ended:\n{self._said()}") from None
            time.sleep(0.02)
        raise TimeoutError(f"not ready after {seconds:.0f} s:\n{self._said()}")

    def metrics(self) -> dict[str, float]:
        """The figures of /metrics by name and labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def stop(self, seconds: float = 150) -> int:
        """Sends SIGTERM, and SIGKILL if the service does not end. Returns the exit status once
        it has answered the requests that it took; 0 if it does not run.
        """
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            self._log.close()

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]
