"""Checks the systemd unit with systemd's own tools."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from deployed_server import CONFIGURATION, PROGRAM, UNIT, option_lines, unit_settings

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze: apt install systemd"
)


def _analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_verify_says_nothing(tmp_path):
    # The unit names the program at the package's place, which does not exist on this host.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    done = _analyze("verify", "--man=no", str(unit))
    assert (done.returncode, done.stderr) == (0, "")


def test_exposure_is_low():
    # The threshold is out of 100. The remaining points are system calls that set limits, sockets to
    # other hosts, and /proc.
    done = _analyze("security", "--offline=yes", "--threshold=13", "--no-pager", str(UNIT))
    assert done.returncode == 0, done.stdout


def test_the_manager_waits_longer_than_the_server():
    _, grace = option_lines(CONFIGURATION.read_text())["stop-grace"]
    assert int(dict(unit_settings("Service"))["TimeoutStopSec"]) > int(grace) + 10
