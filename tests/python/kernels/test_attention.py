"""Attention: FusedSDPA with all of its arguments, the operators of torch.ops.hpu behind it, and
attention of floats of 8 bits."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch
from kernel_case import assert_near, by_way, on_device, run
from lazy_case import lazy_mode
from training_case import matrix

from habana_frameworks.torch.hpex.kernels import (
    Fp8FusedSDPA,
    FusedSDPA,
    PySDPA,
    PySDPAHinted,
    fp8_fused_sdpa,
)
from habana_frameworks.torch.hpex.kernels.FusedSDPA import (
    gqa_input_reshape_bwd,
    gqa_input_reshape_fwd,
    gqa_output_reshape,
    is_gqa,
)

OP = "sdpa_recomp_fwd"
NEAR = 1e-5, 1e-5


def inputs(heads=4, key_heads=4, length=5, keys=5, batch=2, size=8):
    return (
        matrix(batch, heads, length, size, seed=1),
        matrix(batch, key_heads, keys, size, seed=2),
        matrix(batch, key_heads, keys, size, seed=3),
    )


def reference(q, k, v, seen=None, scale=None, sinks=None, bias=None):
    """Row by row in f64. seen: [batch, 1 or heads, length, keys]."""
    group = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q, k, v = q.double(), k.double(), v.double()
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                scores = k[b, h // group] @ q[b, h, i] * scale
                if bias is not None:
                    scores = scores + bias.expand(*q.shape[:3], k.shape[2])[b, h, i]
                if seen is not None:
                    hidden = ~seen.expand(*q.shape[:3], k.shape[2])[b, h, i]
                    scores = scores.masked_fill(hidden, -math.inf)
                if sinks is not None:
                    scores = torch.cat((scores, sinks[h : h + 1].double()))
                if torch.isinf(scores).all():
                    continue
                weights = torch.softmax(scores, 0)[: k.shape[2]]
                out[b, h, i] = weights @ v[b, h // group]
    return out


def places(length, keys):
    return torch.arange(length)[:, None], torch.arange(keys)[None, :]


ROWS, KEYS = places(5, 5)
CASES = {
    "plain": ({}, {}),
    "causal": ({"is_causal": True}, {"seen": (KEYS <= ROWS)[None, None]}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "window": (
        {"window_size": (2, 0)},
        {"seen": ((KEYS <= ROWS) & (KEYS >= ROWS - 2))[None, None]},
    ),
    "causal window": (
        {"is_causal": True, "window_size": (1, -1)},
        {"seen": ((KEYS <= ROWS) & (KEYS >= ROWS - 1))[None, None]},
    ),
    "no window": ({"window_size": (-1, -1)}, {}),
    "fast": ({"softmax_mode": "fast"}, {}),
}


@by_way
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("case", CASES)
def test_attention(case, key_heads, way):
    given, how = CASES[case]
    q, k, v = inputs(key_heads=key_heads)
    y = run(way, OP, lambda *t: FusedSDPA.apply(*t, **given), q, k, v)
    assert_near([y.double()], [reference(q, k, v, **how)], *NEAR)


@by_way
@pytest.mark.parametrize("kind", ["additive", "bool", "by head"])
def test_masks(kind, way):
    q, k, v = inputs(key_heads=2)
    mask = matrix(2, 4 if kind == "by head" else 1, 5, 5, seed=7)
    how = {"bias": mask}
    if kind == "bool":
        mask = mask > -0.5
        how = {"seen": mask}
    y = run(way, OP, lambda q, k, v, m: FusedSDPA.apply(q, k, v, m), q, k, v, mask)
    assert_near([y.double()], [reference(q, k, v, **how)], *NEAR)


@by_way
@pytest.mark.parametrize("padding", ["left", "right"])
def test_valid_lengths(padding, way):
    q, k, v = inputs()
    lengths = torch.tensor([3, 5])
    valid = (
        lengths[:, None, None] > KEYS if padding == "right" else 5 - lengths[:, None, None] <= KEYS
    )
    seen = ((KEYS <= ROWS) & valid)[:, None]

    def attend(q, k, v, lengths):
        return FusedSDPA.apply(q, k, v, None, 0.0, True, None, "fast", True, lengths, padding)

    y = run(way, OP, attend, q, k, v, lengths)
    assert_near([y.double()], [reference(q, k, v, seen)], *NEAR)


@by_way
@pytest.mark.parametrize("key_heads", [4, 2])
def test_sinks(key_heads, way):
    q, k, v = inputs(key_heads=key_heads)
    sinks = matrix(4, seed=5)

    def attend(q, k, v, sinks):
        return FusedSDPA.apply(q, k, v, None, 0.0, True, None, "none", None, None, "right", False,
                               False, (2, 0), sinks)  # fmt: skip

    y = run(way, OP, attend, q, k, v, sinks)
    seen = ((KEYS <= ROWS) & (KEYS >= ROWS - 2))[None, None]
    assert_near([y.double()], [reference(q, k, v, seen, sinks=sinks)], *NEAR)


@pytest.mark.parametrize("way", ["eager", "lazy", "compiled"])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize(
    "given", [{}, {"is_causal": True}, {"window_size": (1, 1)}, {"scale": 2.0}], ids=str
)
def test_gradients(given, key_heads, way):
    tensors = [t.requires_grad_() for t in inputs(key_heads=key_heads)]
    grad = matrix(2, 4, 5, 8, seed=9)

    def attend(*tensors):
        return FusedSDPA.apply(*tensors, **given)

    placed = on_device(tensors)
    call = torch.compile(attend, backend="hpu_backend") if way == "compiled" else attend
    if way == "lazy":
        found = run(way, OP, lambda g, *t: torch.autograd.grad(attend(*t), t, g), grad, *tensors)
    else:
        found = torch.autograd.grad(call(*placed), placed, grad.to("hpu"))
    seen = ((KEYS - ROWS).abs() <= 1)[None, None] if "window_size" in given else None
    if given.get("is_causal"):
        seen = (KEYS <= ROWS)[None, None]
    want = torch.autograd.grad(
        reference(*tensors, seen, given.get("scale")), tensors, grad.double()
    )
    assert_near(found, want, 1e-4, 1e-4)


@pytest.mark.parametrize("window", [None, (1, -1)])
@pytest.mark.parametrize("alone", [False, True])
def test_gradient_of_sinks(alone, window):
    tensors = [*inputs(key_heads=2), matrix(4, seed=5).requires_grad_()]
    if not alone:
        tensors = [t.requires_grad_() for t in tensors]
    placed = on_device(tensors)
    y = FusedSDPA.apply(*placed[:3], is_causal=True, sinks=placed[3], window_size=window)
    found = torch.autograd.grad(y.sum(), placed[-1:] if alone else placed)
    seen = (KEYS <= ROWS) & ((1 if window else 5) >= ROWS - KEYS)
    want = torch.autograd.grad(
        reference(*tensors[:3], seen[None, None], sinks=tensors[3]).sum(),
        tensors[-1:] if alone else tensors,
    )
    assert_near(found, want, 1e-4, 1e-4)


@pytest.mark.parametrize("way", ["eager", "lazy", "compiled"])
@pytest.mark.parametrize(
    ("given", "key_heads"),
    [
        ({}, 4),
        ({"is_causal": True}, 2),
        ({"window_size": [1, 0]}, 4),
        ({"dropout_p": 1e-9, "window_size": (1, 0)}, 2),
    ],
    ids=str,
)
def test_gradient_of_a_mask(given, key_heads, way):
    """The mask alone, or the mask beside q, k and v. It may have another type than they."""
    q, k, v = inputs(key_heads=key_heads)
    mask = matrix(2, 1, 5, 5, seed=7).requires_grad_()
    grad = matrix(2, 4, 5, 8, seed=9)
    seen = (KEYS <= ROWS)[None, None] if given.get("is_causal") else None
    if "window_size" in given:
        seen = ((KEYS <= ROWS) & (KEYS >= ROWS - 1))[None, None]

    def attend(q, k, v, mask):
        return FusedSDPA.apply(q, k, v, mask, **given)

    def gradients(grad, *tensors):
        call = torch.compile(attend, backend="hpu_backend") if way == "compiled" else attend
        wanted = [t for t in tensors if t.requires_grad]
        return torch.autograd.grad(call(*tensors), wanted, grad)

    for tensors in ((q, k, v, mask), (*(t.clone().requires_grad_() for t in (q, k, v)), mask)):
        with lazy_mode() if way == "lazy" else nullcontext():
            found = gradients(*on_device((grad, *tensors)))
        wanted = [t for t in tensors if t.requires_grad]
        y = reference(*tensors[:3], seen, bias=mask)
        assert_near(found, torch.autograd.grad(y, wanted, grad.double()), 1e-4, 1e-4)


def test_gradient_of_a_mask_of_another_type():
    q, k, v = (t.bfloat16() for t in inputs())
    mask = matrix(2, 1, 5, 5, seed=7).bfloat16().float().requires_grad_()
    placed = on_device((q, k, v, mask))
    FusedSDPA.apply(*placed).sum().backward()
    (want,) = torch.autograd.grad(reference(q, k, v, bias=mask).sum(), mask)
    assert placed[3].grad.dtype == torch.float32
    assert_near([placed[3].grad], [want], 0.05, 0.05)


def test_operator_says_that_a_mask_has_no_gradient():
    mask = matrix(2, 1, 5, 5).to("hpu").requires_grad_()
    with pytest.raises(RuntimeError, match="hpu::sdpa_recomp_fwd: attention_mask has no gradient"):
        torch.ops.hpu.sdpa_recomp_fwd(
            *on_device(inputs()), mask, 0.0, 0.5, False, True, "none", None, "left"
        )


def test_types_and_autocast():
    q, k, v = (t.bfloat16() for t in inputs())
    y = FusedSDPA.apply(*on_device((q, k, v)))
    assert y.dtype == torch.bfloat16
    assert_near([y.double()], [reference(q, k, v)], 2**-6, 2**-6)
    with torch.autocast("hpu", dtype=torch.bfloat16):
        assert FusedSDPA.apply(*on_device(inputs())).dtype == torch.bfloat16


def test_weights_and_dropout_mask():
    q, k, v = inputs(key_heads=2)
    placed = on_device((q, k, v))
    out, weights = FusedSDPA.apply(*placed, return_attn_probs=True, window_size=[-1, -1])
    assert_near([out.double()], [reference(q, k, v)], *NEAR)
    scores = q @ k.repeat_interleave(2, 1).mT / math.sqrt(8)
    assert_near([weights], [scores.softmax(-1)], *NEAR)
    torch.hpu.manual_seed(0)
    out, weights, kept = FusedSDPA.apply(
        *placed, dropout_p=0.5, return_dropout_mask=True, return_attn_probs=True
    )
    assert kept.dtype == torch.int8
    assert 20 < kept.sum().item() < 180
    dropped = weights.cpu() * kept.cpu() * 2
    assert_near([out], [dropped @ v.repeat_interleave(2, 1)], *NEAR)


def test_dropout_is_drawn_and_has_a_gradient():
    tensors = on_device([t.requires_grad_() for t in inputs()])
    y = FusedSDPA.apply(*tensors, None, 0.5)
    y.sum().backward()
    assert all(t.grad.abs().sum().item() > 0 for t in tensors)
    assert not torch.equal(y.cpu(), FusedSDPA.apply(*tensors, None, 0.5).cpu())


def test_operators_of_the_recomputing_form():
    """The results of each row: its largest score and the inverse of its sum; in mode fast the
    latter is divided by 128."""
    q, k, v = inputs()
    scores = q @ k.mT * 0.5
    want = scores.amax(-1, keepdim=True)
    inverse = 1 / (scores - want).exp().sum(-1, keepdim=True)
    for mode, factor in (("none", 1), ("fast", 1 / 128)):
        out, m, linv, seed = torch.ops.hpu.sdpa_recomp_fwd(
            *on_device((q, k, v)), None, 0.0, 0.5, False, True, mode, None, "right"
        )
        assert seed.dtype == torch.int32
        assert_near([out.double()], [reference(q, k, v, scale=0.5)], *NEAR)
        assert_near([m, linv], [want, inverse * factor], *NEAR)


def test_operators_of_the_form_with_weights():
    tensors = [t.requires_grad_() for t in inputs(key_heads=2)]
    grad = matrix(2, 4, 5, 8, seed=9)
    placed = on_device([t.detach() for t in tensors])
    out, weights, kept = torch.ops.hpu.sdpa_fwd(*placed, None, 0.0, 0.5, True, "none", None, "left")
    found = torch.ops.hpu.sdpa_bwd(grad.to("hpu"), *placed, weights, kept, True, 0.0, 0.5, out)
    want = reference(*tensors, (KEYS <= ROWS)[None, None], 0.5)
    assert_near([out.double()], [want], *NEAR)
    assert_near(found, torch.autograd.grad(want, tensors, grad.double()), 1e-4, 1e-4)


def test_groups():
    q, k, v = inputs(key_heads=2)
    assert is_gqa(q, k)
    assert not is_gqa(q, q)
    assert not is_gqa(q, k[:, :1])
    for heads in (1, 4):
        mask = matrix(2, heads, 5, 5, seed=7)
        grouped = gqa_input_reshape_fwd(q, k, v, mask)
        assert [list(t.shape) for t in grouped[:3]] == [
            [2, 2, 2, 5, 8],
            [2, 2, 1, 5, 8],
            [2, 2, 1, 5, 8],
        ]
        results = torch.ops.hpu.sdpa_recomp_fwd(
            *on_device(grouped), 0.0, 0.5, False, True, "none", None, "right"
        )
        y = gqa_output_reshape(results[0])
        assert_near([y.double()], [reference(q, k, v, scale=0.5, bias=mask)], *NEAR)
        assert gqa_output_reshape(results[1]).shape == (2, 4, 5, 1)
    assert gqa_input_reshape_bwd(grouped[0], v, q).shape == (2, 2, 2, 5, 8)


def test_python_forms():
    q, k, v = inputs()
    for form in (PySDPA, PySDPAHinted):
        y = form.apply(*on_device((q, k, v)), True, True)
        assert_near([y.double()], [reference(q, k, v, (KEYS <= ROWS)[None, None])], *NEAR)


@pytest.mark.parametrize("result", [None, torch.tensor(4.0), 4.0], ids=["wide", "tensor", "number"])
@pytest.mark.parametrize("compiled", [False, True])
def test_floats_of_8_bits(compiled, result):
    e4m3 = torch.float8_e4m3fn
    q, k, v = (t.to(e4m3) for t in inputs(key_heads=2))
    scales = 0.5, torch.tensor(2.0).to("hpu"), 1.0

    def attend(q, k, v):
        return fp8_fused_sdpa(
            q, k, v, None, 0.0, True, None, "fast", *scales, 1.0,
            result.to("hpu") if isinstance(result, torch.Tensor) else result, 1.0, True, True,
        )  # fmt: skip

    call = torch.compile(attend, backend="hpu_backend") if compiled else attend
    out, amax_s, amax_o = call(*on_device((q, k, v)))
    want = reference(q.double() * 0.5, k.double() * 2, v, (KEYS <= ROWS)[None, None])
    assert out.dtype == (torch.bfloat16 if result is None else e4m3)
    factor = 1 if result is None else 4
    assert_near([out.double()], [want * factor], 2**-4, 2**-6)
    assert amax_s.item() == pytest.approx(1, abs=2**-6)  # the first query sees one key
    assert amax_o.item() == pytest.approx(want.abs().max().item(), rel=2**-6)
    if not compiled:
        plain = Fp8FusedSDPA.apply(*on_device((q, k, v)))
        assert_near([plain[0].double()], [reference(q, k, v)], 2**-6, 2**-6)


def test_the_padding_is_not_read_without_lengths():
    """optimum-habana says "None" then."""
    q, k, v = (
        torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(i)) for i in range(3)
    )
    found = FusedSDPA.apply(
        *(x.to("hpu") for x in (q, k, v)), None, 0.0, True, None, "fast", False, None, "None"
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", ["left", "right"])
def test_dropout_beside_valid_lengths_and_a_mask(padding):
    q, k, v = inputs()
    lengths = torch.tensor([3, 5])
    valid = (
        lengths[:, None, None] > KEYS if padding == "right" else 5 - lengths[:, None, None] <= KEYS
    )
    seen = (KEYS <= ROWS) & valid
    placed = on_device((q, k, v))
    y = FusedSDPA.apply(
        *placed, None, 1e-9, True, valid_seq_len=lengths.to("hpu"), seq_padding_type=padding
    )
    assert_near([y.double()], [reference(q, k, v, seen[:, None])], *NEAR)
    mask = matrix(2, 1, 5, 5, seed=7) > -0.5
    y = FusedSDPA.apply(*placed, mask.to("hpu"), 1e-9, True)
    assert_near([y.double()], [reference(q, k, v, mask & (KEYS <= ROWS))], *NEAR)
