"""The tensors of a layer by their index, and their scales."""

from __future__ import annotations

import enum

from .scaling import FP8TensorMeta as FP8TensorMeta


class FP8FwdTensors(enum.IntEnum):
    GEMM1_INPUT = 0
    GEMM1_WEIGHT = 1


class FP8BwdTensors(enum.IntEnum):
    GRAD_OUTPUT1 = 0
