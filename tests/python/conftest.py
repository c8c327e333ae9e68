"""Shared fixtures of the Python tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def stop_daemon(cache: Path) -> None:
    """Stops the daemon of a cache folder."""
    subprocess.run(
        [sys.executable, "-m", "habana_frameworks.torch.cli", "stop"],
        env={**os.environ, "HPU_CACHE_DIR": str(cache)},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def private_cache():
    """A cache folder with a daemon of its own, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="hpu-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        stop_daemon(Path(folder))


@pytest.fixture(scope="session", autouse=True)
def _session_cache():
    """Tests in this process share one cache folder that is not the user's."""
    if "HPU_CACHE_DIR" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hpu-test-", ignore_cleanup_errors=True) as folder:
        os.environ["HPU_CACHE_DIR"] = folder
        yield
        stop_daemon(Path(folder))
        del os.environ["HPU_CACHE_DIR"]
