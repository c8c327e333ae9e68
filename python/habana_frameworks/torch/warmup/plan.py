"""Estimates what a manifest's warm-up will take before anything is compiled: count, time, device
memory."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .. import native
from ..dynamo.capture.graph_capture import capture_graph
from ..dynamo.capture.inputs import graph_inputs
from ..dynamo.programs import deferred
from ..torch_compat.fakes import FakeTensorMode
from ..torch_compat.modes import TorchDispatchMode
from ..torch_compat.trees import tree_leaves
from .buckets import Shape
from .entries import PASSING, EntryError, Model, Models
from .manifest import Entry, Manifest
from .run import PARALLEL

# The device's allocator rounds sizes up to a multiple of this.
_GRAIN = 512


@dataclass(frozen=True)
class EntryPlan:
    """The plan of one entry. Bytes are of device memory. problem: why it cannot be planned or does
    not fit."""

    name: str
    shapes: int
    largest: Shape | None = None  # the shape that takes most memory
    weight_bytes: int = 0
    call_bytes: int = 0  # inputs, intermediate values and outputs of the largest shape's call
    # inputs of the next shapes, which wait for their programs during that call
    waiting_bytes: int = 0
    making_seconds: float = 0.0  # for making the model
    # of the first call, with imports, up to the request to the server
    first_trace_seconds: float = 0.0
    trace_seconds: float = 0.0  # for each further shape
    problem: str = ""

    @property
    def serial_seconds(self) -> float:
        """The seconds that the process of the warm-up itself works, one thing after the other."""
        traces = self.first_trace_seconds + self.trace_seconds * (self.shapes - 1)
        return self.making_seconds + traces


@dataclass(frozen=True)
class Plan:
    """seconds_a_program: the time to compile a program; None while the server has compiled nothing
    from which to estimate it."""

    entries: list[EntryPlan]
    parallel: int
    free_bytes: int
    seconds_a_program: float | None

    @property
    def seconds(self) -> float | None:
        """The time of the whole warm-up with an empty store, without launches. Traces are serial,
        and share the cores with compilations that run meanwhile; the last program is waited for."""
        if self.seconds_a_program is None:
            return None
        serial = sum(entry.serial_seconds for entry in self.entries)
        compiling = self.seconds_a_program * self.shapes
        return max(serial + self.seconds_a_program, (serial + compiling) / self.parallel)

    @property
    def shapes(self) -> int:
        return sum(entry.shapes for entry in self.entries)

    @property
    def problem(self) -> str:
        """Why the warm-up is refused; "" if it is not."""
        return "; ".join(f"{e.name}: {e.problem}" for e in self.entries if e.problem)

    def as_dict(self) -> dict[str, Any]:
        plan = asdict(self) | {"shapes": self.shapes, "seconds": self.seconds}
        for row, entry in zip(plan["entries"], self.entries, strict=True):
            row["largest"] = entry.largest and entry.largest._asdict()
        return plan | ({"problem": self.problem} if self.problem else {})


def make_plan(manifest: Manifest, counters: Mapping[str, int], free_bytes: int) -> Plan:
    """Makes the models, on the CPU, calls them with fake tensors and traces two small shapes
    of each; nothing is compiled.

    counters: those of the server; the mean time of its compilations is taken as the time of a
    program. Programs that are already stored take no time, so the estimate is for an empty store.
    Memory counts every op's result until it is no longer referred to; a compiled program, which
    fuses ops, needs less. Models stay in memory together.
    """
    models = Models(manifest, device="cpu")
    waits = manifest.parallel or PARALLEL
    parallel = min(waits, os.cpu_count() or 1)
    compiled = counters.get("compile.compiled", 0)
    mean = counters["compile.micros"] / compiled / 1e6 if compiled else None
    entries = []
    left = free_bytes
    for entry in manifest.entries:
        entries.append(_entry_plan(entry, models.get, left, waits))
        left -= entries[-1].weight_bytes
    return Plan(entries, parallel, free_bytes, mean)


def _entry_plan(entry: Entry, get: Callable[[str], Model], free: int, waits: int) -> EntryPlan:
    """waits: how many shapes are at the server at a time."""
    count = len(entry.buckets)
    started = time.perf_counter()
    try:
        model = get(entry.name)
    except EntryError as error:
        return EntryPlan(entry.name, count, problem=str(error))
    making = time.perf_counter() - started
    weights = _weight_bytes(model.module)
    shapes = entry.buckets.shapes()
    refused = []
    first: tuple[Shape, int, int] | None = None
    for index, shape in enumerate(shapes):
        try:
            needed = _call_bytes(model, shape)
            waiting = sum(_input_bytes(model, s) for s in shapes[index + 1 : index + waits])
        except EntryError as error:
            return EntryPlan(entry.name, count, shape, weights, problem=str(error))
        first = first or (shape, needed, waiting)
        if weights + needed + waiting <= free:
            break  # the smaller shapes fit as well
        refused.append(shape)
    assert first is not None
    problem = ""
    if refused:
        problem = (
            f"{len(refused)} of {count} shapes do not fit: {first[0]} takes "
            f"{weights + sum(first[1:])} bytes, {max(free, 0)} are free; leave out "
            + ", ".join(str(shape) for shape in refused)
        )
    traces = (0.0, 0.0)
    try:
        if not problem:
            traces = _trace_seconds(model, shapes)
    except EntryError as error:
        problem = str(error)
    return EntryPlan(entry.name, count, first[0], weights, *first[1:], making, *traces, problem)


def _weight_bytes(module: Any) -> int:
    if not isinstance(module, torch.nn.Module):
        return 0
    tensors = [*module.parameters(), *module.buffers()]
    return sum(_allocated(t.numel() * t.element_size()) for t in tensors)


def _allocated(size: int) -> int:
    """The bytes that the device's allocator takes for a tensor of that size."""
    return -(-size // _GRAIN) * _GRAIN


def _input_bytes(model: Model, shape: Shape) -> int:
    with FakeTensorMode(allow_non_fake_inputs=True):
        leaves = tree_leaves(model.inputs(shape))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return sum(_allocated(tensor.untyped_storage().nbytes()) for tensor in tensors)


def _call_bytes(model: Model, shape: Shape) -> int:
    """The device memory of one call. Raises EntryError if the model cannot be called with fake
    tensors."""
    peak = _Peak()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), peak:
            model.call(shape, model.module)
    except (EntryError, *PASSING):
        raise
    except BaseException as error:
        raise _refused(f"a call with fake tensors of {shape}", error) from error
    return peak.most


