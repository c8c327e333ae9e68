"""The environments of public clients (tests/clients/environments.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

sys.path.append(str(ROOT / "tests" / "clients"))

import environments
from environments import HERE, clients, lines


@pytest.mark.parametrize("name", clients())
def test_everything_has_one_version(name: str) -> None:
    requirements = lines(HERE / name / "requirements.txt")
    assert requirements
    for line in requirements:
        assert re.fullmatch(r"[\w.-]+==[\w.!+-]+", line), line
    assert not [line for line in requirements if line.startswith("torch==")], "it is linked"
    for line in lines(HERE / name / "sources.txt"):
        assert re.fullmatch(r"[\w.-]+ https://\S+ [0-9a-f]{40}", line), line


def test_an_unknown_client_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, str(HERE / "environments.py"), "nobody"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"usage: ./dev test-client NAME [ARGUMENTS]; NAME is one of {clients()}"
    )


def test_an_environment_has_hl_smi(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    environments._add_command(tmp_path)
    done = subprocess.run(
        [tmp_path / "bin" / "hl-smi", "-v"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Habanalabs hl-smi version hl-")
