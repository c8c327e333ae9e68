"""Containers that earlier builds wrote, in tests/formats: the newest version of each is read as it
was meant, an older one is refused by name."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from paths import ROOT, hpu_opt

from habana_frameworks.torch import native

sys.path.insert(0, str(ROOT / "tests/formats"))

import freeze

FOLDER = freeze.FOLDER
FILES = sorted(path for path in FOLDER.iterdir() if re.fullmatch(r"\.v\d+", path.suffix))
GRAPH = """graph @graph_0(%l_x_: f32[4,8], %l_y_: f32[8,3]) -> f32[4,3] {
  %0 = aten "aten.matmul.default"(self = %l_x_, other = %l_y_) : f32[4,3]
  %1 = aten "aten.relu.default"(self = %0) : f32[4,3]
  %2 = aten "aten.add.Tensor"(self = %1, other = 0.5, alpha = 1) : f32[4,3]
  return %2
}
"""
PROGRAM = """program of 1 function
  recipe 0: 0ff3b18b9f2d79338959cd7891f01338dcab126582ea3c57c606817d05d95bb7 1355 bytes
forward: 3 nodes, 0 eager
  input 0: f32[4,8]{8,1}
  input 1: f32[8,3]{3,1}
  buffer 0: 48 bytes
  %0: f32[4,8]{8,1} in input 0
  %1: f32[8,3]{3,1} in input 1
  %2: f32[4,3]{3,1} in buffer 0
  launch recipe 0 (memory0=%0, memory1=%1) -> (memory2=%2)
  output 0: %2
"""
RECIPE = """  in  memory0: f32[4,8] in section 0
  in  memory1: f32[8,3] in section 1
  out memory2: f32[4,3] in section 2
"""


def read(path):
    """The text that the tool for a container prints."""
    kind = path.stem
    hpu_recipe = str(native.FOLDER / "hpu_recipe")
    tool = hpu_opt()
    if kind == "captured_graph" and tool is None:
        pytest.skip("hpu_opt is not built")
    command = {
        "captured_graph": [str(tool), str(path), "--captured"],
        "program": [hpu_recipe, str(path)],
        "recipe": [hpu_recipe, "--recipe", str(path)],
    }[kind]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def newest(kind):
    return max((p for p in FILES if p.stem == kind), key=lambda p: int(p.suffix[2:]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_frozen_container(path):
    assert freeze.version_of(path.read_bytes()) == int(path.suffix[2:])
    done = read(path)
    if path != newest(path.stem):
        assert done.returncode == 1
        assert re.search(rf"version {path.suffix[2:]}\b", done.stderr)
        return
    assert done.returncode == 0, done.stderr
    expected = {"captured_graph": GRAPH, "program": PROGRAM, "recipe": RECIPE}[path.stem]
    assert expected in done.stdout


@pytest.mark.parametrize("kind", ["captured_graph", "program", "recipe"])
def test_an_older_version_is_refused_by_name(tmp_path, kind):
    content = bytearray(newest(kind).read_bytes())
    content[8:12] = (1).to_bytes(4, "little")
    path = tmp_path / f"{kind}.v1"
    path.write_bytes(content)
    done = read(path)
    assert done.returncode == 1
    assert "version 1" in done.stderr, done.stderr


def test_the_present_version_of_each_format_is_frozen():
    """If this fails, a version was raised: run tests/formats/freeze.py and commit its file."""
    versions = {name: freeze.version_of(content) for name, content in freeze.containers().items()}
    assert {name: int(newest(name).suffix[2:]) for name in versions} == versions
