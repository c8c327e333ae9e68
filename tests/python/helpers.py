"""Runs functions eagerly on the CPU and compiled on hpu, and compares everything."""

from __future__ import annotations

from typing import Any

import torch
from capturing import clone_strided, flatten, sharing
from exact_reference import ExactReference, is_narrow
from recorded_graph import effective_strides

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.records import records
from habana_frameworks.torch.dynamo.records.records import Report


def fresh_process() -> None:
    """Forgets Dynamo's caches and the report; programs stay in memory and in the store."""
    torch._dynamo.reset()
    records.reset()


def place_all(values: list[Any]) -> list[Any]:
    """Values on hpu; tensors that share memory on the CPU share it there."""
    storages: dict[int, Any] = {}
    placed: list[Any] = []
    for value in values:
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            placed.append(value)
            continue
        pointer = value.untyped_storage().data_ptr()
        if pointer not in storages:
            octets = torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage())
            storages[pointer] = octets.to("hpu").untyped_storage()
        tensor = torch.empty(0, dtype=value.dtype, device="hpu")
        tensor.set_(storages[pointer], value.storage_offset(), value.shape, value.stride())
        placed.append(tensor)
    return placed


def compare(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    """Compares type, shape, elements, and the strides that address something."""
    compare_form(ours, theirs)
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(
            ours.cpu(), theirs, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
        )


def compare_form(ours: Any, theirs: Any) -> None:
    """Compares type, shape, and the strides that address something; values that are not tensors
    must be equal."""
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs
        assert type(ours) is type(theirs)
        return
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert effective_strides(ours.shape, ours.stride()) == effective_strides(
        theirs.shape, theirs.stride()
    )


def check(
    function: Any,
    *inputs: Any,
    calls: int = 2,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    dynamic: bool | None = False,
    share: bool = False,
    **options: Any,
) -> Report:
    """Compares `calls` calls and returns the report of the graphs that were compiled for them.

    share: inputs that share memory keep sharing it (otherwise they are copied apart).
    Where bf16 or f16 occurs, results are compared with exact ones, with the bound of
    exact_reference.py. If both tolerances are 0, they must equal eager's results instead.
    """
    fresh_process()
    compiled = torch.compile(
        function, backend="hpu_backend", dynamic=dynamic, options=options or None
    )
    for _ in range(calls):
        cpu = list(inputs) if share else [clone_strided(v) for v in inputs]
        hpu = place_all(cpu)
        with torch.no_grad():
            expected = flatten(function(*cpu))
            got = flatten(compiled(*hpu))
        assert len(got) == len(expected)
        ours, theirs = [*got, *hpu], [*expected, *cpu]
        if (rtol or atol) and any(map(is_narrow, theirs)):
            for own, other in zip(ours, theirs, strict=True):
                compare_form(own, other)
            given = inputs if share else [clone_strided(v) for v in inputs]
            with torch.no_grad():
                ExactReference(function, *given).check(ours, theirs)
        else:
            for own, other in zip(ours, theirs, strict=True):
                compare(own, other, rtol, atol)
        assert sharing([*got, *hpu]) == sharing([*expected, *cpu])
    return report()


def compiled_whole(summary: Report) -> None:
    """Asserts that every graph became a program of recipes only."""
    assert summary.eager_segments == 0, summary.eager_reasons
