"""A tensor over the memory of another one, made by views that every operator of a graph knows.

The recorder knows of a view only where it lies in its storage. Slices, splits and permutations of
dimensions say the same and can be moved and fused by the compiler, which as_strided cannot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..dynamo.capture.recorder import unwrap_functional


class Form(NamedTuple):
    """How a tensor lies in its storage."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def form_of(tensor: torch.Tensor) -> Form:
    return Form(tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))


def memory_order(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dimensions from the outermost one in memory to the innermost one."""
    return sorted(range(len(sizes)), key=lambda d: (-strides[d], -sizes[d], d))


def is_dense(form: Form) -> bool:
    """Whether the elements fill a piece of memory without gaps, each once."""
    expected = 1
    for d in reversed(memory_order(form.sizes, form.strides)):
        if form.sizes[d] != 1 and form.strides[d] != expected:
            return False
        expected *= form.sizes[d]
    return True


def row_major(form: Form) -> Form:
    """The row-major form of the same piece of memory. form: dense."""
    sizes = [form.sizes[d] for d in memory_order(form.sizes, form.strides)]
    strides = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    return Form(form.dtype, tuple(sizes), tuple(strides), 0)


def bytes_of(form: Form) -> tuple[int, int]:
    """The first byte of a form with elements in its storage, and the one after its last."""
    steps = zip(form.sizes, form.strides, strict=True)
    last = form.offset + sum((size - 1) * stride for size, stride in steps)
    return form.offset * form.dtype.itemsize, (last + 1) * form.dtype.itemsize


def pieces_of(forms: Sequence[Form]) -> list[Form]:
    """The pieces of a storage that hold all these forms, in the order of memory: no two overlap. A
    piece is a form that overlaps with no other one, or a dense one. Empty where forms overlap that
    no dense piece has as slices."""
    groups: list[list[Form]] = []
    end = 0
    for form in sorted((form for form in forms if 0 not in form.sizes), key=bytes_of):
        first, last = bytes_of(form)
        if not groups or first >= end:
            groups.append([])
        groups[-1].append(form)
        end = max(end, last)
    pieces: list[Form] = []
    for group in groups:
        piece = _piece_of(group)
        if piece is None:
            return []
        pieces.append(piece)
    return pieces


def _piece_of(group: Sequence[Form]) -> Form | None:
    if len(group) == 1:
        return group[0]
    dtype = group[0].dtype
    if any(form.dtype != dtype for form in group):
        return None
    spans = [bytes_of(form) for form in group]
    whole = min(first for first, _ in spans), max(last for _, last in spans)
    for form, span in zip(group, spans, strict=True):
        if span == whole and is_dense(form):
            return row_major(form)._replace(offset=form.offset)
    if not all(is_dense(form) for form in group):
        return None
    elements = (whole[1] - whole[0]) // dtype.itemsize
    return Form(dtype, (elements,), (1,), whole[0] // dtype.itemsize)


def in_memory_order(base: torch.Tensor) -> torch.Tensor:
    """A view of a dense tensor that is row-major."""
    return base.permute(memory_order(base.shape, base.stride()))


def view_of(base: torch.Tensor, wanted: Form) -> torch.Tensor:
    """The view of the dense tensor `base`, which starts at the first element of its storage."""
    if form_of(base) == wanted:
        return base
    view: torch.Tensor | None = None
    if base.dtype == wanted.dtype:
        view = _by_slices(base, wanted)
        view = view if view is not None else _of_piece(base, wanted)
        view = view if view is not None else _by_diagonal(base, wanted)
    if view is not None:
        return view
    if base.dtype != wanted.dtype:
        return view_of(_as_type(base, wanted.dtype), wanted)
    return base.as_strided(wanted.sizes, wanted.strides, wanted.offset)


def _as_type(base: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The memory of a dense tensor as a row of elements of another type. Bytes at its end that are
    no whole element are left out."""
    row = in_memory_order(base).reshape(-1)
    elements = row.numel() * row.dtype.itemsize // dtype.itemsize
    return row.narrow(0, 0, elements * dtype.itemsize // row.dtype.itemsize).view(dtype)


def _by_slices(base: torch.Tensor, wanted: Form) -> torch.Tensor | None:
    """None where the view is no slice of a split and permuted `base`."""
    places = [d for d, size in enumerate(wanted.sizes) if size > 1 and wanted.strides[d] > 0]
    places.sort(key=lambda d: -wanted.strides[d])
    extents: list[int] = []
    slices: list[tuple[int, int]] = []
    outer, offset = base.numel(), wanted.offset
    for d in places:
        stride, size = wanted.strides[d], wanted.sizes[d]
        if outer % stride:
            return None
        extent, start = outer // stride, offset // stride
        if start + size > extent:
            return None
        extents.append(extent)
        slices.append((start, size))
        offset -= start * stride
        outer = stride
    if offset >= outer:
        return None
    if outer > 1:
        extents.append(outer)
        slices.append((offset, 1))
    view = in_memory_order(base)
    if tuple(view.shape) != tuple(extents):
        view = view.reshape(extents)
    for dim, (start, size) in enumerate(slices):
        if size != extents[dim]:
            view = view.narrow(dim, start, size)
    if outer > 1:
        view = view.squeeze(-1)
    return _arrange(view, places, wanted)


def _of_piece(base: torch.Tensor, wanted: Form) -> torch.Tensor | None:
    """Slices a piece of the memory, taken as a row. Gradients lie so in a bucket, whose size is no
    multiple of theirs. None where the view is no slice of a piece."""
    extents = [
        size * stride
        for size, stride in zip(wanted.sizes, wanted.strides, strict=True)
        if size > 1 and stride > 0
    ]
    elements = max(extents, default=1)
    start = min(wanted.offset, base.numel() - elements)
    if start < 0 or elements == base.numel():
        return None
    row = in_memory_order(base).reshape(-1).narrow(0, start, elements)
    return _by_slices(row, wanted._replace(offset=wanted.offset - start))


def _by_diagonal(base: torch.Tensor, wanted: Form) -> torch.Tensor | None:
    """None where the view is no diagonal of two dimensions of `base`."""
    strides = base.stride()
    for first, second in itertools.combinations(range(base.dim()), 2):
        if strides[first] + strides[second] not in wanted.strides:
            continue
        for offset in (wanted.offset // strides[second], -(wanted.offset // strides[first])):
            if not -base.shape[first] < offset < base.shape[second]:
                continue
            diagonal = base.diagonal(offset, first, second)
            dims = list(zip(diagonal.shape, diagonal.stride(), strict=True))
            asked = list(zip(wanted.sizes, wanted.strides, strict=True))
            if diagonal.storage_offset() == wanted.offset and sorted(dims) == sorted(asked):
                return diagonal.permute([dims.index(dim) for dim in asked])
    return None


def _arrange(view: torch.Tensor, places: list[int], wanted: Form) -> torch.Tensor:
    """Puts the dimensions of `view` to their places, and adds those that have one element or that
    repeat one."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    if order != list(range(len(order))):
        view = view.permute(order)
    for d in range(len(wanted.sizes)):
        if d not in places:
            view = view.unsqueeze(d)
    if tuple(view.shape) != wanted.sizes:
        view = view.expand(wanted.sizes)
    return view


def with_memory_of(value: torch.Tensor, sizes: Any, strides: Any) -> torch.Tensor:
    """The same elements in a dense memory that has these strides. The stride of a dimension with
    one element leads nowhere and is not compared."""
    own = unwrap_functional(value).stride()
    if tuple(value.shape) == tuple(sizes) and all(
        mine == wanted for size, mine, wanted in zip(sizes, own, strides, strict=True) if size != 1
    ):
        return value
    order = memory_order(sizes, strides)
    inverse = [order.index(d) for d in range(len(order))]
    return value.permute(order).clone(memory_format=torch.contiguous_format).permute(inverse)
