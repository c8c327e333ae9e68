"""Makes what a manifest names: models, inputs, and the call of one row."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..dynamo.programs import deferred
from ..dynamo.programs.service import service
from .buckets import Shape
from .manifest import Entry, InputSpec, Manifest
from .report import Row

DEVICE = "hpu"


# These exceptions pass through user code and do not mean that it failed.
PASSING = (KeyboardInterrupt, deferred.Pending, deferred.NotLaunched)


class EntryError(Exception):
    """A factory, or a function that makes inputs, does not exist or raised an error."""


class Model:
    """The compiled model of one entry. Raises EntryError if its factory fails."""

    def __init__(self, entry: Entry, frozen: bool = False, device: str = DEVICE) -> None:
        self.entry = entry
        self.device = device
        self.module: Any = _made(entry, device)
        options = {"show_progress": "off", **entry.options}
        if frozen:
            options["frozen"] = True
        self._compiled = torch.compile(
            self.module, backend="hpu_backend", dynamic=False, options=options
        )

    def inputs(self, shape: Shape) -> Mapping[str, Any] | tuple[Any, ...]:
        """The model's arguments, by name or in order. Raises EntryError."""
        spec = self.entry.inputs
        if not isinstance(spec, str):
            return {name: tensor(one, name, shape).to(self.device) for name, one in spec.items()}
        with _named(self.entry, spec, "inputs"):
            made = _function(spec)(shape.batch, shape.sequence)
        if isinstance(made, torch.Tensor):
            made = (made,)
        if not isinstance(made, (Mapping, tuple, list)):
            raise EntryError(
                f"line {self.entry.line}, inputs: {spec} gave {type(made).__name__}: expected a "
                "tensor, a dict by name or a tuple"
            )

        def placed(value: Any) -> Any:
            return value.to(self.device) if isinstance(value, torch.Tensor) else value

        if isinstance(made, Mapping):
            return {name: placed(value) for name, value in made.items()}
        return tuple(placed(value) for value in made)

    def call(self, shape: Shape, function: Callable[..., Any] | None = None) -> None:
        """Calls the model once, in the modes of the entry. function: called instead of the compiled
        model."""
        function = self._compiled if function is None else function
        inputs = self.inputs(shape)
        autocast = self.entry.autocast
        with (
            torch.no_grad(),
            torch.autocast(self.device, dtype=autocast) if autocast else contextlib.nullcontext(),
        ):
            if isinstance(inputs, Mapping):
                function(**inputs)
            else:
                function(*inputs)


class Models:
    """The models of a manifest, each made when its first row is called. A factory that fails makes
    all rows of its entry fail."""

    def __init__(self, manifest: Manifest, frozen: bool = False, device: str = DEVICE) -> None:
        # A script beside the manifest would find its modules in the same way.
        for folder in (os.getcwd(), str(Path(manifest.path).resolve().parent)):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        self._entries = {entry.name: entry for entry in manifest.entries}
        self._frozen, self._device = frozen, device
        self._made: dict[str, Model | EntryError] = {}

    def get(self, name: str) -> Model:
        """The model of an entry. Raises EntryError."""
        if name not in self._made:
            try:
                self._made[name] = Model(self._entries[name], self._frozen, self._device)
            except EntryError as error:
                self._made[name] = error
        found = self._made[name]
        if isinstance(found, EntryError):
            raise found
        return found

    def call(self, row: Row) -> None:
        """Calls the model with a row's shape. For a recorded graph, checks that its program is
        stored."""
        if row.shape is None:
            fetch(row)
        else:
            self.get(row.name).call(row.shape)


def fetch(row: Row) -> None:
    """Asks the daemon, which asks the servers behind it, for a recorded graph's program; the answer
    is verified. Raises EntryError if no store has it, and NoProgram if there is no server."""
    found = service.stored_program(bytes.fromhex(row.key))
    if found is None:
        raise EntryError("it is not stored: run what was recorded, or import a bundle that has it")
    row.programs.append(str(found.manifest["key"]))


def rows_of(manifest: Manifest) -> list[Row]:
    """The rows entry by entry, with the largest shape of each entry first, then the recorded
    graphs."""
    rows = [Row(shape, name=e.name) for e in manifest.entries for shape in e.buckets.shapes()]
    return rows + [Row(None, name=graph.label, key=graph.key) for graph in manifest.recorded]


def tensor(spec: InputSpec, name: str, shape: Shape) -> torch.Tensor:
    """A tensor on the CPU; equal arguments give equal tensors in every process."""
    sizes = [shape._asdict()[size] if isinstance(size, str) else size for size in spec.shape]
    random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if spec.low is None or spec.high is None:
        return torch.randn(sizes, generator=random).to(spec.dtype)
    return torch.randint(spec.low, spec.high + 1, sizes, generator=random).to(spec.dtype)


def _made(entry: Entry, device: str) -> Any:
    with _named(entry, entry.model, "model"):
        made = _function(entry.model)(**entry.arguments)
        if isinstance(made, torch.nn.Module):
            made = made.eval().to(device=device, dtype=entry.dtype)
    if not callable(made):
        raise EntryError(
            f"line {entry.line}, model: {entry.model} gave {type(made).__name__}: expected a "
            "module or a function"
        )
    return made


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


@contextlib.contextmanager
def _named(entry: Entry, function: str, field: str) -> Iterator[None]:
    try:
        yield
    except PASSING:
        raise
    except BaseException as error:  # includes sys.exit(), which must not end the work of the others
        text = " ".join(str(error).split())
        raise EntryError(
            f"line {entry.line}, {field}: {function} raised {type(error).__name__}: {text}"
        ) from error
