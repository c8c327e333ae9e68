"""Shows which rows of proto/ops.yaml the generator of random programs reaches.

Usage: python tests/fuzz/coverage.py [--count N]

Programs are captured as hpu_backend captures them, but on CPU tensors and without compiling. A row
is reached if one of its ATen calls is captured, or if a captured composite becomes it.
The exit status is 1 if a row is neither reached nor in EXCLUDED.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import recording
import torch
import yaml
from programs import Grower

TABLE = Path(__file__).resolve().parents[2] / "proto" / "ops.yaml"

LINES = 24  # programs are long because Dynamo's share of the time is per program

# Rows that no program contains, with the reason; in addition, rows whose every ATen call PyTorch
# decomposes before the capture sees it are not reached (decomposed_early).
_ITS_OWN_NUMBERS = """
    random_uniform
    composite bernoulli, composite native_dropout, composite normal, composite randint
    composite uniform
"""
_TRAINING = """
    conv_weight_gradient, max_pool_gradient, max_pool_index
    sdpa_backward, sdpa_logsumexp, sdpa_train, sdpa_train_backward
    composite adaptive_max_pool
    composite binary_cross_entropy
    composite binary_cross_entropy_with_logits, composite col2im, composite diagonal
    composite embedding_bag, composite fma, composite hardshrink, composite huber_loss
    composite im2col, composite index_add, composite log_sigmoid_forward, composite logit
    composite mse_loss, composite native_batch_norm_training, composite nll_loss
    composite pad_by_elements, composite pixel_unshuffle, composite prelu_kernel
    composite safe_softmax, composite scatter_reduce, composite smooth_l1_loss
    scatter_max, scatter_min, scatter_mul
    composite soft_margin_loss, composite softshrink, composite unfold
"""
_QUANTISED = """
    composite dequantize, composite quantize
"""
_SAMPLED = """
    composite adaptive_avg_pool_3d, composite adaptive_max_pool_3d, composite addbmm
    composite addr, composite aminmax, composite avg_pool_3d
    composite broadcast_tensors, composite cdist, composite channel_shuffle
    composite conv_tbc, composite copysign, composite cross, composite diag_embed
    composite diagonal_scatter, composite dist, composite eye, composite fmax, composite fmin
    composite grid_sample, composite histc, composite index_reduce, composite ldexp
    composite logaddexp2, composite masked_scatter, composite max_pool_3d
    composite multilabel_margin_loss, composite put, composite repeat_interleave_tensor
    composite rot90, composite round_decimals, composite rrelu, composite searchsorted
    composite take, composite trace, composite triangle_indices, composite trilinear
    composite unfold_copy, composite view_copy, composite xlog1py
"""
_OF_GAUDI = """
    composite block_softmax, composite block_softmax_adjustment, composite convert_from_int4
    composite custom_softmax, composite fp8_cast, composite fp8_product, composite fp8_softmax
    composite fp8_sum, composite mixture_of_experts, composite recomputed_attention
    composite recomputed_attention_backward, composite rms_norm_and_inverse
    composite rotary_embedding, composite softmax_of_parts
"""
EXCLUDED = {
    name.strip(): reason
    for names, reason in (
        (
            _ITS_OWN_NUMBERS,
            "its numbers are not those of CPU eager: tests/python/ops/test_random.py",
        ),
        (_TRAINING, "training: tests/python/samples/backward.py"),
        (_SAMPLED, "PyTorch's samples: tests/python/modes/test_operators.py"),
        (_QUANTISED, "only quantizers make such graphs: tests/python/ops/test_quantized.py"),
        (_OF_GAUDI, "no function of PyTorch: tests/python/kernels"),
        ("custom_kernel", "kernels of the user's own: tests/python/custom_op"),
    )
    for line in names.strip().splitlines()
    for name in line.split(",")
}
# Rows that passes make, not calls, with the place where they come from.
MADE_BY_PASSES = {
    "aten": "calls without a rule, torch.special.i0 for one",
    "as_strided_scatter": "writes into views of inputs",
}


def rows() -> list[dict[str, Any]]:
    return yaml.safe_load(TABLE.read_text())


def name_of(row: dict[str, Any]) -> str:
    return row["op"] if "op" in row else f"composite {row['composite']}"


def of_training(row: dict[str, Any]) -> bool:
    """Whether only gradients and optimizers make the row's calls (tests/python/samples/backward.py
    has them)."""
    targets = row.get("aten", ())
    return bool(targets) and all("_backward" in t or "._foreach_" in t for t in targets)


def decomposed_early(row: dict[str, Any]) -> bool:
    """Whether each of the row's calls is a composite of PyTorch, whose parts are captured, or does
    not exist in this PyTorch."""

    def early(target: str) -> bool:
        _, name, overload = target.split(".")
        full = f"aten::{name}" if overload == "default" else f"aten::{name}.{overload}"
        if (
            torch._C._get_operation_overload(f"aten::{name}", overload.replace("default", ""))
            is None
        ):
            return True
        return torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")

    targets = row.get("aten", ())
    return bool(targets) and all(map(early, targets))


def captured_targets(first_seed: int, count: int) -> Counter[str]:
    """How often each ATen call is captured in `count` programs."""
    targets: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + count):
        program = Grower(seed).grow(LINES)
        torch._dynamo.reset()
        backend = recording.TargetsBackend()
        compiled = torch.compile(program.function(), backend=backend, dynamic=False)
        # Some programs run in eager and cannot be traced (results without elements, writes through
        # as_strided).
        with torch.no_grad(), contextlib.suppress(torch._dynamo.exc.TorchDynamoException):
            compiled(*program.inputs)
        targets.update(backend.targets)
    return targets


def reached(targets: Counter[str]) -> Counter[str]:
    """How often each row is reached."""
    counts: Counter[str] = Counter()
    known = set()
    for row in rows():
        known.update(row.get("aten", ()))
        hits = sum(targets[target] for target in row.get("aten", ()))
        if hits:
            counts[name_of(row)] += hits
            for op in row.get("into", ()):
                counts[op] += hits
    if set(targets) - known:
        counts["aten"] += 1
    return counts


def missing(counts: Counter[str]) -> list[str]:
    lost = [row for row in rows() if not counts[name_of(row)] and not decomposed_early(row)]
    names = map(name_of, (row for row in lost if not of_training(row)))
    return [n for n in names if n not in EXCLUDED and n not in MADE_BY_PASSES]


def main() -> int:
    parser = argparse.ArgumentParser(description="rows of the op table that random programs reach")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=250, help="programs")
    arguments = parser.parse_args()
    targets = captured_targets(arguments.seed, arguments.count)
    counts = reached(targets)
    for row in rows():
        name = name_of(row)
        note = EXCLUDED.get(name) or MADE_BY_PASSES.get(name, "")
        if not note and not counts[name] and decomposed_early(row):
            note = "PyTorch decomposes it before the capture sees it"
        print(f"{counts[name]:6d}  {name}" + (f"  ({note})" if note else ""))
    lost = missing(counts)
    print(f"{arguments.count} programs, {len(lost)} rows not reached: {lost}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
