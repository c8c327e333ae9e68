"""Memory that inputs and outputs of partitioned graphs share (aot_graphs.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ..capture.inputs import example_of, propagate, without_symbols
from ..capture.tracing_state import clean_tracing_state
from ..capture.wire import is_static
from ..programs.binding import Compiled


def with_shared_versions(graph: torch.fx.GraphModule, call: Compiled) -> Compiled:
    """Wraps `call`, a forward of AOTAutograd, so that outputs over one memory share its version
    counter: by it autograd finds that a tensor saved for the backward has been written since.

    A value that is there twice is one tensor; a value that lies in the memory of an input or of an
    earlier output is a detached view of it.
    """
    outputs: Any = graph.graph.output_node().args[0]
    nodes: list[Any] = [*graph.graph.find_nodes(op="placeholder"), *outputs]
    inputs = len(nodes) - len(outputs)
    # An output; the position in `nodes` of the input or earlier output that it equals or is a view
    # of; and whether it is the same value.
    shared: list[tuple[int, int, bool]] = []
    of_memory: dict[int, int] = {}  # the first position of each memory
    of_value: dict[torch.fx.Node, int] = {}
    for i, node in enumerate(nodes):
        value = example_of(node) if isinstance(node, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            continue
        base, same = of_memory.setdefault(_memory(value), i), of_value.setdefault(node, i)
        if i >= inputs and base < i:
            shared.append((i - inputs, same if same < i else base, same < i))
    if not shared:
        return call

    def call_sharing(*args: Any) -> Any:
        outputs = list(call(*args))
        for output, source, same in shared:
            base = args[source] if source < inputs else outputs[source - inputs]
            value = outputs[output]
            if same:
                outputs[output] = base
            elif value._base is not base and _memory(value) == _memory(base):
                # A view would get the gradient that AOTAutograd gives to `base` afterwards.
                typed = (
                    base.detach() if base.dtype == value.dtype else base.detach().view(value.dtype)
                )
                outputs[output] = typed.as_strided(
                    value.shape, value.stride(), value.storage_offset()
                )
        return outputs

    return call_sharing


def unshared(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    call: Compiled,
    on_overlap: Callable[[], Compiled],
) -> Compiled:
    """Wraps `call`, which AOTAutograd made of the graph on the assumption that inputs overlap as
    they did then. Where an input that the graph writes to overlaps one that it did not overlap
    then, the result is that of on_overlap's callable, which is asked for once."""
    written = _written(module, example_inputs)
    if not written:
        return call
    known = _overlaps(example_inputs, written)
    instead = functools.cache(on_overlap)

    def call_apart(*args: Any) -> Any:
        if _overlaps(args, written) <= known:
            return call(*args)
        return instead()(*args)

    return call_apart


def _written(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> list[int]:
    """The positions of the inputs that the graph writes to; all positions where it cannot be run on
    fake tensors."""
    tensors = [i for i, value in enumerate(example_inputs) if isinstance(value, torch.Tensor)]
    examples = without_symbols(example_inputs)
    if examples is None:
        return tensors
    try:
        with clean_tracing_state():
            values = propagate(module, examples)
    except Exception:
        return tensors
    placeholders = module.graph.find_nodes(op="placeholder")
    return [i for i in tensors if values[placeholders[i]]._version]


def _memory(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def _overlaps(inputs: Sequence[Any], written: Sequence[int]) -> set[tuple[int, int]]:
    """Pairs of a written input and another input whose memory overlaps. Strided tensors count as
    overlapping when their extents do."""
    by_memory: dict[int, list[int]] = {}
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            by_memory.setdefault(_memory(value), []).append(i)
    if len(by_memory) == len(inputs):
        return set()
    return {
        (i, j)
        for i in written
        for j in by_memory[_memory(inputs[i])]
        if i != j and _extents_meet(inputs[i], inputs[j])
    }


def _extents_meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Always true where sizes are symbolic."""
    if not (is_static(a) and is_static(b)):
        return True
    (a_begin, a_end), (b_begin, b_end) = _extent(a), _extent(b)
    return a_begin < b_end and b_begin < a_end


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor in its memory, and the one after its last."""
    if tensor.numel() == 0:
        return 0, 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in steps)
    size = tensor.element_size()
    return int(tensor.storage_offset()) * size, (int(last) + 1) * size
