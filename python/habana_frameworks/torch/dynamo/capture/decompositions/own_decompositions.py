"""Decompositions, which PyTorch lacks, of ATen ops for which the compile server has no rule.

The results have the strides of the op's results (recorder.py checks that). NotImplementedError
means that the op stays as it is for these arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ....torch_compat.ops import OpOverload
from .grid_sampling import grid_sampler_2d, grid_sampler_2d_backward

_aten: Any = torch.ops.aten


def _weight_norm_backward(
    grad_w: torch.Tensor,
    saved_v: torch.Tensor,
    saved_g: torch.Tensor,
    saved_norms: torch.Tensor,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of w = v * (g / |v|), with a norm for each position in `dim`. The CPU kernel,
    which an eager step would call, assumes that every operand is contiguous and does not check
    it."""
    others = [d for d in range(saved_v.dim()) if d != dim]
    along = (grad_w * saved_v).sum(others, keepdim=True) / saved_norms
    grad_v = (saved_g / saved_norms) * (grad_w - saved_v * (along / saved_norms))
    return grad_v.to(saved_v.dtype).contiguous(), along.to(saved_g.dtype).contiguous()


def overwrites_all(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> bool:
    """True for an as_strided_scatter that replaces every element of a contiguous tensor."""
    expected = 1
    for n, step in sorted(zip(size, stride, strict=True), key=lambda pair: pair[1]):
        if n != 1 and step != expected:
            return False
        expected *= n
    return self.is_contiguous() and self.numel() == expected and not storage_offset


def _as_strided_scatter(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    """An as_strided_scatter that overwrites everything is its source in the order of memory."""
    order = sorted(range(src.dim()), key=lambda d: -stride[d])
    return src.permute(order).reshape(self.shape).clone()


def _replication_pad3d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, padding: Sequence[int]
) -> torch.Tensor:
    """Folds the depth first, as the height of planes whose pixels form a row, and then the
    planes."""
    depth, height, width = self.shape[-3:]
    left, right, top, bottom, front, back = padding
    padded = grad_output.shape[-2] * grad_output.shape[-1]
    count = self.numel() // (depth * height * width)
    grad = _aten.replication_pad2d_backward(
        grad_output.reshape(count, 1, -1, padded),
        self.new_empty((count, 1, depth, padded)),
        [0, 0, front, back],
    )
    grad = grad.reshape(count, depth, *grad_output.shape[-2:])
    like = self.reshape(count, depth, height, width)
    grad = _aten.replication_pad2d_backward(grad, like, [left, right, top, bottom])
    result: torch.Tensor = grad.reshape(self.shape)
    return result


def _trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    for dim in expand1:
        i1 = i1.unsqueeze(dim)
    for dim in expand2:
        i2 = i2.unsqueeze(dim)
    for dim in expand3:
        i3 = i3.unsqueeze(dim)
    product = i1 * i2 * i3
    return product.sum(list(sumdim)) if sumdim else product


def _conv_tbc(
    self: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pad: int = 0
) -> torch.Tensor:
    image, kernel = self.permute(1, 2, 0), weight.permute(2, 1, 0)
    y: torch.Tensor = _aten.convolution(image, kernel, bias, [1], [pad], [1], False, [0], 1)
    return y.permute(2, 0, 1).contiguous()


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float, compute_mode: int | None) -> torch.Tensor:
    if p != 2:
        raise NotImplementedError
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).square().sum(-1).sqrt()


def _cdist_backward(
    grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor
) -> torch.Tensor:
    """The gradient is 0 for equal points, whose distance has no derivative."""
    if p != 2:
        raise NotImplementedError
    share = torch.where(cdist == 0, 0.0, grad / cdist)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return (share.unsqueeze(-1) * difference).sum(-2).expand(x1.shape).contiguous()


