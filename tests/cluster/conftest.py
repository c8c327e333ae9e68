"""Fixtures of the tests of a cluster (docs/testing.md)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# The hosts are made in the same way as in the example.
EXAMPLE = HERE.parents[1] / "examples" / "cluster"
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(EXAMPLE)]

# Many processes of tests hold emulated devices at the same time.
os.environ.setdefault("HPU_EMULATOR_MODULES", "1024")

import network  # noqa: E402
from cluster import CLIENT, FAKE_SERVER, Cluster  # noqa: E402
from engine import ENGINES  # noqa: E402


def _why_not() -> str:
    for binary in (CLIENT, FAKE_SERVER):
        if not binary.exists():
            return f"{binary.name} is not built: ./dev test builds it"
    return network.why_none()


_REASON = _why_not()


@pytest.fixture(params=sorted(ENGINES), scope="session")
def engine(request) -> str:
    """The name of each engine that servers can share. Where a cluster is impossible nothing is
    proven: the tests are skipped with the reason, or fail if HPU_REQUIRE_CLUSTER is set."""
    reason = _REASON or ENGINES[request.param].why_none()
    if reason:
        if "HPU_REQUIRE_CLUSTER" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    return request.param


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, because sockets are in it."""
    with tempfile.TemporaryDirectory(prefix="hpuc-", ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture
def cluster(engine) -> Iterator[Cluster]:
    """Three servers that share one engine."""
    made = Cluster(engine)
    yield made
    made.close()


def pytest_terminal_summary(terminalreporter) -> None:
    """Prints what tests measured (record_property), for documents; no test asserts it."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            measured = report.user_properties if getattr(report, "when", "") == "call" else []
            for name, value in measured:
                terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {name} {value}")
