"""The count of names that public programs import (tests/clients/)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from paths import ROOT

CLIENTS = ROOT / "tests" / "clients"


@pytest.fixture(scope="module")
def counted():
    """The script's answer, from a process that has imported nothing else."""
    command = [sys.executable, "-W", "ignore", str(CLIENTS / "symbols.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def test_exactly_these_names_are_missing(counted):
    """A name that now exists, or does not any more, changes missing_symbols.txt (--update)."""
    listed = (CLIENTS / "missing_symbols.txt").read_text().splitlines()
    assert sorted(counted["missing"]) == listed
    assert "habana_frameworks.torch.core.mark_step" not in counted["missing"]


def test_the_shares_follow_from_the_uses(counted):
    programs = json.loads((CLIENTS / "symbol_uses.json").read_text())
    program = programs["huggingface/accelerate"]
    assert len(program["commit"]) == 40
    uses = program["uses"]
    lost = sum(n for name, n in uses.items() if name in counted["missing"])
    share = counted["programs"]["huggingface/accelerate"]
    assert (share["uses"], share["found_uses"]) == (sum(uses.values()), sum(uses.values()) - lost)
    every = counted["programs"]["all"]
    assert every["uses"] > 2000
    assert every["percent"] == round(100 * every["found_uses"] / every["uses"], 1)


def test_uses_are_counted_as_they_are_written(tmp_path):
    sources = {
        "a.py": """
            import habana_frameworks.torch as ht
            import habana_frameworks.torch.core as htcore
            from habana_frameworks.torch.hpex.kernels import FusedSDPA as F
            import torch

            class Model:
                def __init__(self):
                    self.hpu = ht.hpu

                def forward(self, x):
                    htcore.mark_step()
                    self.hpu.synchronize()
                    return F.apply(x) + torch.hpu.current_device() + torch.ops.hpu.rms_norm(x)

            name = "habana_frameworks.torch.utils"
            hpu = None
            hpu.nothing()
            """,
        "b.ipynb": json.dumps(
            {
                "cells": [
                    {"cell_type": "markdown", "source": ["import habana_frameworks.torch"]},
                    {"cell_type": "code", "source": ["%pip list\n", "import habana_frameworks"]},
                ]
            }
        ),
        "c.py": "print 'Python 2'  # habana_frameworks",
        "d.py": "x = 'nothing of ours'",
    }
    repository = tmp_path / "owner+name"
    work = tmp_path / "work"
    work.mkdir()
    for name, text in sources.items():
        lines = text.splitlines()
        margin = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
        (work / name).write_text("\n".join(line[margin:] for line in lines))
    git = ["git", "-C", str(work), "-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "sources"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(
        ["git", "clone", "-q", "--bare", str(work), str(repository / "repo")], check=True
    )
    done = subprocess.run(
        [sys.executable, str(CLIENTS / "count_uses.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    (program,) = json.loads(done.stdout).items()
    assert program[0] == "owner/name"
    assert program[1]["uses"] == {
        "habana_frameworks": 1,
        "habana_frameworks.torch": 1,
        "habana_frameworks.torch.core": 1,
        "habana_frameworks.torch.core.mark_step": 1,
        "habana_frameworks.torch.hpex.kernels.FusedSDPA": 1,
        "habana_frameworks.torch.hpex.kernels.FusedSDPA.apply": 1,
        "habana_frameworks.torch.hpu": 1,
        "habana_frameworks.torch.hpu.current_device": 1,
        "habana_frameworks.torch.hpu.synchronize": 1,
        "habana_frameworks.torch.utils": 1,
        "torch.ops.hpu.rms_norm": 1,
    }
    assert "not Python 3" in done.stderr
