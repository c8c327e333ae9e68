"""The torch.compile backend, by the name that Dynamo's entry point and users import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx


def hpu_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """torch.compile(model, backend="hpu_backend"); see habana_frameworks.torch.dynamo.hook."""
    import habana_frameworks.torch

    from ..hook import hpu_backend as compile_graph

    habana_frameworks.torch.autoload()
    return compile_graph(gm, example_inputs, options=options, **kwargs)
