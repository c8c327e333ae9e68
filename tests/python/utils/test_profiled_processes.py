"""Profiles of whole processes: HABANA_PROFILE and hpu-compile profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from chrome_trace import check_chrome_trace

from habana_frameworks.torch import cli

SCRIPT = """
import sys
import torch
import habana_frameworks.torch
compiled = torch.compile(lambda x: (x @ x).tanh(), backend="hpu_backend", dynamic=False)
x = torch.eye(int(sys.argv[1]), device="hpu")
with torch.no_grad():
    for _ in range(4):
        y = compiled(x)
print("sum", float(y.cpu().sum()))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_whole_process(script, tmp_path):
    """With HABANA_PROFILE=1 the file exists when the process has ended."""
    environment = {**os.environ, "HABANA_PROFILE": "1"}
    ended = subprocess.run(
        [sys.executable, str(script), "40"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    (path,) = tmp_path.glob("default_profiling_*.json")
    assert f"HABANA_PROFILE: the trace is in {path.name}" in ended.stderr
    rows = check_chrome_trace(json.loads(path.read_text()))
    events = [e for row in rows.values() for e in row]
    assert len([e for e in events if e["cat"] == "launch"]) == 4
    assert len([e for e in events if e["cat"] == "mme" and e["args"]["flops"] == 2 * 40**3]) == 4
    assert len([e for e in events if e["name"].startswith("program ")]) == 4


def test_traces_can_be_forbidden(script, tmp_path):
    probe = (
        "import torch, habana_frameworks.torch\n"
        "from habana_frameworks.torch.utils import profiler\n"
        "try:\n"
        "    with profiler.profile(): pass\n"
        "except RuntimeError as error: print(error)\n"
        "with torch.profiler.profile() as prof: torch.ones(3, device='hpu').cpu()\n"
        "print(sum(e.device_type == torch.autograd.DeviceType.HPU for e in prof.events()))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, "HABANA_PROFILE": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = ended.stdout.splitlines()
    assert "HABANA_PROFILE=0 forbids traces of the device" in lines[0]
    assert lines[1] == "0"


def test_command(script, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    arguments = ["profile", "--json", "--trace", str(trace), str(script), "24"]
    assert cli.main(arguments) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert "sum " in captured.err
    (gemm,) = [row for row in report["kernels"] if row["flops"] == 2 * 24**3]
    assert gemm["calls"] == 4
    assert check_chrome_trace(json.loads(trace.read_text()))
    assert cli.main(["profile", str(script), "24"]) == 0
    text = capsys.readouterr().out
    assert "Engines" in text and "Kernels" in text and "Launches" in text


def test_command_errors(tmp_path, capsys):
    assert cli.main(["profile", str(tmp_path / "none.py")]) == 1
    assert "there is no file" in capsys.readouterr().err
    failing = tmp_path / "failing.py"
    failing.write_text("raise SystemExit(3)")
    assert cli.main(["profile", str(failing)]) == 1
    assert "failing.py ended with 3" in capsys.readouterr().err
