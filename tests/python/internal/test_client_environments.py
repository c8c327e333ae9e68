"""The environments of public clients (tests/clients/environments.py)."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from paths import ROOT

sys.path.append(str(ROOT / "tests" / "clients"))

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


def test_torchvision_finds_its_operators_declared() -> None:
    """As in an environment whose torchvision is made for CUDA: the import of torchvision, which
    here is not installed or comes after the declaration, finds both schemas."""
    code = (
        "import torchvision_schemas, torch, importlib.util;"
        "assert not torch._C._dispatch_has_kernel('torchvision::nms');"
        "importlib.util.find_spec('torchvision');"
        "print(torch.ops.torchvision.nms.default, torch.ops.torchvision.qnms.default)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["torchvision.nms.default", "torchvision.qnms.default"]
