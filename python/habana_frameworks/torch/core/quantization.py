"""Inference set-up: functions that programs call before and after they move a model to the device.

A graph that needs no gradients is compiled for inference without any set-up, and weights are inputs
of its program. So only the fusion of convolution and batch norm changes anything; each of the other
functions logs once that it does not.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from habana_frameworks.torch import hpu
from habana_frameworks.torch.dynamo.settings import options
from habana_frameworks.torch.internal.notices import without_effect

_log = logging.getLogger("habana_frameworks.torch.core")


def _fused(model: torch.nn.Module) -> torch.nn.Module:
    """A copy with batch norms folded into the layers before them. If that is not possible, `model`
    itself, with a warning that says why."""
    if model.training:
        reason = "it is in training mode; call eval() first"
    elif any(parameter.device.type != "cpu" for parameter in model.parameters()):
        reason = "it is not on the CPU any more; call this before .to('hpu')"
    else:
        from torch.fx.experimental import optimization

        try:
            return optimization.fuse(model)
        except Exception as error:
            reason = f"torch.fx cannot trace it: {type(error).__name__}: {error}"
    _log.warning("batch norms of %s are not folded: %s", type(model).__name__, reason)
    return model


def hpu_set_inference_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """To be called before a model is moved to the device. Returns a copy of the model whose batch
    norms are folded into its convolutions; None without a model."""
    hpu.enable_inference_mode()
    hpu.enable_matmul3d_2d_reshape()
    return None if model is None else _fused(model)


def hpu_set_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Older name of hpu_set_inference_env."""
    return hpu_set_inference_env(model)


def hpu_inference_set_env() -> None:
    """Prepares the process for inference, without a model."""
    hpu_set_inference_env()


def hpu_inference_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
    *,
    mark_scales: bool = True,
    mark_non_scales: bool = True,
) -> None:
    """To be called after a model was moved to the device. `optimizer` and `args` are accepted and
    not used, as in the reference. The other arguments say which parameters are to be constants:
    scales of quantization, the others, or both."""
    hpu.enable_inference_mode()
    hpu.enable_matmul3d_2d_reshape()
    if model is not None and (mark_scales or mark_non_scales):
        only_scales = mark_only_scales_as_const or not mark_non_scales
        _mark_params_as_const(model, only_scales=only_scales)


def hpu_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
) -> None:
    """Older name of hpu_inference_initialize."""
    hpu_inference_initialize(model, mark_only_scales_as_const, optimizer, args)


def hpu_teardown_inference_env() -> None:
    """To be called after the model has run."""
    hpu.disable_inference_mode()
    hpu.disable_matmul3d_2d_reshape()


def hpu_reset_env() -> None:
    """Older name of hpu_teardown_inference_env."""
    hpu_teardown_inference_env()


def _mark_params_as_const(
    model: torch.nn.Module | None = None, only_scales: bool = False, console_prints: bool = False
) -> None:
    """Would make parameters constants of the graphs; does nothing here."""
    without_effect("marking parameters as constants", options.effect("use_graph_freezing"))


def _check_params_as_const(model: torch.nn.Module | None = None, only_scales: bool = False) -> None:
    """Checks nothing, as in the reference."""
