"""Features that turn themselves off where PyTorch lacks a private name. All others stay on.

`enable` runs the action that sets a feature up. If a name is missing, or if a function that is to
be replaced has other parameters, only that feature is off, and one warning says what is lost.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

_log = logging.getLogger("habana_frameworks.torch")


class Mismatch(Exception):
    """A function of PyTorch is not what this package was written for; the text says how."""


@dataclass(frozen=True)
class Feature:
    name: str
    lost: str  # completes "..., so": what users notice


COMPILING = Feature("compiling for hpu", "hpu_backend runs every graph eagerly")
STARTS = Feature(
    "starting without tracing",
    "every process traces its models, and recurrent layers step by step",
)
AUTOMATIC_SIZES = Feature(
    "sizes in stored starts", "a process that starts without tracing meets each size as new"
)
OPTIMIZERS = Feature("compiled optimizers on hpu", "a compiled optimizer step runs eagerly")
RECURRENT_LAYERS = Feature(
    "whole recurrent layers in graphs", "nn.LSTM and its like are traced step by step"
)
FAKE_RESULTS = Feature(
    "sizes and strides of fake results",
    "a compiled graph may refuse views of tensors that are not row-major",
)
DECOMPOSITIONS = Feature(
    "PyTorch's decompositions", "operators without a rule in the compile server run eagerly"
)
RANDOM_STATE = Feature(
    "calls of torch.hpu.random from traced code", "Dynamo traces into them and may fail"
)
PARTITIONING = Feature(
    "partitioning by AOTAutograd", "graphs that the capture refuses run eagerly as a whole"
)
ARTIFACTS = Feature("programs in cache artifacts", "torch.compiler.save_cache_artifacts has none")
DEVICE_INTERFACE = Feature(
    "Dynamo's device interface for hpu", "libraries that ask Dynamo for it get an error"
)
OPERATORS = Feature("Gaudi's operators", "torch.ops.hpu lacks them")
WIDE_PRODUCTS = Feature("torch.matmul with a wider out", "it is refused, as on the CPU")
MANUAL_SEED = Feature("torch.manual_seed for hpu", "call torch.hpu.manual_seed as well")
STORAGES = Feature(
    "storages of tensors in lazy mode",
    "data_ptr() and untyped_storage() of a tensor that has not run yet raise errors",
)
DISTRIBUTED = Feature("the backend hccl", "init_process_group refuses it")
SHARDED_ATTENTION = Feature("attention of DTensors", "DTensor has no rule for it")
CLIPPING = Feature("foreach=True of gradient clipping", "clip_grad_norm_ refuses it for hpu")
CONTEXT_PARALLEL = Feature(
    "refusal of causal context parallel attention", "it gives wrong numbers on hpu"
)
MIGRATION = Feature("GPU migration in full", "some calls that name cuda fail or differ in graphs")
PRINTING = Feature("printing tensors from a copy", "printing runs many operators on the device")
TRACE_LOG = Feature("entries in TORCH_TRACE", "the log of a trace lacks programs for hpu")
TRACE_INTERVALS = Feature("intervals in TORCH_TRACE", "the log of a trace has no times of stages")
TRACE_EVENTS = Feature("graph breaks in reports", "reports lack what Dynamo counts")

_off: dict[str, str] = {}


def enable(feature: Feature, action: Callable[[], object]) -> bool:
    """Runs `action`. Returns False after one warning if it needs something that PyTorch lacks."""
    if feature.name in _off:
        return False
    try:
        action()
    except (ImportError, AttributeError, Mismatch) as error:
        _off[feature.name] = str(error)
        _log.warning(
            "%s is off with PyTorch %s (%s), so %s",
            feature.name,
            torch.__version__,
            error,
            feature.lost,
        )
        return False
    return True


def load(feature: Feature, module: str) -> Any:
    """A module of torch_compat/ that is imported only where it is needed. None, and one warning,
    where it needs something that PyTorch lacks."""
    found = []
    enable(feature, lambda: found.append(importlib.import_module(f"{__package__}.{module}")))
    return found[0] if found else None


def is_off(feature: Feature) -> bool:
    return feature.name in _off
