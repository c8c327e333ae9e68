"""Checks of arguments that the CPU's kernels make and PyTorch's shape functions do not. Without
them a wrong call would be recorded, and would fail, or spread its source, when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...torch_compat.ops import OpOverload

Arguments = dict[str, Any]


def check_arguments(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raises the error that the CPU raises. The tensors may be fake."""
    check = _CHECKS.get(op._schema.name.removesuffix("_"))
    if check is not None:
        named = {a.name: value for a, value in zip(op._schema.arguments, args, strict=False)}
        check(named | kwargs)


def _index_add(given: Arguments) -> None:
    x, index, source = given["self"], given["index"], given["source"]
    if index.dim() > 1:
        raise IndexError(
            f"index_add_(): Index is supposed to be a vector, but got dim: {index.dim()} with "
            f"type: {type_name(index.dtype)} and size: {list(index.shape)}"
        )
    rank = max(x.dim(), 1)
    if not -rank <= given["dim"] < rank:
        return  # the shape function says so
    dim = given["dim"] % rank
    count = source.shape[dim] if dim < source.dim() else 1
    if count != index.numel():
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.numel()}) should be equal to "
            f"source.size(dim): ({count}), for dim: {dim}"
        )
    ours, theirs = list(x.shape), list(source.shape)
    if x.dim() != source.dim() or ours[:dim] + ours[dim + 1 :] != theirs[:dim] + theirs[dim + 1 :]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {ours} source.shape = {theirs}"
        )


def _masks(given: Arguments) -> None:
    x, first = given["self"], 0
    for index in given["indices"]:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            first += 1
            continue
        for dim, size in enumerate(index.shape):
            if first + dim < x.dim() and size != x.shape[first + dim]:
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {dim} does not match the "
                    f"shape of the indexed tensor {list(x.shape)} at index {first + dim}"
                )
        first += index.dim()


def _index_put(given: Arguments) -> None:
    _masks(given)
    x, values = given["self"], given["values"]
    indices = [i for i in given["indices"] if i is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        return  # the number of places depends on data
    places = list(torch.ops.aten.index.Tensor(x, given["indices"]).shape)
    wanted = list(values.shape)
    aligned = places[max(len(places) - len(wanted), 0) :]
    if len(wanted) > len(places) or any(
        size not in (1, place) for size, place in zip(wanted, aligned, strict=True)
    ):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {wanted} cannot be broadcast to indexing "
            f"result of shape {places}"
        )


def _index_fill(given: Arguments) -> None:
    index = given["index"]
    if index.dtype != torch.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.dim() > 1:
        raise RuntimeError("Index has to be a vector/scalar")


def _index_select(given: Arguments) -> None:
    if given["index"].dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")


def _extreme(name: str, error: type[Exception] = RuntimeError) -> Callable[[Arguments], None]:
    """error: that of a call without dimensions."""

    def check(given: Arguments) -> None:
        x, dims = given["self"], given.get("dim")
        if "other" in given or x.numel() > 0:
            return
        if dims is None or dims == []:
            raise error(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        for dim in dims if isinstance(dims, (list, tuple)) else [dims]:
            if -x.dim() <= dim < x.dim() and x.shape[dim] == 0:
                raise IndexError(
                    f"{name}(): Expected reduction dim {dim % x.dim()} to have non-zero size."
                )

    return check


def _bucketize(given: Arguments) -> None:
    boundaries = given["boundaries"]
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )


def _masked_scatter(given: Arguments) -> None:
    if given["mask"].dtype != torch.bool:
        name = type_name(given["mask"].dtype)
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {name}"
        )


def _bitwise(name: str) -> Callable[[Arguments], None]:
    def check(given: Arguments) -> None:
        dtype = torch.result_type(given["self"], given["other"])
        if dtype.is_floating_point or dtype.is_complex:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{type_name(dtype)}'")

    return check


def _subtraction(given: Arguments) -> None:
    flags = [
        type(operand) is bool or getattr(operand, "dtype", None) == torch.bool
        for operand in (given["self"], given["other"])
    ]
    if all(flags):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(flags):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def _grid_sampler(given: Arguments) -> None:
    shape, grid = list(given["input"].shape), list(given["grid"].shape)
    both = f"but got input with sizes {shape} and grid with sizes {grid}"
    if shape[:1] != grid[:1]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, {both}"
        )
    if grid[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but "
            f"got grid with sizes {grid}"
        )
    for dim, size in enumerate(shape[2:], start=2):
        if size == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but got "
                f"input with sizes {shape} with dimension {dim} being empty"
            )


def _softmax(name: str) -> Callable[[Arguments], None]:
    def check(given: Arguments) -> None:
        x = given["self"]
        if not x.dtype.is_floating_point and not x.dtype.is_complex:
            last = given["dim"] in (-1, x.dim() - 1)
            kernel = f"{name}_lastdim_kernel_impl" if last else f"{name}_kernel_impl"
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_name(x.dtype)}'")

    return check


def _targets(given: Arguments) -> None:
    dtype = given["target"].dtype
    if dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_name(dtype)}")


def type_name(dtype: torch.dtype) -> str:
    """The name of a type in PyTorch's messages: "Float"."""
    return torch.empty(0, dtype=dtype).type().removeprefix("torch.").removesuffix("Tensor")


_CHECKS: dict[str, Callable[[Arguments], None]] = {
    "aten::_index_put_impl": _index_put,
    "aten::_log_softmax": _softmax("log_softmax"),
    "aten::_softmax": _softmax("softmax"),
    "aten::amax": _extreme("amax"),
    "aten::amin": _extreme("amin"),
    "aten::argmax": _extreme("argmax", IndexError),
    "aten::argmin": _extreme("argmin", IndexError),
    "aten::bitwise_and": _bitwise("bitwise_and"),
    "aten::bitwise_or": _bitwise("bitwise_or"),
    "aten::bitwise_xor": _bitwise("bitwise_xor"),
    "aten::bucketize": _bucketize,
    "aten::grid_sampler_2d": _grid_sampler,
    "aten::grid_sampler_3d": _grid_sampler,
    "aten::index": _masks,
    "aten::index_add": _index_add,
    "aten::index_fill": _index_fill,
    "aten::index_put": _index_put,
    "aten::index_select": _index_select,
    "aten::masked_scatter": _masked_scatter,
    "aten::max": _extreme("max"),
    "aten::min": _extreme("min"),
    "aten::nll_loss2d_forward": _targets,
    "aten::nll_loss_forward": _targets,
    "aten::rsub": _subtraction,
    "aten::sub": _subtraction,
}