def _refused(what: str, error: BaseException) -> EntryError:
    text = " ".join(str(error).split())[:300]
    return EntryError(f"{what} raised {type(error).__name__}: {text}")


def _trace_seconds(model: Model, shapes: Sequence[Shape]) -> tuple[float, float]:
    """The time for the first shape and for each further one, measured on the smallest shapes. It
    covers the work of a warm-up's process before its request, including Dynamo's guards; the
    graph's own sizes matter little for it."""

    def capture(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # Only the time up to here counts; the warm-up will report why a graph cannot be captured.
        with contextlib.suppress(Exception):
            captured = capture_graph(
                module,
                graph_inputs(module),
                inputs,
                None,
                lambda: native.torch_module().GraphBuilder("plan"),
                model.device,
                True,
                None,
            )
            captured.builder.serialize()

        def stop(*_: Any) -> Any:
            raise deferred.NotLaunched

        return stop

    traced = torch.compile(model.module, backend=capture, dynamic=False)
    took: list[float] = []
    for shape in shapes[-2:]:
        started = time.perf_counter()
        try:
            model.call(shape, traced)
        except deferred.NotLaunched:
            pass
        except PASSING:
            raise
        except BaseException as error:
            raise _refused(f"a call on the CPU of {shape}", error) from error
        took.append(time.perf_counter() - started)
    return took[0], took[-1]


class _Peak(TorchDispatchMode):
    """The most bytes that results of ops take at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._live = 0
        self._seen = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        if storage in self._seen:
            return
        self._seen[storage] = True
        size = _allocated(storage.nbytes())
        self._live += size
        self.most = max(self.most, self._live)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self._live -= size
