"""The properties of PyTorch's tensors that a captured graph can hold (graph/captured_graph.h)."""

from __future__ import annotations

import functools

import torch

from ... import native

# (element type, sizes, strides, storage offset), in elements.
Meta = tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int]

# How the gradient of an output is named among the inputs of a training graph.
GRADIENT_OF_OUTPUT = "of_output_"


@functools.cache
def element_types() -> frozenset[torch.dtype]:
    """The element types that a graph can hold."""
    return frozenset(native.torch_module().element_types())


class CaptureError(Exception):
    """This graph cannot be captured; the text says why. It runs eagerly."""


class NeedsFunctionalization(Exception):
    """The graph writes to a tensor or transforms a function, so it has to be traced under
    functionalization. The text names the call that does this."""


def is_static(tensor: torch.Tensor) -> bool:
    """True if no size, stride or offset is symbolic."""
    return (
        all(type(n) is int for n in tensor.shape)
        and all(type(n) is int for n in tensor.stride())
        and type(tensor.storage_offset()) is int
    )


def check_plain(tensor: torch.Tensor, what: str) -> None:
    """Raises CaptureError for tensors that have no strided description of static sizes."""
    if tensor.layout != torch.strided:
        raise CaptureError(f"{what} has layout {tensor.layout}; only strided tensors are compiled")
    if tensor.dtype not in element_types():
        raise CaptureError(f"{what} has element type {tensor.dtype}, which no graph can hold")
    if tensor.is_complex():
        raise CaptureError(
            f"{what} is complex, and recipes hold real numbers (rotary embeddings can be computed "
            "with cosine and sine; a call such as torch.fft can be kept out of the graph by "
            "torch.compiler.disable)"
        )
    if tensor.is_neg():
        raise CaptureError(f"{what} is a negated view")
    if not is_static(tensor):
        raise CaptureError(f"{what} has a size that depends on data or is symbolic")


def meta_of(tensor: torch.Tensor) -> Meta:
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        int(tensor.storage_offset()),
    )


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a contiguous copy, little endian."""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def source_line(stack_trace: str | None) -> str:
    """ "model.py:12 in forward" for the innermost user frame of an FX stack trace."""
    if not stack_trace:
        return ""
    frame = stack_trace.rfind('File "')
    if frame < 0:
        return ""
    head = stack_trace[frame + 6 :].split("\n", 1)[0]
    path, _, rest = head.partition('", line ')
    line, _, function = rest.partition(", in ")
    return f"{path.rsplit('/', 1)[-1]}:{line} in {function}"
