"""Fake tensors on hpu get the sizes and strides that eager ops give there.

A graph that was traced with other strides refuses views that eager code makes. Eager ops on hpu
give the sizes and strides of those on the CPU, whose kernels run some of the calls. PyTorch assumes
that

- every hpu result is contiguous, which holds for the fork's device and not for this one;
- a convolution backend that it does not know makes row-major results, but an eager convolution on
  hpu keeps channels-last, as on the CPU;
- some results have the sizes that CUDA gives them;
- some ops make row-major results where their CPU kernels keep the memory format of an argument, or
  the other way round;
- some pointwise ops order the dimensions of their results otherwise than the iterator of the CPU
  kernels;
- products of groups are of bf16, as on CUDA. On the CPU, and here, they are of f32 and f16, too.

tests/python/ops/test_memory_formats.py compares all ops with their CPU kernels.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from ...torch_compat.decomposition_table import decomposition_table
from ...torch_compat.fake_rules import op_implementations_dict, suggest_memory_format
from ...torch_compat.replaced import original, replace
from ...torch_compat.trees import tree_leaves, tree_map_only

_aten = torch.ops.aten

# Ops whose fake kernels depend on the device.
_AS_ON_CPU = (
    _aten.convolution.default,
    _aten.convolution_backward.default,
    _aten._embedding_bag.default,
    _aten._embedding_bag_forward_only.default,
)
# Ops that keep the memory format (channels-last or row-major) of an argument, and the argument's
# position.
_KEEP_FORMAT = {
    _aten.channel_shuffle.default: 0,
    _aten.pixel_shuffle.default: 0,
    _aten.pixel_unshuffle.default: 0,
    _aten.reflection_pad2d_backward.default: 1,
    _aten.reflection_pad3d.default: 0,
    _aten.reflection_pad3d_backward.default: 1,
    _aten.replication_pad2d_backward.default: 1,
    _aten.replication_pad3d.default: 0,
    _aten.replication_pad3d_backward.default: 1,
}

# Ops whose results are row-major, and those of them whose fake results PyTorch makes by a
# decomposition, before it asks for a rule.
_ROW_MAJOR = (_aten.isin.Tensor_Tensor, _aten.nonzero_static.default, _aten.pow.Scalar)
_ROW_MAJOR_BY_DECOMPOSITION = (
    _aten.huber_loss_backward.default,
    _aten.log_sigmoid_forward.default,
    _aten.mse_loss_backward.default,
    _aten.nll_loss2d_forward.default,
    _aten.smooth_l1_loss_backward.default,
)
# Ops whose results have the strides of the sum of their first two arguments.
_AS_SUM = (
    _aten.copysign.Tensor,
    _aten.div.Tensor_mode,
    _aten.floor_divide.default,
    _aten.heaviside.default,
    _aten.logaddexp.default,
    _aten.logical_and.default,
    _aten.logical_or.default,
    _aten.logical_xor.default,
    _aten.special_xlog1py.default,
    _aten.xlogy.Tensor,
)

# Ops without a meta function, whose CPU kernels lack the narrow types, and the argument that their
# result is like.
_LIKE_ARGUMENT = {
    _aten.multi_margin_loss_backward.default: 1,
    _aten.multilabel_margin_loss_backward.default: 1,
}

Fake = Callable[..., Any]


def _device_of(args: Any, kwargs: Any) -> torch.device | None:
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor):
            return leaf.device
    return None


def _like(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)


def _as_on_cpu(original: Fake | None) -> Fake:
    """original: PyTorch's own rule; None if that is the op's meta function."""

    def rule(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        device = _device_of(args, kwargs)
        if device is None or device.type != "hpu":
            return (
                NotImplemented if original is None else original(fake_mode, func, *args, **kwargs)
            )
        with fake_mode:
            args, kwargs = tree_map_only(torch.Tensor, lambda t: _like(t, "cpu"), (args, kwargs))
            found = (
                original(fake_mode, func, *args, **kwargs) if original else func(*args, **kwargs)
            )
            return tree_map_only(torch.Tensor, lambda t: _like(t, device), found)

    return rule


class _Inside(threading.local):
    """Whether this thread is inside a rule that asks PyTorch for its own result."""

    def __init__(self) -> None:
        self.value = False


_inside = _Inside()


def _with_strides(made: Callable[[Any, Any], Any]) -> Fake:
    """made: makes what an op returns from what PyTorch's fake op returns and the arguments."""

    def rule(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        device = _device_of(args, kwargs)
        if device is None or device.type != "hpu" or _inside.value:
            return NotImplemented
        _inside.value = True
        try:
            with fake_mode:
                return made(func(*args, **kwargs), args)
        finally:
            _inside.value = False

    return rule


def _keep_format(argument: int) -> Fake:
    return _with_strides(lambda result, args: _in_format_of(args[argument], result))


def _in_format_of(argument: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    order = suggest_memory_format(argument)
    return torch.empty(result.shape, dtype=result.dtype, device=result.device, memory_format=order)


def _row_major(result: Any, args: Any) -> Any:
    return tree_map_only(
        torch.Tensor, lambda t: torch.empty(t.shape, dtype=t.dtype, device=t.device), result
    )


def _row_major_decomposition(decompose: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decompose)
    def made(*args: Any, **kwargs: Any) -> Any:
        return tree_map_only(
            torch.Tensor,
            lambda t: t.contiguous() if t.device.type == "hpu" else t,
            decompose(*args, **kwargs),
        )

    return made


def _as_sum(result: torch.Tensor, args: Any) -> torch.Tensor:
    strides = torch.add(args[0], args[1]).stride()
    return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)


def _group_norm(result: tuple[torch.Tensor, ...], args: Any) -> tuple[torch.Tensor, ...]:
    """The first result keeps the input's memory format. Until PyTorch 2.13 F.group_norm makes its
    input row-major for hpu; since 2.14 it does not, and PyTorch's fake result is row-major."""
    return (_in_format_of(args[0], result[0]), *result[1:])


def _rolled(result: torch.Tensor, args: Any) -> torch.Tensor:
    """Rolls by parts, one dimension after the other; row-major where it rolls over all elements."""
    if len(args) < 3 or not args[2] or result.numel() == 0:
        return result
    made = args[0]
    for dim in args[2]:
        if made.shape[dim] > 1:
            made = torch.cat(
                [made.narrow(dim, 1, made.shape[dim] - 1), made.narrow(dim, 0, 1)], dim
            )
    return made if made is not args[0] else torch.empty_like(made)


def _batch_norm(helper: Callable[..., Any]) -> Callable[..., Any]:
    """helper: PyTorch's decomposition, on which fake batch norms of every schema are based. Its
    result has the strides of the input, that of CPU kernels only the memory format. Where the batch
    norm does not calculate statistics, it returns those that it was given; CPU kernels return
    tensors without elements."""

    @functools.wraps(helper)
    def made(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        output, mean, deviation, *running = helper(input, *args, **kwargs)
        if input.device.type != "hpu":
            return (output, mean, deviation, *running)
        output = _in_format_of(input, output)
        if not kwargs.get("training", args[4] if len(args) > 4 else True):
            mean, deviation = input.new_zeros((0,)), input.new_zeros((0,))
        return (output, mean, deviation, *running)

    return made


def _grouped_product(
    fake_mode: Any,
    func: Any,
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Rows, columns or the inner dimension of groups, of f32 or f16. All others are left to
    PyTorch's rule, which takes bf16 or says what is wrong."""
    if a.device.type != "hpu" or a.dtype not in (torch.float32, torch.float16):
        return NotImplemented
    if a.dtype != b.dtype or bias is not None or out_dtype not in (None, a.dtype):
        return NotImplemented
    sizes = _sizes_of_grouped_product(a, b, offs)
    if sizes is None:
        return NotImplemented
    with fake_mode:
        return torch.empty(sizes, dtype=a.dtype, device=a.device)


def _sizes_of_grouped_product(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None
) -> tuple[int, ...] | None:
    forms = (a.dim(), b.dim())
    if not set(forms) <= {2, 3} or a.shape[-1] != b.shape[-2]:
        return None
    if (offs is None) != (forms == (3, 3)):
        return None
    if offs is not None and (offs.dim() != 1 or offs.dtype != torch.int32):
        return None
    matrix = (a.shape[-2], b.shape[-1])
    groups = [t.shape[0] for t in (a, b) if t.dim() == 3]
    groups += [] if offs is None else [offs.shape[0]]
    if any(count != groups[0] for count in groups):
        return None
    return matrix if forms in ((2, 3), (3, 2)) else (groups[0], *matrix)


def _like_argument(place: int) -> Fake:
    def rule(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        given = args[place]
        if given.device.type != "hpu" or given.dtype not in (torch.bfloat16, torch.float16):
            return NotImplemented
        with fake_mode:
            return torch.empty(given.shape, dtype=given.dtype, device=given.device)

    return rule


def register() -> None:
    """May be called again."""
    for module in ("torch._subclasses.fake_impls", "torch._refs"):
        path = f"{module}.is_noncontiguous_supported"
        original(path)
        replace(path, lambda device: True)
    table = op_implementations_dict
    if getattr(table[_aten.convolution.default], "__module__", "") == __name__:
        return
    for op in _AS_ON_CPU:
        table[op] = _as_on_cpu(table.get(op))
    for op, argument in _KEEP_FORMAT.items():
        table[op] = _keep_format(argument)
    for op in _ROW_MAJOR:
        table[op] = _with_strides(_row_major)
    for op in _ROW_MAJOR_BY_DECOMPOSITION:
        decomposition_table[op] = _row_major_decomposition(decomposition_table[op])
    for op in _AS_SUM:
        table[op] = _with_strides(_as_sum)
    for op, argument in _LIKE_ARGUMENT.items():
        table[op] = _like_argument(argument)
    table[_aten._grouped_mm.default] = _grouped_product
    table[_aten.native_group_norm.default] = _with_strides(_group_norm)
    table[_aten.roll.default] = _with_strides(_rolled)
    path = "torch._decomp.decompositions.native_batch_norm_helper"
    replace(path, _batch_norm(original(path)))