def _kth(
    self: torch.Tensor, k: int, dim: int, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The k-th smallest value (from 0) and its position, and whether the largest value is NaN,
    which means that the row has a NaN."""
    values, places = self.sort(dim)
    value, place = values.narrow(dim, k, 1), places.narrow(dim, k, 1)
    last = values.narrow(dim, self.shape[dim] - 1, 1)
    has_nan = last != last
    found = (
        (value, place, has_nan) if keepdim else [x.squeeze(dim) for x in (value, place, has_nan)]
    )
    value, place, has_nan = (x.clone(memory_format=torch.contiguous_format) for x in found)
    return value, place, has_nan


def _kthvalue(
    self: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    if self.dim() == 0:
        raise NotImplementedError
    value, place, _ = _kth(self, k - 1, dim, keepdim)
    return value, place


def _median(
    self: torch.Tensor, dim: int, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower one of two values in the middle; NaN where the row has a NaN."""
    if self.dim() == 0 or not self.is_floating_point():
        raise NotImplementedError
    value, place, has_nan = _kth(self, (self.shape[dim] - 1) // 2, dim, keepdim)
    first_nan = (self != self).to(torch.float32).argmax(dim, keepdim)
    return torch.where(has_nan, float("nan"), value), torch.where(has_nan, first_nan, place)


def _put(
    self: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    flat = self.reshape(-1)
    put = _aten.index_put(flat, [index.reshape(-1)], source.reshape(-1), accumulate)
    result: torch.Tensor = put.reshape(self.shape)
    return result


def _masked_scatter(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """A position that the mask selects reads the element of the source whose index is the number of
    selected positions before it."""
    self, mask = torch.broadcast_tensors(self, mask)
    read = (mask.reshape(-1).cumsum(0) - 1).clamp(min=0)
    given = source.reshape(-1).index_select(0, read).reshape(mask.shape)
    return torch.where(mask, given, self).contiguous()


def _masked_scatter_backward(
    grad_output: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]
) -> torch.Tensor:
    mask = mask.expand(grad_output.shape).reshape(-1)
    count = 1
    for size in sizes:
        count *= size
    read = (mask.cumsum(0) - 1).clamp(min=0)
    given = torch.where(mask, grad_output.reshape(-1), 0.0)
    result: torch.Tensor = _aten.scatter_add(given.new_zeros(count), 0, read, given).reshape(sizes)
    return result


def _searchsorted(
    sorted_sequence: torch.Tensor,
    self: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Counts the edges before each value. The work is quadratic, but no step depends on another.
    NaN is larger than every number."""
    if sorter is not None:
        raise NotImplementedError
    edges, values = sorted_sequence.unsqueeze(-2), self.unsqueeze(-1)
    behind = edges > values if right or side == "right" else edges >= values
    return (~behind).sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    if output_size is None:
        raise NotImplementedError
    places = torch.arange(output_size, dtype=repeats.dtype, device=repeats.device)
    ends = repeats.cumsum(0).to(repeats.dtype)
    return (ends <= places.unsqueeze(-1)).sum(-1, dtype=repeats.dtype)


def _histc(self: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    if min >= max:
        raise NotImplementedError  # the bounds depend on the data
    flat = self.reshape(-1)
    place = ((flat - min) * bins / (max - min)).floor().clamp(max=bins - 1)
    inside = (flat >= min) & (flat <= max)
    hits = (place.unsqueeze(-1) == torch.arange(bins, device=self.device)) & inside.unsqueeze(-1)
    return hits.sum(0).to(self.dtype)


def _median_of_all(self: torch.Tensor) -> torch.Tensor:
    return _median(self.reshape(-1), 0)[0]


def _fmax(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where one operand is NaN, the result is the other."""
    if not self.is_floating_point() or self.dtype != other.dtype:
        raise NotImplementedError
    larger = torch.where(other.isnan(), self, torch.maximum(self, other))
    return torch.where(self.isnan(), other, larger)


def _fmin(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if not self.is_floating_point() or self.dtype != other.dtype:
        raise NotImplementedError
    smaller = torch.where(other.isnan(), self, torch.minimum(self, other))
    return torch.where(self.isnan(), other, smaller)


def _index_reduce(
    self: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    if not self.dim() or not self.is_floating_point():
        raise NotImplementedError
    sizes = [1] * self.dim()
    sizes[dim] = -1
    places = index.reshape(sizes).expand(source.shape)
    result: torch.Tensor = _aten.scatter_reduce(
        self, dim, places, source, reduce, include_self=include_self
    )
    return result


def _diagonal_scatter(
    self: torch.Tensor, src: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    matrices = self.movedim((dim1, dim2), (-2, -1))
    rows, columns = matrices.shape[-2:]
    row = torch.arange(rows, device=self.device).unsqueeze(1)
    on_diagonal = torch.arange(columns, device=self.device) - row == offset
    # An element above the main diagonal is counted by its row, one below it by its column.
    length = rows if offset >= 0 else columns
    values = _aten.constant_pad_nd(src, [0, length - src.shape[-1]])
    values = values.unsqueeze(-1 if offset >= 0 else -2)
    placed = torch.where(on_diagonal, values, matrices)
    return placed.movedim((-2, -1), (dim1, dim2)).contiguous()


def _triangle(
    counts: torch.Tensor, firsts: torch.Tensor, total: int, dtype: torch.dtype
) -> torch.Tensor:
    """The row and column of each of `total` elements. Row i has counts[i] elements, from column
    firsts[i] on."""
    ends = counts.cumsum(0)
    place = torch.arange(total, device=counts.device)
    row = (ends <= place.unsqueeze(-1)).sum(-1)
    column = place - (ends - counts).index_select(0, row) + firsts.index_select(0, row)
    return torch.stack((row, column)).to(dtype)


def _tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: torch.dtype | None = torch.long,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    total = sum(min(max(r + offset + 1, 0), col) for r in range(row))
    if not total:
        raise NotImplementedError
    counts = (torch.arange(row, device=device) + offset + 1).clamp(0, col)
    return _triangle(counts, torch.zeros_like(counts), total, dtype or torch.long)


def _triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: torch.dtype | None = torch.long,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    total = sum(col - min(max(r + offset, 0), col) for r in range(row))
    if not total:
        raise NotImplementedError
    firsts = (torch.arange(row, device=device) + offset).clamp(0, col)
    return _triangle(col - firsts, firsts, total, dtype or torch.long)


def _zeros(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> torch.Tensor:
    """Zeros in place of autograd's zeros without memory, which no step can read."""
    return torch.zeros(size, dtype=dtype, device=device)


OWN: dict[OpOverload, Callable[..., Any]] = {
    _aten.grid_sampler_2d.default: grid_sampler_2d,
    _aten.grid_sampler_2d_backward.default: grid_sampler_2d_backward,
}
