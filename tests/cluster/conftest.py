"""Fixtures of the tests of a cluster (docs/testing.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import network  # noqa: E402
from cluster import CLIENT, FAKE_SERVER, Cluster  # noqa: E402
from engine import ENGINES  # noqa: E402


def _why_not() -> str:
    for binary in (CLIENT, FAKE_SERVER):
        if not binary.exists():
            return f"{binary.name} is not built: ./dev test builds it"
    return network.why_none()


_REASON = _why_not()


@pytest.fixture(autouse=True)
def _needs_namespaces() -> None:
    """Without them nothing here is proven, and a run that is to prove something fails."""
    if not _REASON:
        return
    if "HPU_REQUIRE_CLUSTER" in os.environ:
        pytest.fail(_REASON)
    pytest.skip(_REASON)


@pytest.fixture(params=sorted(ENGINES))
def engine(request) -> str:
    """The name of each engine that servers can share."""
    reason = ENGINES[request.param].why_none()
    if reason:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def cluster(engine) -> Iterator[Cluster]:
    """Three servers of one engine."""
    made = Cluster(engine)
    yield made
    made.close()
