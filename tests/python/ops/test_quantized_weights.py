"""Weights of 8 and 4 bits: PyTorch's own formats, and patterns that express them with other ops."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from paths import TESTS

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.capture.decompositions.int4_weights import block_columns

aten = torch.ops.aten
UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}


def bound(x: torch.Tensor, magnitude: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The bound of the error. Sums round in f32, once or twice per term; the result once more in
    its own type, and so may a product before the scale that follows it."""
    sums = (x.shape[1] + 16) * 2.0**-23 * (x.double().abs() @ magnitude.T)
    return sums + 2 * UNIT[x.dtype] * expected.abs() + 1e-30


def run(function, *tensors, eager_nodes=0):
    """Compiled on hpu, all of it in one recipe, or with a step that runs eagerly."""
    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    with torch.no_grad():
        result = compiled(*[t.to("hpu") for t in tensors]).cpu()
    (graph,) = report().graphs
    assert (graph.origin == "eager", graph.eager_nodes) == (False, eager_nodes)
    assert graph.recipes == (1 if eager_nodes == 0 else 0)
    return result


def check(function, x, weights, others=(), parts=None, eager_nodes=0):
    """`weights`: the values of the integers, f64 [N, K]; `parts`: the magnitudes of which they are
    sums."""
    result = run(function, x, *others, eager_nodes=eager_nodes)
    expected = x.double() @ weights.T
    assert result.dtype == x.dtype
    limit = bound(x, weights.abs() if parts is None else parts, expected)
    excess = (result.double() - expected).abs() - limit
    assert excess.max() <= 0, f"{excess.max()} beyond the bound"


def int8_weights(columns, inner, dtype):
    torch.manual_seed(columns + inner)
    weights = torch.randint(-128, 128, (columns, inner), dtype=torch.int8)
    return weights, (torch.rand(columns) * 0.02 + 0.001).to(dtype)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "inner"),
    [
        (torch.float32, 1, 1, 1),
        (torch.bfloat16, 1, 65, 200),
        (torch.float16, 3, 48, 129),
        (torch.float32, 16, 33, 64),
        (torch.bfloat16, 4, 300, 1000),
    ],
)
def test_int8pack_mm(dtype, rows, columns, inner):
    weights, scales = int8_weights(columns, inner, dtype)
    x = torch.randn(rows, inner).to(dtype)
    worth = weights.double() * scales.double()[:, None]
    check(torch._weight_int8pack_mm, x, worth, (weights, scales))


def test_int8pack_mm_of_many_rows():
    weights, scales = int8_weights(70, 96, torch.float32)
    worth = weights.double() * scales.double()[:, None]
    check(torch._weight_int8pack_mm, torch.randn(40, 96), worth, (weights, scales))


# PyTorch packs no blocks for a CPU without AVX2, where its own kernel is an eager step.
INT4_EAGER_NODES = 0 if block_columns() else 1


