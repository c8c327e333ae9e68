"""The log of the decision per node: compiled, or run eagerly."""

from __future__ import annotations

import logging

import torch.fx

from ... import native
from ...internal.logger import Logger

logger = Logger("PT_COMPILE")


def _base_name(node: torch.fx.Node) -> str:
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return name.strip("_")


def log_decisions(module: torch.fx.GraphModule, eager_ops: set[str]) -> None:
    """Logs one line per call node. eager_ops: names of the ops that the program runs eagerly.

    A warning of this package already names each eager step with its reason. Therefore the lines of
    the bridge are logged only where the guide's masks ask for CPU fallbacks (FALL-3)."""
    if not logger.enabled(logging.WARNING):
        return
    torch_module = native.torch_module()
    asked = torch_module.log_enabled(torch_module.LOG_FALLBACK, torch_module.LOG_DEBUG)
    for node in module.graph.nodes:
        if node.op not in ("call_function", "call_method"):
            continue
        eager = _base_name(node) in eager_ops
        logger.debug(f"Node: {node.name} requires fallback: {eager}")
        if eager:
            meta = node.meta.get("example_value")
            text = "Fallback required. Node: {} Target: {} Meta: {}"
            logger.warn_if(asked, text, node.name, node.target, meta)
            text = "Node.args: {}, Node.kwargs: {}"
            logger.warn_if(asked, text, node.args, node.kwargs)
