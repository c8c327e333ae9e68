"""The stages of a graph's compilation, made by compiling it once more beside the server
(hpu_recipe).

They are for reports, and for GRAPH_VISUALIZATION, which writes them to .graph_dumps in the working
directory. A program from the store is drawn like one that was compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from .. import native
from ..dynamo.records.graph_watch import CapturedGraph
from . import ir_text
from .document import Drawing
from .onnx_file import to_onnx
from .svg import to_svg

_TOOL = "hpu_recipe"
_TIMEOUT_S = 120.0
_FOLDER = ".graph_dumps"


class NoDrawing(Exception):
    """The stages of a graph cannot be made; the text says why."""


def drawings(captured: CapturedGraph) -> list[Drawing]:
    """The graph as captured and after all passes. Raises NoDrawing."""
    with tempfile.TemporaryDirectory(prefix="hpu-graph-") as folder:
        _compile(captured, Path(folder))
        stages = _stages(Path(folder))
        return [
            ir_text.parse(stages[0].read_text(encoding="utf-8"), "as captured", captured=True),
            ir_text.parse(
                stages[-1].read_text(encoding="utf-8"), "after all passes", captured=False
            ),
        ]


def write_files(captured: CapturedGraph, name: str) -> Path:
    """Writes one folder: text and DOT of every stage, SVG and ONNX (for Netron) of the first and
    the last stage, and the stages of each recipe. Raises NoDrawing and OSError."""
    folder = _new_folder(Path(_FOLDER), name)
    _compile(captured, folder)
    stages = _stages(folder)
    for path, is_captured in ((stages[0], True), (stages[-1], False)):
        drawing = ir_text.parse(path.read_text(encoding="utf-8"), path.stem, is_captured)
        path.with_suffix(".svg").write_text(to_svg(drawing), encoding="utf-8")
        path.with_suffix(".onnx").write_bytes(to_onnx(drawing, path.stem))
    return folder


def _new_folder(parent: Path, name: str) -> Path:
    """Makes .graph_dumps/graph_0.PROCESS, so that processes which share a working directory do not
    collide."""
    number = 0
    while True:
        again = f".{number}" if number else ""
        folder = parent / f"{name}.{os.getpid()}{again}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # another shape of a dynamic graph made it
            number += 1
        else:
            return folder


def _stages(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.hir"))
    if not found:
        raise NoDrawing("the compiler wrote no stages")
    return found


def _compile(captured: CapturedGraph, folder: Path) -> None:
    try:
        tool = Path(native.server_binary()).parent / _TOOL
    except FileNotFoundError as error:
        raise NoDrawing(str(error)) from error
    if not tool.exists():
        raise NoDrawing(f"{tool} is not installed")
    graph = folder / "captured.bin"
    graph.write_bytes(captured.graph)
    command = [str(tool), "--compile", str(graph), "--dump-dir", str(folder), "--json"]
    command += ["--device-kind", captured.device_kind]
    if captured.isa_level:
        command += ["--isa-level", captured.isa_level]
    for name, value in captured.options.items():
        command += ["--option", f"{name}={value}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoDrawing(f"{_TOOL} failed: {error}") from error
    # A graph that cannot be compiled still has a first stage.
    if done.returncode != 0 and not any(folder.glob("*.hir")):
        reason = re.sub(r"\s+", " ", done.stderr.strip())[-500:]
        raise NoDrawing(f"{_TOOL} ended with {done.returncode}: {reason}")
