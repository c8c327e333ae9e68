"""Decides which Dynamo graphs go to the compiler."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ..internal.registrations import OWN_OPS, has_derivative
from ..torch_compat.ops import OpOverload, OpOverloadPacket
from ..torch_compat.stream_calls import TENSOR_CALLS
from ..torch_compat.trees import tree_leaves
from .capture.inputs import (
    INFERENCE_SWITCH,
    example_of,
    follows_gradients,
    left_grad_mode,
    of_compiled_autograd,
)
from .programs.binding import warn_once
from .programs.request import Settings


def _bodies_with_a_gradient(gm: torch.fx.GraphModule) -> set[str]:
    """The paths of the forwards and backwards of autograd functions in the graph. Nobody
    differentiates the calls inside a forward, because the backward is its gradient."""
    return {
        str(argument.target)
        for node in gm.graph.nodes
        if node.target is torch.ops.higher_order.autograd_function_apply
        for argument in node.all_input_nodes
        if argument.op == "get_attr"
    }


def _differentiated_kernel(gm: torch.fx.GraphModule) -> str:
    """An operator of the graph whose gradient eager code finds by differentiating the calls inside
    its kernel, which no capture sees; "" if there is none."""
    given_gradient = _bodies_with_a_gradient(gm)
    graphs = (
        module.graph
        for path, module in gm.named_modules()
        if isinstance(module, torch.fx.GraphModule) and path not in given_gradient
    )
    for node in itertools.chain.from_iterable(graph.nodes for graph in graphs):
        op = node.target
        if not isinstance(op, (OpOverload, OpOverloadPacket)):
            continue
        packet = op.overloadpacket if isinstance(op, OpOverload) else op
        if packet._qualified_op_name.partition("::")[0] in OWN_OPS:
            continue
        results = tree_leaves(example_of(node))
        given = map(example_of, node.all_input_nodes)
        if not any(isinstance(v, torch.Tensor) and v.requires_grad for v in given):
            continue
        if not any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in results):
            continue
        named = [op] if isinstance(op, OpOverload) else [getattr(op, n) for n in op.overloads()]
        if not all(map(has_derivative, named)):
            return str(op)
    return ""


def eager_reason(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Settings, device: str
) -> str:
    """Why a graph does not go to the compiler at all; "" if it does. device: the device on which
    graphs compute."""
    if not settings["use_compiled_recipes"]:
        return "option use_compiled_recipes is off"
    if any(node.target in TENSOR_CALLS for node in gm.graph.nodes):
        return "it tells the memory of a tensor which stream uses it"
    tensors = [v for v in example_inputs if isinstance(v, torch.Tensor)]
    trains = follows_gradients(gm) and any(t.requires_grad for t in tensors)
    if not settings["inference"] and not trains:
        return "option inference is off"
    if any(isinstance(v, list) for v in example_inputs):
        return "an input is a list"
    if of_compiled_autograd(gm):
        return "the graph is a part of a backward that compiled autograd traced"
    if left_grad_mode(gm) != torch.is_grad_enabled():
        return "the graph leaves another grad mode behind than it was called in"
    if any(n.target is INFERENCE_SWITCH and n.args[0] is False for n in gm.graph.nodes):
        return "the graph leaves inference mode (torch.inference_mode(False))"
    opaque = _differentiated_kernel(gm) if trains else ""
    if opaque:
        return f"{opaque} has no derivative of its own (torch.library.register_autograd)"
    devices = {t.device.type for t in tensors}
    if tensors and device not in devices:
        warn_once(
            f"a graph with tensors on {', '.join(sorted(devices))} only runs eagerly: "
            'move the model and its inputs to the device with .to("hpu")'
        )
        return f"no input is on {device}"
    if devices - {device, "cpu"}:
        return f"inputs on {', '.join(sorted(devices))}"
    return ""
