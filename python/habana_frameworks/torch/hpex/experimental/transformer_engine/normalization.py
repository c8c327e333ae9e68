"""Layer norm under the name that programs with layers in fp8 use."""

from __future__ import annotations

import torch
import torch.nn.functional as F


class LayerNorm(torch.nn.Module):
    """torch.nn.LayerNorm over the last dimension. It does not calculate in fp8.

    zero_centered_gamma: the weight is what is added to 1. sequence_parallel must be False.
    """

    def __init__(
        self,
        hidden_size: int,
        eps: float = 1e-5,
        sequence_parallel: bool = False,
        params_dtype: torch.dtype | None = None,
        zero_centered_gamma: bool = False,
        device: torch.device | str = "hpu",
    ) -> None:
        super().__init__()
        if sequence_parallel:
            raise ValueError(
                "te.LayerNorm: sequence_parallel=True is not supported: the layer exchanges "
                "nothing between ranks"
            )
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma
        zeros = torch.zeros(hidden_size, device=device, dtype=params_dtype)
        self.weight = torch.nn.Parameter(zeros if zero_centered_gamma else zeros + 1)
        self.bias = torch.nn.Parameter(zeros.clone())

    def forward(self, inp: torch.Tensor) -> torch.Tensor:
        weight = self.weight + 1 if self.zero_centered_gamma else self.weight
        return F.layer_norm(inp, self.weight.shape, weight, self.bias, self.eps)
