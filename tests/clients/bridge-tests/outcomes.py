"""A plugin of pytest: runs one of SHARE tests of a folder and writes how each test ended."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

_FOLDER = os.environ["BRIDGE_FOLDER"]
_SHARE = int(os.environ["BRIDGE_SHARE"])
_OUTCOMES = Path(os.environ["BRIDGE_OUTCOMES"])


def _is_chosen(name: str) -> bool:
    """A test is in the share or not by its name alone, in every run."""
    digest = hashlib.sha256(name.encode()).digest()
    return f"/{_FOLDER}/" in name and int.from_bytes(digest[:8], "little") % _SHARE == 0


# After the suite's own hook, which marks the tests that a Gaudi 2 skips.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _is_chosen(item.nodeid)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # The process that has workers gets their reports, too.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.when != "call" and report.outcome == "passed":
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(report.longrepr)
    row = (report.nodeid, report.outcome, message[:300] if report.failed else "")
    with _OUTCOMES.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
