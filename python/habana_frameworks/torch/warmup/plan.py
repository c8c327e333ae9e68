"""What a manifest's warm-up will take, before anything is compiled: count, time, device memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from .buckets import Shape
from .entries import EntryError, Model, Models
from .manifest import Entry, Manifest
from .run import PARALLEL


@dataclass(frozen=True)
class EntryPlan:
    """One entry. Bytes of device memory. problem: why it cannot be planned or does not fit."""

    name: str
    shapes: int
    largest: Shape | None = None  # that takes most memory
    weight_bytes: int = 0
    call_bytes: int = 0  # inputs, intermediate values and outputs of the largest shape's call
    problem: str = ""


@dataclass(frozen=True)
class Plan:
    """seconds: None where the server has compiled nothing yet that would tell."""

    entries: list[EntryPlan]
    parallel: int
    free_bytes: int
    seconds: float | None
    seconds_a_program: float | None

    @property
    def shapes(self) -> int:
        return sum(entry.shapes for entry in self.entries)

    @property
    def problem(self) -> str:
        """Why it is refused; "" if it is not."""
        return "; ".join(f"{e.name}: {e.problem}" for e in self.entries if e.problem)

    def as_dict(self) -> dict[str, Any]:
        plan = asdict(self) | {"shapes": self.shapes}
        for row, entry in zip(plan["entries"], self.entries, strict=True):
            row["largest"] = entry.largest and entry.largest._asdict()
        return plan | ({"problem": self.problem} if self.problem else {})


def make_plan(manifest: Manifest, counters: Mapping[str, int], free_bytes: int) -> Plan:
    """Makes the models, on the CPU, and calls them with fake tensors; nothing is compiled.

    counters: of the server; the mean of what it has compiled is the time of a program. Programs
    that are stored already take none, so the time is that of an empty store. Memory is that of
    every op's result until it is no longer referred to: a compiled program, which fuses, needs
    less. Models stay in memory together.
    """
    models = Models(manifest, device="cpu")
    parallel = min(manifest.parallel or PARALLEL, os.cpu_count() or 1)
    compiled = counters.get("compile.compiled", 0)
    mean = counters["compile.micros"] / compiled / 1e6 if compiled else None
    shapes = sum(len(entry.buckets) for entry in manifest.entries)
    seconds = None if mean is None else mean * shapes / min(parallel, max(shapes, 1))
    entries = []
    left = free_bytes
    for entry in manifest.entries:
        entries.append(_entry_plan(entry, models.get, left))
        left -= entries[-1].weight_bytes
    return Plan(entries, parallel, free_bytes, seconds, mean)


def _entry_plan(entry: Entry, get: Callable[[str], Model], free: int) -> EntryPlan:
    count = len(entry.buckets)
    try:
        model = get(entry.name)
    except EntryError as error:
        return EntryPlan(entry.name, count, problem=str(error))
    weights = _weight_bytes(model.module)
    refused = []
    first: tuple[Shape, int] | None = None
    for shape in entry.buckets.shapes():
        try:
            needed = _call_bytes(model, shape)
        except EntryError as error:
            return EntryPlan(entry.name, count, shape, weights, problem=str(error))
        first = first or (shape, needed)
        if weights + needed <= free:
            break  # so do the smaller ones
        refused.append(shape)
    assert first is not None
    problem = ""
    if refused:
        problem = (
            f"{len(refused)} of {count} shapes do not fit: {first[0]} takes "
            f"{weights + first[1]} bytes, {max(free, 0)} are free; leave out "
            + ", ".join(str(shape) for shape in refused)
        )
    return EntryPlan(entry.name, count, first[0], weights, first[1], problem)


def _weight_bytes(module: Any) -> int:
    if not isinstance(module, torch.nn.Module):
        return 0
    return sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


def _call_bytes(model: Model, shape: Shape) -> int:
    """EntryError if the model cannot be called with fake tensors."""
    peak = _Peak()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), peak:
            model.call(shape, compiled=False)
    except EntryError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise EntryError(
            f"a call with fake tensors of {shape} raised {type(error).__name__}: {text}"
        ) from error
    return peak.most


class _Peak(TorchDispatchMode):
    """The most bytes that results of ops took at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._live = 0
        self._seen = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in _pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        if storage in self._seen:
            return
        self._seen[storage] = True
        size = storage.nbytes()
        self._live += size
        self.most = max(self.most, self._live)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self._live -= size
