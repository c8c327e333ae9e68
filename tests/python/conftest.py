"""Shared fixtures of the Python tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

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


# With a CUDA wheel, torch takes CUDA for its accelerator even where there is no card; its autograd
# and pinned memory then fail for every other device (README, "Which torch").
_NEEDS_CPU_WHEEL = frozenset(
    {
        "test_accelerator_is_found",
        "test_autograd_through_eager_ops",
        "test_generic_torch_stream_and_event",
        "test_optimizer_step_matches_cpu",
        "test_pinned_memory",
        "test_pinned_memory_is_logged",
        "test_training_step_is_right",
        "test_views_of_inputs_with_offset_and_grad",
    }
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.version.cuda is None:
        return
    skip = pytest.mark.skip(reason="torch's CUDA wheel claims the accelerator")
    for item in items:
        if item.name in _NEEDS_CPU_WHEEL:
            item.add_marker(skip)
