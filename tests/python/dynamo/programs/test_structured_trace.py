"""TORCH_TRACE: our stages in PyTorch's structured trace, and tlparse's view of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import output_of

PROGRAM = """
import torch, habana_frameworks.torch
with torch.no_grad():
    torch.compile(lambda x: (x @ x).exp(), backend="hpu_backend")(torch.ones(7, 7, device="hpu"))
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("trace")
    cache = folder / "cache"  # nothing is stored, so every stage runs
    try:
        output_of(PROGRAM, TORCH_TRACE=str(folder / "log"), HPU_CACHE_DIR=str(cache))
        (log,) = (folder / "log").glob("*.log")
        yield log
    finally:
        output_of(
            "from habana_frameworks.torch import cli; cli.main(['stop'])", HPU_CACHE_DIR=str(cache)
        )


def entries(log: Path) -> list[tuple[dict, str]]:
    """Metadata and payload of each entry: a line that begins with V, then indented lines."""
    found: list[tuple[dict, list[str]]] = []
    for line in log.read_text().splitlines():
        if line.startswith("\t"):
            found[-1][1].append(line[1:])
        else:
            found.append((json.loads(line.partition("] ")[2]), []))
    return [(metadata, "\n".join(payload)) for metadata, payload in found]


def test_graph_is_an_artifact(trace):
    (payload,) = [
        text
        for metadata, text in entries(trace)
        if metadata.get("artifact", {}).get("name") == "hpu_backend_graph_0"
    ]
    graph = json.loads(payload)
    assert (graph["origin"], graph["recipes"], graph["compile_id"]) == ("compiled", 1, "0/0")
    assert graph["compile_ms"] > 0
    assert ["input 0", "float32[7, 7]{7, 1}@hpu"] in graph["factors"]


def test_stages_are_intervals(trace):
    events = [
        json.loads(text)
        for metadata, text in entries(trace)
        if "chromium_event" in metadata and "hpu::" in text
    ]
    begun = {e["name"]: e for e in events if e["ph"] == "B"}
    ended = {e["name"]: e for e in events if e["ph"] == "E"}
    assert set(begun) == {"hpu::prepare", "hpu::fetch", "hpu::capture", "hpu::compile"}
    assert set(ended) == set(begun)
    prepare = begun["hpu::prepare"]["ts"], ended["hpu::prepare"]["ts"]
    for name in ("hpu::fetch", "hpu::capture", "hpu::compile"):
        assert prepare[0] <= begun[name]["ts"] <= ended[name]["ts"] <= prepare[1]
        assert begun[name]["args"]["graph"] == "graph_0"


def test_tlparse_shows_them(trace, tmp_path):
    tlparse = shutil.which("tlparse", path=str(Path(sys.executable).parent)) or shutil.which(
        "tlparse"
    )
    if tlparse is None:
        pytest.skip("tlparse is not installed (dependencies/requirements-dev.txt)")
    page = tmp_path / "page"
    subprocess.run(
        [tlparse, "--no-browser", "-o", str(page), str(trace)], check=True, capture_output=True
    )
    (artifact,) = page.rglob("hpu_backend_graph_0*.json")
    assert json.loads(artifact.read_text())["origin"] == "compiled"
    assert artifact.name in (page / "index.html").read_text()
    assert "hpu::compile" in (page / "chromium_events.json").read_text()
