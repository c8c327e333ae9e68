"""How DTensors spread attention on hpu over ranks.

`scaled_dot_product_attention` calls on hpu the operator that PyTorch calls on the CPU, for which
DTensor has no rule. As with the operators of other devices, ranks can share the batch or the heads.
Without a mask they can also share the queries, each with all keys: PyTorch's context parallel does.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_compat.replaced import original, replace

_CONTEXT_PARALLEL_INPUTS = (
    "torch.distributed.tensor.experimental._context_parallel._attention"
    "._ContextParallel.sdpa_input_fn"
)
_SEQUENCE = 2


def register() -> None:
    """Tells DTensor the rules. Call it when torch.distributed.tensor has been imported."""
    from torch.distributed.tensor import Partial, Replicate, Shard
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

    rows, whole = Shard(_SEQUENCE), Replicate()

    def of_forward(q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, *,
                   attn_mask: Any = None, scale: Any = None) -> Any:  # fmt: skip
        found = rules(2, 3, attn_mask)
        if attn_mask is None and not causal and not dropout:
            found.append(([rows, rows], [rows, whole, whole]))
        return found

    def of_backward(grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, dropout: float,
                    causal: bool, *, attn_mask: Any = None, scale: Any = None) -> Any:  # fmt: skip
        found = rules(3, 6, attn_mask)
        if attn_mask is None and not causal and not dropout:
            # Each rank has the share of its queries in the gradients of keys and values.
            found.append(([rows, Partial(), Partial()], [rows, rows, whole, whole, rows, rows]))
        return found

    register_sharding(forward)(of_forward)
    register_sharding(backward)(of_backward)
    rules_depend_on("attn_mask", [forward, backward])


def refuse_causal_context_parallel() -> None:
    """Context parallel gives each rank rows from both ends of a sequence, and only the operators of
    CUDA are told where they lie: a causal mask would hide other keys without a word."""
    prepare = original(_CONTEXT_PARALLEL_INPUTS)

    def sdpa_input_fn(self: Any, module: Any, args: Any, kwargs: Any, mesh: Any) -> Any:
        causal = kwargs.get("is_causal", args[5] if len(args) > 5 else False)
        if mesh.device_type == "hpu" and causal:
            raise NotImplementedError(
                "context parallel on hpu has no causal attention; shard the heads (tensor "
                "parallel) or the batch instead"
            )
        return prepare(self, module, args, kwargs, mesh)

    replace(_CONTEXT_PARALLEL_INPUTS, sdpa_input_fn)
