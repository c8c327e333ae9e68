"""Shared fixtures of the Python tests."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# Shells start background jobs with SIGINT ignored, and processes of tests that send it would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def stop_daemon(cache: Path) -> None:
    """Ends the daemon of a cache folder if there is one."""
    from eventually import wait_until

    from habana_frameworks.torch import native

    module = native.client_module()
    socket = module.server_paths(str(cache))["socket"]
    for number in (signal.SIGTERM, signal.SIGKILL):
        if (found := module.server_process(socket)) is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[0], number)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: module.server_process(socket) is None, seconds=15)
    assert module.server_process(socket) is None, "the daemon stays"


def pytest_configure(config: pytest.Config) -> None:
    """Gives this process a cache folder that neither the user nor another worker uses. This is done
    before any test module is imported, because torch.compile starts the daemon."""
    folder = tempfile.TemporaryDirectory(prefix="hpu-test-", ignore_cleanup_errors=True)
    os.environ["HPU_CACHE_DIR"] = folder.name
    # Many processes of tests hold emulated devices at the same time.
    os.environ.setdefault("HPU_EMULATOR_MODULES", "1024")
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(lambda: stop_daemon(Path(folder.name)))


def pytest_collection_finish() -> None:
    """PyTorch's samples look for a unittest.TestCase in the stack to note in it what they made.
    There is none here, and below pytest a look takes a tenth of a second."""
    samples = sys.modules.get("torch.testing._internal.common_utils")
    if samples is not None:
        samples.extract_test_fn = lambda: None


def settle() -> None:
    """Waits for the shapes that dynamic graphs compile ahead of their calls."""
    for thread in threading.enumerate():
        if thread.name == "hpu-compile-ahead":
            thread.join()


@pytest.fixture(autouse=True)
def settled():
    """Shapes that one test compiles ahead are not in the report of the next test."""
    yield
    settle()


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    """Dynamo runs a function eagerly that it has compiled often. A file that compiles many modules
    of torch.nn must leave the next file their code as if nothing had been compiled."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


@pytest.fixture
def private_cache():
    """A cache folder with a daemon of its own, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="hpu-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        stop_daemon(Path(folder))


@pytest.fixture
def stored(private_cache, monkeypatch):
    """A daemon of its own with programs for 2, 3 and 4 rows; returns their content keys by rows."""
    from stored_programs import run

    from habana_frameworks.torch.dynamo.programs.service import service

    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))
    service.reset()
    keys = {rows: run(rows).content_key for rows in (2, 3, 4)}
    assert len(set(keys.values())) == 3
    yield keys
    service.reset()


@pytest.fixture
def told(caplog, monkeypatch):
    """The warnings that were logged once since the test began (notices.py), as a function of no
    arguments."""
    from habana_frameworks.torch.internal import notices

    monkeypatch.setattr(notices, "_said", set())
    return lambda: [r.message for r in caplog.records if r.name == "habana_frameworks.torch"]


@pytest.fixture
def store(monkeypatch):
    """A fresh store in memory behind the hook; a test begins without any graphs."""
    import fake_service
    from fallback_chain import new_process

    from habana_frameworks.torch import native
    from habana_frameworks.torch.dynamo.programs import binding, lookup
    from habana_frameworks.torch.dynamo.programs.service import service
    from habana_frameworks.torch.dynamo.records import records

    made = fake_service.Store()
    client = fake_service.client_module(made)
    device = fake_service.TorchModule(native.torch_module())
    monkeypatch.setattr(native, "client_module", lambda: client)
    monkeypatch.setattr(native, "torch_module", lambda: device)
    monkeypatch.setattr(native, "server_binary", lambda: "server")
    monkeypatch.setattr(lookup, "DEVICE", "cpu")
    monkeypatch.setattr(binding, "_warned", set())
    monkeypatch.setattr(fake_service.Program, "alias_error", False)
    monkeypatch.setattr(fake_service.Program, "load_errors", [])
    new_process()
    yield made
    service.reset()
    records.reset()


@pytest.fixture
def hmp_off_afterwards():
    """Whatever hmp converts in a test is as before for the next one."""
    from habana_frameworks.torch.hpex import hmp
    from habana_frameworks.torch.hpex.hmp import conversion

    yield
    hmp.convert()  # without lines
    conversion._mode.__exit__(None, None, None)
