"""Finds the causes of repeated compilations in a program: shapes of the data, and dynamic
operations.

Under torch.compile every shape has a program of its own, so a module that meets new shapes is
compiled again. New shapes show in eager mode too, before anything is compiled.
"""

from __future__ import annotations

import csv
import inspect
import types
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

_TAG = "[DETECT_RECOMPILE_AUTO]"
_COLUMNS = ("Step", "Recompiling modules", "New in", "New out", "Class", "Location", "Comment")


def get_shape(item: Any) -> Hashable:
    """The shapes of all tensors in a batch, in its structure; other values are returned as they
    are."""
    if isinstance(item, torch.Tensor):
        return tuple(item.shape)
    if isinstance(item, (list, tuple)):
        return tuple(get_shape(part) for part in item)
    if isinstance(item, dict):
        return tuple((key, get_shape(value)) for key, value in item.items())
    return item if isinstance(item, Hashable) else repr(item)


def data_dynamicity(dl: Iterable[Any]) -> dict[Hashable, int]:
    """Batches of a data loader by shape, the most frequent first; also prints them."""
    counts = dict(Counter(map(get_shape, dl)).most_common())
    print(_table(("Shape", "Count"), counts.items()))
    print(f"Number of unique shapes: {len(counts)}")
    return counts


def const_shape_dataloader(dl: Iterable[Any], maxlen: int) -> DataLoader[Any]:
    """A loader of at most `maxlen` batches of one shape: the first shape with that many batches,
    else the most frequent one. Raises ValueError if `dl` is empty."""
    batches: dict[Hashable, list[Any]] = {}
    for batch in dl:
        same = batches.setdefault(get_shape(batch), [])
        same.append(batch)
        if len(same) == maxlen:
            break
    if not batches:
        raise ValueError("const_shape_dataloader: the data loader has no batches")
    chosen: Any = max(batches.values(), key=len)
    return DataLoader(chosen, batch_size=None, collate_fn=None)


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """Watches the shapes of the inputs and outputs of the model and its submodules; returns the
    model with two more functions.

    analyse_dynamicity() prints the shapes that were new, step by step, and their number by
    module, and writes both to <csv_out>_1.csv and <csv_out>_2.csv; raw_logs() returns one line per
    call. `waittime` is not used: nothing has to be waited for.
    """
    watch = _Watch(mdlname, csv_out)
    for name, module in model.named_modules():
        path = f"{mdlname}/{name.replace('.', '/')}" if name else mdlname
        watch.add(path, module)
    model.raw_logs = types.MethodType(lambda self: watch.lines, model)  # type: ignore[assignment]
    model.analyse_dynamicity = types.MethodType(  # type: ignore[assignment]
        lambda self: watch.report(), model
    )
    return model


class _Watch:
    """The shapes that each module has met, and the calls that met new ones."""

    def __init__(self, top: str, csv_out: str) -> None:
        self.lines: list[str] = []
        self._top = top
        self._csv_out = csv_out
        self._step = -1
        self._seen: set[tuple[str, str, Hashable]] = set()
        self._new_input: dict[str, bool] = {}  # for the call under way, by module
        self._rows: list[tuple[int, str, bool, bool, str, str]] = []

    def add(self, path: str, module: torch.nn.Module) -> None:
        kind = type(module)
        where = getattr(inspect.getmodule(kind), "__file__", None) or kind.__module__

        def before(_: Any, args: Any, kwargs: Any) -> None:
            if torch.compiler.is_compiling():  # the submodules of a compiled module are one graph
                return
            self._step += path == self._top
            self._new_input[path] = self._is_new(path, "in", (args, kwargs))

        def after(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            if torch.compiler.is_compiling():
                return
            new_in = self._new_input[path]
            new_out = self._is_new(path, "out", output)
            text = f"{_TAG}[{path}] step:{self._step}"
            if new_in or new_out:
                self._rows.append((self._step, path, new_in, new_out, kind.__name__, where))
                text += f" Recompilation! new input shapes: {new_in}, new output shapes: {new_out}"
            self.lines.append(text)

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after, with_kwargs=True)

    def _is_new(self, path: str, side: str, value: Any) -> bool:
        entry = (path, side, get_shape(value))
        if entry in self._seen:
            return False
        self._seen.add(entry)
        return True

    def _table_rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, each with a comment. New output shapes for known input shapes come from the
        innermost module that shows them in a step."""
        dynamic = {(row[0], row[1]) for row in self._rows if not row[2]}
        for step, path, new_in, new_out, kind, where in self._rows:
            if new_in:
                comment = "new input shapes"
            elif any(s == step and p.startswith(path + "/") for s, p in dynamic):
                comment = "known input shapes, new output shapes: from a part of it"
            else:
                comment = "known input shapes, new output shapes: its operations are dynamic"
            yield step, path, new_in, new_out, kind, where, comment

    def report(self) -> None:
        rows = list(self._table_rows())
        counts = Counter(row[1] for row in rows).most_common()
        for number, (head, body) in enumerate(
            ((_COLUMNS, rows), (("Module name", "Recompile count"), counts)), start=1
        ):
            print(_table(head, body))
            with Path(f"{self._csv_out}_{number}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([head, *body])


def _table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Columns of text under their names."""
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
