"""The forms of training: what each adds to DeepSpeed's configuration."""

from __future__ import annotations

from typing import Any

PIPELINE = "pipeline"  # two stages, which write no checkpoint

_THIRD = {"stage": 3, "stage3_param_persistence_threshold": 0, "overlap_comm": True}
_CPU = {"device": "cpu"}
FORMS: dict[str, dict[str, Any]] = {
    "data-parallel": {},
    "zero-1": {"zero_optimization": {"stage": 1}},
    "zero-2": {"zero_optimization": {"stage": 2, "overlap_comm": True}},
    "zero-3": {"zero_optimization": _THIRD},
    "bf16": {"zero_optimization": _THIRD, "bf16": {"enabled": True}},
    "offload": {"zero_optimization": {**_THIRD, "offload_optimizer": _CPU, "offload_param": _CPU}},
    "accumulation": {"zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 2},
    "compiled": {"zero_optimization": {"stage": 1}},
    "compiled-zero-3": {"zero_optimization": _THIRD},
    PIPELINE: {},
}
