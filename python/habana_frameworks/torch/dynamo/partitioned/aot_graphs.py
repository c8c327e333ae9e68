"""Graphs that our own capture does not take, compiled by way of PyTorch's AOTAutograd.

Its traces have no nested graphs, custom functions or writes that gradients flow through. Each of
the graphs into which it partitions one (forward, backward, or inference) is a graph of ATen calls
that the hook compiles as any other. Only their programs are stored: AOTAutograd runs in every
process, and its Python runs at every call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
import torch.fx

from ...torch_compat import features
from ...torch_compat.modes import disable_current_modes
from ...torch_compat.transforms import dual_level
from ..capture.tracing_state import clean_tracing_state
from ..capture.wire import CaptureError
from ..programs.binding import Compiled
from ..programs.request import BACKWARD, FORWARD, INFERENCE
from .shared_memory import with_shared_versions

# TORCH_LOGS and torch._logging.set_logs(modules=...) take the name of a package.
_log = logging.getLogger("habana_frameworks.torch.dynamo")

# Takes the name of a part (one of these), its graph and its inputs, and returns the function that
# computes the part. Raises CaptureError for a part that is not worth partitioning a graph for.
CompilePart = Callable[[str, torch.fx.GraphModule, Sequence[Any]], Compiled]


def part(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], compile_part: CompilePart
) -> Compiled:
    """Returns the graph as a function. CaptureError says why partitioning failed as well."""
    aot = features.load(features.PARTITIONING, "aot")
    if aot is None:
        raise CaptureError("this PyTorch has no AOTAutograd that hpu_backend knows")
    failed: list[BaseException] = []

    def compiler(name: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Any]:
        def compile(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            try:
                # A graph that AOTAutograd has partitioned must not be differentiated again, and
                # its fake mode differs from the capture's.
                with torch.no_grad(), disable_current_modes():
                    call = compile_part(name, graph, inputs)
                    if name == FORWARD:
                        call = with_shared_versions(graph, call)
                    return aot.make_boxed_func(call)
            except BaseException as error:
                failed.append(error)
                raise

        return compile

    build = aot.aot_autograd(
        fw_compiler=compiler(FORWARD),
        bw_compiler=compiler(BACKWARD),
        inference_compiler=compiler(INFERENCE),
        partition_fn=aot.min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    try:
        with clean_tracing_state():
            call: Compiled = build(module, example_inputs)
            return call
    except Exception as error:
        if failed:
            raise failed[0] from None
        _log.debug("AOTAutograd failed", exc_info=True)
        first_line = str(error).partition("\n")[0]
        raise CaptureError(f"{type(error).__name__}: {first_line}") from error


def with_tangents_eagerly(
    call: Compiled, on_tangents: Callable[[tuple[Any, ...]], Any]
) -> Compiled:
    """Wraps `call`, which AOTAutograd made and whose functions do not know forward mode: where an
    argument has a tangent, the result is that of on_tangents."""

    def call_without(*args: Any) -> Any:
        if dual_level() >= 0 and any(map(_has_tangent, args)):
            return on_tangents(args)
        return call(*args)

    return call_without


def _has_tangent(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None
