"""The operators that draw random numbers in graphs.

A program takes the generator's state as an input, so a random operator is the same call in a
compiled graph as elsewhere, and each name leads to the operator itself. A graph with activation
checkpoints keeps that state for its second forward.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

_NAMES = {
    "aten.bernoulli.default": torch.ops.aten.bernoulli,
    "aten.poisson.default": torch.ops.aten.poisson,
    "aten.rand.default": torch.ops.aten.rand,
    "aten.randn.default": torch.ops.aten.randn,
    "aten.randint.low": torch.ops.aten.randint,
    "aten.multinomial.default": torch.ops.aten.multinomial,
    "aten.randperm.default": torch.ops.aten.randperm,
    "aten.native_dropout.default": torch.ops.aten.native_dropout,
    "aten.uniform.default": torch.ops.aten.uniform,
}

HABANA_RANDOM_OPS_LIST = list(_NAMES)
HABANA_RANDOM_OPS: dict[str, Any] = dict(_NAMES)
HABANA_CHECKPOINT_OPS: dict[str, Any] = dict(_NAMES)

_SAVES_STATE = "run_and_save_rng_state"
_TAKES_STATE = "run_with_rng_state"


def is_random_op(node: torch.fx.Node) -> bool:
    """Whether a node draws numbers, in a first forward or in a graph without checkpoints."""
    name = str(node.target)
    return node.op == "call_function" and (name in HABANA_RANDOM_OPS or name == _SAVES_STATE)


def is_backward_checkpoint_op(node: torch.fx.Node) -> bool:
    """Whether a node draws the numbers of an earlier node again."""
    return node.op == "call_function" and str(node.target) == _TAKES_STATE
