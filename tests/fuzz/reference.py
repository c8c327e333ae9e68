"""Results of the reference interpreter for captured graphs (hpu_opt --evaluate)."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
NARROW = {torch.bfloat16: 3e-2, torch.float16: 1e-2}


def find_hpu_opt() -> pathlib.Path | None:
    built = ROOT.glob("build/*/compiler_server/bin/hpu_opt")
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


@contextlib.contextmanager
def captured_graphs() -> Iterator[list[bytes]]:
    """Collects the graphs that hpu_backend sends to the compile server."""
    from habana_frameworks.torch.dynamo.programs import lookup

    graphs: list[bytes] = []
    capture = lookup.capture

    def recording(*args: Any) -> bytes:
        graphs.append(capture(*args))
        return graphs[-1]

    lookup.capture = recording
    try:
        yield graphs
    finally:
        lookup.capture = capture


def elements(tensor: torch.Tensor) -> list[Any]:
    """The elements in hpu_opt's format, which has infinities and NaN as text."""
    numbers = tensor.detach().cpu().to(torch.float64).reshape(-1).tolist()
    return [x if x - x == 0 else str(x) for x in numbers]


class Recorder:
    """A backend that keeps the arguments and results of the last call of its graph."""

    def __init__(self, backend: Callable[..., Any]) -> None:
        self._backend = backend
        self.calls = 0
        self.before: list[torch.Tensor] = []
        self.after: list[torch.Tensor] = []
        self.results: list[Any] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiled = self._backend(gm, example_inputs)

        def call(*args: Any) -> Any:
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            self.before = [t.cpu().clone() for t in tensors]
            results = compiled(*args)
            self.after = [t.cpu().clone() for t in tensors]
            self.results = [r.cpu().clone() if isinstance(r, torch.Tensor) else r for r in results]
            self.calls += 1
            return results

        return call


def interpret(hpu_opt: pathlib.Path, graph: bytes, inputs: list[torch.Tensor]) -> Any:
    """The report of hpu_opt; None for graphs with ops that it does not know (eager steps)."""
    with tempfile.TemporaryDirectory(prefix="hpu-fuzz-") as folder:
        wire, values = pathlib.Path(folder, "captured.graph"), pathlib.Path(folder, "inputs.json")
        wire.write_bytes(graph)
        values.write_text(json.dumps([elements(x) for x in inputs]))
        command = [hpu_opt, wire, "--captured", "--pipeline", "--evaluate", "--values", "--json"]
        done = subprocess.run(
            [*map(str, command), "--inputs", str(values)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "UNIMPLEMENTED" in done.stderr:
        return None
    raise RuntimeError(done.stderr.strip())


def as_tensor(value: dict[str, Any]) -> torch.Tensor:
    data = [float(x) for x in value["data"]]
    return torch.tensor(data, dtype=torch.float64).reshape(value["sizes"])
