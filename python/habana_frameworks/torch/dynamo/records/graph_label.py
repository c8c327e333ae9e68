"""The name by which people know a graph: its module's class or its function, and where its code
begins."""

from __future__ import annotations

import os
import re
from typing import Any

import torch
import torch.fx

MAX_LABEL_BYTES = 256  # recipe_store/signing/alias.h

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in (\S+)')
# Dynamo gives such a name to the rest of a function after a graph break.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(\w+)_at_(\d+)")
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def source_of(module: torch.fx.GraphModule) -> str:
    """ "BertModel (modeling_bert.py:84)", "affine (model.py:12)"; "" if no node has a place.

    The line is that of the first node, in the innermost function that is not PyTorch's own.
    """
    frames = _first_frames(module)
    if not frames:
        return ""
    own = [frame for frame in frames if not frame[0].startswith(_TORCH_FOLDER)] or frames
    path, line, _ = own[-1]
    name = _module_class(module) or plain_function(own[0][2])
    return f"{name} ({os.path.basename(path)}:{line})"


def plain_function(text: str) -> str:
    """Replaces the names of functions that Dynamo split at a graph break by the user's names."""
    return _RESUMED.sub(r"\1", text)


def label(name: str, source: str) -> str:
    """The label of a program in the store, beside its key."""
    return f"{name} {source}".strip().encode()[:MAX_LABEL_BYTES].decode(errors="ignore")


def _first_frames(module: torch.fx.GraphModule) -> list[tuple[str, str, str]]:
    """(file, line, function) of the first node that has a stack, outermost first."""
    for node in module.graph.nodes:
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        if frames:
            return list(frames)
    return []


def _module_class(module: torch.fx.GraphModule) -> str:
    """The class of the module whose code the graph is; "" for a function.

    A node's nn_module_stack begins with the modules that the traced function calls; the module
    whose method is traced is that function's `self`.
    """
    traced = _traced_self()
    if traced:
        return traced
    for node in module.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            _, kind = next(iter(stack.values()))
            return str(getattr(kind, "__name__", kind))
    return ""


def _traced_self() -> str:
    """The class of the module whose method Dynamo is tracing."""
    try:
        from ...torch_compat.translator import InstructionTranslator

        root: Any = InstructionTranslator.current_tx().output.root_tx
        owner = root.f_locals.get("self")
    # Dynamo does not call us, or this version keeps the value elsewhere
    except (AttributeError, ImportError):
        return ""
    return type(owner).__name__ if isinstance(owner, torch.nn.Module) else ""