def int4_weights(columns, inner, group, dtype):
    """The packed weights, the factors, the values, and the magnitudes of which the values are
    sums."""
    torch.manual_seed(columns + inner + group)
    numbers = torch.randint(0, 16, (columns, inner), dtype=torch.int32)
    packed = aten._convert_weight_to_int4pack_for_cpu(numbers, 2)
    factors = (torch.randn(inner // group, columns, 2) * 0.05).to(dtype)
    scale, zero = factors.double().repeat_interleave(group, 0).unbind(-1)
    scaled = (numbers.double() - 8) * scale.T
    return packed, factors, scaled + zero.T, scaled.abs() + zero.T.abs()


@pytest.mark.parametrize(
    ("dtype", "group", "rows"),
    [
        (torch.float32, 32, 1),
        (torch.bfloat16, 32, 1),
        (torch.bfloat16, 64, 5),
        (torch.float16, 128, 2),
        (torch.bfloat16, 256, 16),
    ],
)
def test_int4pack_mm(dtype, group, rows):
    packed, factors, worth, parts = int4_weights(192, 512, group, dtype)
    x = torch.randn(rows, 512).to(dtype)
    check(
        lambda x, w, f: aten._weight_int4pack_mm_for_cpu(x, w, group, f),
        x, worth, (packed, factors), parts, INT4_EAGER_NODES,
    )  # fmt: skip


def test_int4pack_mm_of_many_rows():
    packed, factors, worth, parts = int4_weights(128, 256, 64, torch.float32)
    check(
        lambda x, w, f: aten._weight_int4pack_mm_for_cpu(x, w, 64, f),
        torch.randn(17, 256), worth, (packed, factors), parts, INT4_EAGER_NODES,
    )  # fmt: skip


def test_blocks_of_int4_that_are_not_whole_run_in_pytorchs_kernel():
    packed, factors, worth, _ = int4_weights(80, 64, 32, torch.float32)
    x = torch.randn(2, 64)
    fresh_process()
    compiled = torch.compile(aten._weight_int4pack_mm_for_cpu, backend="hpu_backend")
    with torch.no_grad():
        result = compiled(x.to("hpu"), packed.to("hpu"), 32, factors.to("hpu")).cpu()
    torch.testing.assert_close(result.double(), x.double() @ worth.T, rtol=1e-4, atol=1e-4)
    (graph,) = report().graphs
    assert graph.eager_nodes == 1


_OTHER_CAPABILITY = """
import torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo.capture.decompositions.int4_weights import block_columns

torch.manual_seed(0)
numbers = torch.randint(0, 16, (128, 64), dtype=torch.int32)
packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 2)
factors = torch.randn(2, 128, 2)
x = torch.randn(3, 64)
call = torch.ops.aten._weight_int4pack_mm_for_cpu
with torch.no_grad():
    compiled = torch.compile(call, backend="hpu_backend")
    ours = compiled(x.to("hpu"), packed.to("hpu"), 32, factors.to("hpu")).cpu()
torch.testing.assert_close(ours, call(x, packed, 32, factors), rtol=1e-4, atol=1e-4)
print(block_columns())
"""


@pytest.mark.parametrize(("capability", "columns"), [("avx2", 32), ("default", 0)])
def test_another_packing_is_another_program(capability, columns):
    """A process whose kernels pack other blocks must not find the programs of this one."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    for env in (None, environment):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _OTHER_CAPABILITY],
            env=env, cwd=TESTS, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        expected = columns if env else block_columns()
        assert done.stdout.split()[-1] == str(expected)


def grouped(x, weights, scale, zero):
    columns, inner = weights.shape
    wide = weights.view(columns, scale.shape[1], -1).to(x.dtype)
    return F.linear(x, ((wide - zero) * scale).view(columns, inner))


@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (7, 4)])
def test_groups_and_zero_points_spelt_out(rows, groups):
    weights, _ = int8_weights(50, 96, torch.float32)
    scale = torch.rand(50, groups, 1) * 0.02
    zero = torch.randint(-5, 5, (50, groups, 1)).float()
    split = weights.double().view(50, groups, -1)
    worth = ((split - zero) * scale).view(50, 96)
    parts = ((split.abs() + zero.abs()) * scale).view(50, 96)
    check(grouped, torch.randn(rows, 96), worth, (weights, scale, zero), parts)


def test_a_large_zero_point_beside_bf16_is_not_rounded():
    """The sum of x multiplies the rounding error of the zero point."""
    torch.manual_seed(1)
    weights = (torch.randn(64, 4096) * 8 + 100).round().clamp(-128, 127).to(torch.int8)
    scale = (torch.rand(64, 1, 1) * 0.01 + 0.01).bfloat16()
    zero = torch.full((64, 1, 1), 100, dtype=torch.int8)
    worth = (weights.double() - 100) * scale.double()[:, 0]
    parts = (weights.double().abs() + 100) * scale.double()[:, 0]
    x = torch.rand(1, 4096).bfloat16()
    check(grouped, x, worth, (weights, scale, zero), parts)


@pytest.mark.parametrize("columns", [4, 8])
def test_a_scale_of_groups_is_none_of_columns(columns):
    weights, _ = int8_weights(columns, 16, torch.float32)
    scale = torch.rand(4, 1) + 0.5

    def function(x, w, s):
        return x @ (w.float().view(columns, 4, 4) * s).view(columns, 16).t()

    worth = (weights.double().view(columns, 4, 4) * scale).view(columns, 16)
    check(function, torch.randn(2, 16), worth, (weights, scale))


@pytest.mark.parametrize("behind", [False, True])
def test_a_scale_before_or_behind_the_product(behind):
    weights, scales = int8_weights(64, 96, torch.bfloat16)

    def function(x, w, s):
        if behind:
            return torch.mm(x, w.t().to(x.dtype)) * s
        return F.linear(x, w.to(x.dtype) * s[:, None])

    worth = weights.double() * scales.double()[:, None]
    check(function, torch.randn(1, 96).bfloat16(), worth, (weights, scales))


def test_epilogue_and_residual():
    weights, scales = int8_weights(64, 64, torch.float32)
    bias, x = torch.randn(64), torch.randn(2, 64)

    def function(x, w, s, b):
        return x + F.gelu(torch._weight_int8pack_mm(x, w, s) + b)

    result = run(function, x, weights, scales, bias)
    expected = x + F.gelu(F.linear(x, weights.float() * scales[:, None], bias))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_eager_on_hpu():
    weights, scales = int8_weights(64, 64, torch.float32)
    x = torch.randn(2, 64)
    ours = torch._weight_int8pack_mm(x.to("hpu"), weights.to("hpu"), scales.to("hpu"))
    torch.testing.assert_close(ours.cpu(), torch._weight_int8pack_mm(x, weights, scales))
    packed, factors, _, _ = int4_weights(64, 64, 32, torch.float32)
    ours = aten._weight_int4pack_mm_for_cpu(x.to("hpu"), packed.to("hpu"), 32, factors.to("hpu"))
    torch.testing.assert_close(ours.cpu(), aten._weight_int4pack_mm_for_cpu(x, packed, 32, factors))
