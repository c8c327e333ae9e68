"""Observers: modules in a graph that see tensors pass and know a scale for them afterwards.

A scale is what a number in fp8 is multiplied by. Gaudi 2 has fast scales for e4m3, 2**-8, 2**-4, 1
and 2**4, and the one scale 1 for e5m2; the smallest of these under which everything fits is taken.
"""

from __future__ import annotations

import math
from typing import Any

import torch

_FAST_POWERS = {torch.float8_e4m3fn: (-8, -4, 0, 4), torch.float8_e5m2: (0,)}
_NAMES = "torch.float8_e4m3fn or torch.float8_e5m2"


class SimpleAbsMaxObserver(torch.nn.Module):
    """Keeps the largest absolute value. The scale is at least largest * 2**backoff_margin /
    quant_max and at least eps. Raises ValueError for what is neither symmetric nor fp8."""

    def __init__(
        self,
        dtype: torch.dtype = torch.float8_e4m3fn,
        qscheme: torch.qscheme = torch.per_tensor_symmetric,
        reduce_range: bool = False,
        quant_min: float = -448.0,
        quant_max: float = 448.0,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = torch.finfo(torch.float32).eps,
        backoff_margin: int = 0,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if dtype not in _FAST_POWERS:
            raise ValueError(f"{name}: dtype={dtype}; use {_NAMES}")
        if qscheme != torch.per_tensor_symmetric or quant_min != -quant_max:
            raise ValueError(f"{name}: only torch.per_tensor_symmetric with quant_min = -quant_max")
        if reduce_range or is_dynamic:
            raise ValueError(f"{name}: reduce_range and is_dynamic must be False")
        self.dtype, self.qscheme = dtype, qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps, self.backoff_margin = eps, backoff_margin
        self.register_buffer("abs_max_val", torch.tensor(0.0, **(factory_kwargs or {})))

    abs_max_val: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns x as it is."""
        if x.numel():
            seen = x.detach().abs().amax().to(self.abs_max_val)
            self.abs_max_val.copy_(torch.maximum(self.abs_max_val, seen))
        return x

    def largest(self) -> float:
        return float(self.abs_max_val)

    def scale(self) -> float:
        wanted = max(self.largest() * 2.0**self.backoff_margin / self.quant_max, self.eps)
        powers = _FAST_POWERS[self.dtype]
        fits = [power for power in powers if power >= math.ceil(math.log2(wanted))]
        return 2.0 ** (fits[0] if fits else powers[-1])

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(scale, zero point); the zero point is 0."""
        return torch.tensor(self.scale()), torch.tensor(0)

    def reset_observer_state(self) -> None:
        self.abs_max_val.zero_()

    def extra_repr(self) -> str:
        return f"largest={self.largest()}, dtype={self.dtype}"


class AbsMaxObserver(SimpleAbsMaxObserver):
    """Keeps the smallest and the largest value."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("min_val", torch.full_like(self.abs_max_val, math.inf))
        self.register_buffer("max_val", torch.full_like(self.abs_max_val, -math.inf))

    min_val: torch.Tensor
    max_val: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel():
            low, high = (t.to(self.min_val) for t in torch.aminmax(x.detach()))
            self.min_val.copy_(torch.minimum(self.min_val, low))
            self.max_val.copy_(torch.maximum(self.max_val, high))
        return x

    def largest(self) -> float:
        return max(-float(self.min_val), float(self.max_val), 0.0)

    def reset_observer_state(self) -> None:
        self.min_val.fill_(math.inf)
        self.max_val.fill_(-math.inf)
