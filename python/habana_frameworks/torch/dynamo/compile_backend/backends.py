"""hpu_backend under the name where Dynamo looks it up; the work is done in
habana_frameworks.torch.dynamo.hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

from ...torch_compat import features

_Backend = Callable[..., Callable[..., Any]]
_compile_graph: _Backend | None = None


def _know_fakes() -> None:
    from ..patches import fake_ops

    fake_ops.register()


def _know_optimizers() -> None:
    from ..patches import optimizers

    optimizers.register()


def _know_recurrent_layers() -> None:
    from ..patches import recurrent

    recurrent.register()


def _know_random_state() -> None:
    from ..patches import random_state

    random_state.register()


def _know_starts() -> None:
    from ..start import frames

    frames.register(hpu_backend)


def _load_hook() -> None:
    global _compile_graph
    from ..hook import hpu_backend as compile_graph

    _compile_graph = compile_graph


def hpu_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """torch.compile(model, backend="hpu_backend"); see habana_frameworks.torch.dynamo.hook."""
    if _compile_graph is None:
        features.enable(features.COMPILING, _load_hook)
    if _compile_graph is None:
        return gm.forward
    return _compile_graph(gm, example_inputs, options=options, **kwargs)


def _connect_early() -> None:
    """Dynamo imports this module when somebody names the backend, so graphs will follow."""
    from ..programs.service import service

    service.connect_early()


# Dynamo traces before it calls a backend, so this happens when the backend is looked up.
features.enable(features.FAKE_RESULTS, _know_fakes)
features.enable(features.OPTIMIZERS, _know_optimizers)
features.enable(features.RECURRENT_LAYERS, _know_recurrent_layers)
features.enable(features.RANDOM_STATE, _know_random_state)
features.enable(features.COMPILING, _connect_early)
features.enable(features.STARTS, _know_starts)
