"""Rotary position embeddings: hpex.kernels' functions and torch.ops.hpu.rotary_pos_embedding."""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process
from kernel_case import assert_near, by_way, run
from processes import output_of
from training_case import matrix

from habana_frameworks.torch.hpex.kernels import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)
from habana_frameworks.torch.hpex.kernels.RotaryPosEmbeddingHelper import (
    RotaryPosEmbeddingMode as SameMode,
)

OP = "rotary_pos_embedding"
MODES = tuple(RotaryPosEmbeddingMode)


def rotated(p, cos, sin, mode):
    """Element i of a head times its cosine, plus its partner times the sine of i; the first of a
    pair takes its partner with a minus."""
    size = p.shape[-1]
    places = torch.arange(size)
    if mode is RotaryPosEmbeddingMode.BLOCKWISE:
        partner, first = (places + size // 2) % size, places < size // 2
    else:
        partner, first = places + 1 - 2 * (places % 2), places % 2 == 0
    return p * cos + p[..., partner] * sin * torch.where(first, -1.0, 1.0)


def with_gradient(function, p, grad, *more):
    """The result, and the gradient of p."""
    y = function(p, *more)
    return y, *torch.autograd.grad(y, p, grad)


def test_modes():
    assert (MODES[0].value, MODES[1].value) == (0, 1)
    assert SameMode is RotaryPosEmbeddingMode


@by_way
@pytest.mark.parametrize("mode", MODES)
def test_rotates_and_has_a_gradient(mode, way):
    p, grad = matrix(2, 3, 4, 8, seed=1).requires_grad_(), matrix(2, 3, 4, 8, seed=2)
    cos, sin = matrix(2, 1, 4, 8, seed=3), matrix(2, 1, 4, 8, seed=4)

    def ours(p, grad, cos, sin):
        return with_gradient(apply_rotary_pos_emb, p, grad, cos, sin, None, 0, mode)

    def theirs(p, cos, sin):
        return rotated(p, cos, sin, mode)

    if way == "compiled":  # a graph has the forward, and autograd calls its backward
        y = run(way, OP, lambda *a: apply_rotary_pos_emb(*a, None, 0, mode), p, cos, sin)
        assert_near([y], [theirs(p, cos, sin)], 1e-6, 1e-6)
        return
    want = with_gradient(theirs, p, grad, cos, sin)
    assert_near(run(way, OP, ours, p, grad, cos, sin), want, 1e-6, 1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_training_graph(mode):
    p, cos, sin = matrix(3, 2, 6).requires_grad_(), matrix(3, 1, 6, seed=3), matrix(3, 1, 6, seed=4)

    def scaled(p, cos, sin):
        return apply_rotary_pos_emb(p * 2, cos, sin, None, 0, mode).square()

    placed = [t.detach().to("hpu") for t in (p, cos, sin)]
    placed[0].requires_grad_()
    y = torch.compile(scaled, backend="hpu_backend")(*placed)
    (gradient,) = torch.autograd.grad(y.sum(), placed[0])
    (want,) = torch.autograd.grad(rotated(2 * p, cos, sin, mode).square().sum(), p)
    assert_near([gradient], [want], 1e-5, 1e-5)


def test_a_process_starts_without_tracing_it(private_cache, tmp_path):
    """Dynamo names torch.ops.hpu as a module, which no import finds."""
    script = tmp_path / "rotate.py"
    script.write_text(
        "import torch, habana_frameworks.torch\n"
        "from habana_frameworks.torch.dynamo.start import journal\n"
        "def rotate(p, cos):\n"
        "    return torch.ops.hpu.rotary_pos_embedding(p, cos, cos, None, 0, 0)\n"
        "with torch.no_grad():\n"
        "    compiled = torch.compile(rotate, backend='hpu_backend')\n"
        "    compiled(*(torch.ones(2, 4, 8, device='hpu') for _ in range(2))).cpu()\n"
        "print([outcome.reason for outcome in journal.outcomes()])\n"
    )
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    environment = {"HPU_CACHE_DIR": str(private_cache), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    first, second = (output_of(code, **environment).stdout for _ in range(2))
    assert "nothing is stored" in first
    assert second.strip() == "['']"


@by_way
def test_rows_by_position(way):
    p, positions = matrix(2, 3, 4, 8), torch.tensor([[0, 3, 9, 2], [5, 5, 1, 0]])
    cos, sin = matrix(1, 1, 10, 8, seed=3), matrix(1, 1, 10, 8, seed=4)
    y = run(way, OP, RotaryPosEmbeddingHelperV2.apply, p, cos, sin, positions)
    rows = [x[0, 0][positions][:, None] for x in (cos, sin)]
    assert_near([y], [rotated(p, *rows, MODES[0])], 1e-6, 1e-6)


@by_way
def test_columns_from_an_offset(way):
    p, cos, sin = matrix(8, 2, 3, 8), matrix(8, 1, 1, 11, seed=3), matrix(8, 1, 1, 11, seed=4)
    y = run(way, OP, lambda *a: RotaryPosEmbeddingHelperV1.apply(*a, 3), p, cos, sin)
    assert_near([y], [rotated(p, cos[..., 3:], sin[..., 3:], MODES[0])], 1e-6, 1e-6)


@by_way
@pytest.mark.parametrize("pairs", [2, 4])
def test_rope_cache(pairs, way):
    p, cache = matrix(3, 2, 4, 8), matrix(9, pairs, 2, seed=3)
    y = run(way, OP, RotaryPosEmbeddingHelperV3.apply, p, cache)
    complex_p = torch.view_as_complex(p[..., : 2 * pairs].unflatten(-1, (-1, 2)).contiguous())
    turned = complex_p * torch.view_as_complex(cache[:3, None, None])
    want = torch.cat((torch.view_as_real(turned).flatten(-2), p[..., 2 * pairs :]), -1)
    assert_near([y], [want], 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("dtypes", "result"),
    [
        ((torch.bfloat16, torch.float32, torch.float32), torch.float32),
        ((torch.float32, torch.bfloat16, torch.bfloat16), torch.float32),
        ((torch.bfloat16, torch.float16, torch.float16), torch.bfloat16),
    ],
)
def test_types(dtypes, result):
    tensors = [matrix(2, 3, 8, seed=n).to(dtype) for n, dtype in enumerate(dtypes)]
    y = apply_rotary_pos_emb(*(t.to("hpu") for t in tensors))
    assert y.dtype == result
    want = rotated(*(t.to(result).float() for t in tensors), MODES[0])
    torch.testing.assert_close(y.cpu().float(), want, rtol=2**-8, atol=2**-8)


@pytest.mark.parametrize("way", ["eager", "meta", "compiled"])
@pytest.mark.parametrize("name", [OP, f"{OP}_backward"])
@pytest.mark.parametrize(
    ("size", "columns", "positions", "offset", "mode", "error"),
    [
        (7, 7, None, 0, 0, r"_SIZES_.* last size is even"),
        (8, 8, None, 0, 2, "mode is 2"),
        (4, 6, None, 5, 0, r"offset 5 leaves fewer than 4 of the 6 columns of .*from 0 to 2"),
        (4, 6, None, 3, 0, r"offset 3 leaves fewer than 4 of the 6 columns of .*from 0 to 2"),
        (4, 6, None, -1, 0, r"offset -1 leaves fewer than 4 of the 6 columns of .*from 0 to 2"),
        (4, 1, None, 0, 0, r"sin and cos have 1 columns for an _SIZES_: pass 4"),
        (4, 6, torch.tensor([1, 0]), 0, 0, r"sin and cos have 6 columns for an _SIZES_: pass 4"),
    ],
)
def test_errors_say_what_is_wrong(size, columns, positions, offset, mode, error, name, way):
    device = "meta" if way == "meta" else "hpu"
    p, cos = matrix(2, size).to(device), matrix(2, columns).to(device)
    positions = None if positions is None else positions.to(device)
    operator = getattr(torch.ops.hpu, name)

    def rotate(p, cos):
        return operator(p, cos, cos, positions, offset, mode)

    call = torch.compile(rotate, backend="hpu_backend") if way == "compiled" else rotate
    fresh_process()
    error = error.replace("_SIZES_", rf"input \[2, {size}\]")
    with pytest.raises(RuntimeError, match=f"hpu::{name}: {error}"):
        call(p, cos)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mode", [1, "PAIRWISE", None])
def test_mode_is_of_the_enumeration(mode, compiled):
    p = matrix(2, 8).to("hpu")

    def rotate(p):
        return apply_rotary_pos_emb(p, p, p, None, 0, mode)

    call = torch.compile(rotate, backend="hpu_backend") if compiled else rotate
    fresh_process()
    error = f"apply_rotary_pos_emb: mode is {mode!r}; pass a member of RotaryPosEmbeddingMode: "
    with pytest.raises(TypeError, match=error):
        call(p)
