"""hpu_backend as Dynamo looks it up; the work is done in habana_frameworks.torch.dynamo.hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

from ..patches import fake_ops, optimizers, recurrent
from ..start import frames

# Dynamo traces before it calls a backend, so this happens when the backend is looked up.
fake_ops.register()
optimizers.register()
recurrent.register()


def _connect_early() -> None:
    """Dynamo imports this module when somebody names the backend, so graphs will follow."""
    from ..programs.service import service

    service.connect_early()


_connect_early()


def hpu_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """torch.compile(model, backend="hpu_backend"); see habana_frameworks.torch.dynamo.hook."""
    from ..hook import hpu_backend as compile_graph

    return compile_graph(gm, example_inputs, options=options, **kwargs)


frames.register(hpu_backend)
