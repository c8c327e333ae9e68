"""Checks the Containerfile with hadolint."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deployed_server import DEPLOYMENT, PROGRAM

_HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which(
    "hadolint"
)


@pytest.mark.skipif(_HADOLINT is None, reason="no hadolint: dependencies/requirements-dev.txt")
def test_hadolint_finds_nothing():
    done = subprocess.run(
        [_HADOLINT, "--failure-threshold", "style", str(DEPLOYMENT / "container/Containerfile")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_runs_what_the_package_installs():
    text = (DEPLOYMENT / "container/Containerfile").read_text()
    assert f'ENTRYPOINT ["{PROGRAM}"' in text
