"""How DTensors spread attention on hpu over ranks.

`scaled_dot_product_attention` calls on hpu the operator that PyTorch calls on the CPU, for which
DTensor has no rule. As with the operators of other devices, ranks can share the batch or the heads.
"""

from __future__ import annotations

from typing import Any

import torch


def register() -> None:
    """Tells DTensor the rules. Call it when torch.distributed.tensor has been imported."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    from ..torch_compat.distributed_tensors import rules_depend_on

    aten = torch.ops.aten
    forward = aten._scaled_dot_product_flash_attention_for_cpu.default
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default

    def rules(results: int, operands: int, mask: Any) -> list[tuple[list[Any], list[Any]]]:
        """Results and operands begin with batch and heads. The mask may be broadcast along either.
        DTensor redistributes no keyword arguments, so the mask stays as it is spread."""
        found = []
        for placement in (Replicate(), Shard(0), Shard(1)):
            given: list[Any] = [placement] * operands
            if mask is not None:
                dim = getattr(placement, "dim", 0) - 4 + mask.ndim
                spread = placement != Replicate() and dim >= 0 and mask.shape[dim] > 1
                given.append(Shard(dim) if spread else Replicate())
                if given[-1] not in mask.placements:
                    continue
            found.append(([placement] * results, given))
        return found

    register_sharding(forward)(lambda *_, attn_mask=None, scale=None: rules(2, 3, attn_mask))
    register_sharding(backward)(lambda *_, attn_mask=None, scale=None: rules(3, 6, attn_mask))
    rules_depend_on("attn_mask", [forward, backward])
