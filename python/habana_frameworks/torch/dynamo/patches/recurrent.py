"""Recurrent layers while Dynamo traces: graphs contain them as whole layers (ops/recurrent.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...ops.recurrent import KINDS, layers
from ...torch_compat.dispatcher import DispatchKey
from ...torch_compat.dynamo_settings import dynamo_config


def _traced(kind: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def run(*call: Any) -> Any:
        found = layers(kind, *call)
        return otherwise(*call) if found is None else found

    return run


def _user_decides() -> bool:
    """True if the user has set torch._dynamo.config.allow_rnn. torch.export sets it for a while and
    restores the value as if the user had set it; a setting that only torch.export makes shows it.
    """
    config = dynamo_config
    is_default = config._is_default  # type: ignore[attr-defined]
    if is_default("allow_rnn"):
        return False
    return config.allow_rnn or is_default("do_not_emit_runtime_asserts")


@contextmanager
def in_graphs() -> Iterator[None]:
    """Dynamo takes layers into graphs, which by default it leaves out; unless the user has set
    torch._dynamo.config.allow_rnn, whose setting then holds (a False not after torch.export). For
    frames of hpu_backend alone: other backends would get layers that are traced without what
    `register` makes of them."""
    config = dynamo_config
    if _user_decides():
        yield
        return
    # config.patch would leave the restored value as if the user had set it.
    revert = config._make_closure_patcher(allow_rnn=True)()
    try:
        yield
    finally:
        revert()


def register() -> None:
    """Registers the layers for the Python dispatcher, which is on while tracing. May be called
    again. Eager layers are one CPU call, or composed where a gradient is wanted
    (backend/torch/record/op_registration.cc)."""
    key = DispatchKey.AutogradHPU
    for kind in KINDS:
        op = getattr(torch.ops.aten, kind).input
        if key not in op.py_kernels:
            op.py_impl(key)(_traced(kind, functools.partial(op._op_dk, key)))
