"""Arguments that FusedSDPA and the operators of attention refuse: errors name the caller, the
argument, what was given and what is expected."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from helpers import fresh_process
from kernel_case import on_device
from lazy_case import lazy_mode
from training_case import matrix

from habana_frameworks.torch.hpex.kernels import FusedSDPA, fp8_fused_sdpa


def operands():
    return [matrix(2, 4, 5, 8, seed=seed) for seed in (1, 2, 3)]


def integers():
    return torch.ones(2, 4, 5, 8, dtype=torch.int32)


@pytest.mark.parametrize("way", ["eager", "lazy", "compiled"])
@pytest.mark.parametrize(
    ("given", "kind", "error"),
    [
        ({"valid_seq_len": torch.tensor([3, 5])}, ValueError, "valid_seq_len needs is_causal"),
        ({"return_attn_probs": True, "window_size": [2, 0]}, ValueError, "a window or sinks"),
        ({"q": integers()}, TypeError, "q is of torch.int32; pass floats"),
        ({"v": integers()}, TypeError, "v is of torch.int32; pass floats"),
        ({"q": matrix(3, 4)}, ValueError, r"q has the sizes \[3, 4\]; pass at least three dim"),
        ({"k": matrix(3, 4)}, ValueError, r"k has the sizes \[3, 4\]; pass at least three dim"),
        ({"window_size": (1,)}, ValueError, r"window_size is \[1\]; pass two numbers"),
        (
            {"k": matrix(2, 3, 5, 8), "v": matrix(2, 3, 5, 8)},
            ValueError,
            r"k has 3 heads and q has 4 \(dimension -3\); pass a number of heads that divides 4",
        ),
        ({"v": matrix(2, 8, 5, 8)}, ValueError, "v has 8 heads and q has 4 "),
        ({"dropout_p": 1.0}, ValueError, "dropout_p is 1.0; pass a probability from 0 to below 1"),
        ({"dropout_p": 1.5}, ValueError, "dropout_p is 1.5"),
        ({"dropout_p": -0.5}, ValueError, "dropout_p is -0.5"),
        ({"dropout_p": 1.0, "return_dropout_mask": True}, ValueError, "dropout_p is 1.0"),
    ],
    ids=str,
)
def test_errors_say_what_is_wrong(given, kind, error, way):
    q, k, v = operands()
    values = {"q": q, "k": k, "v": v, **given}
    given = {name: on_device(value) for name, value in values.items()}

    def attend():
        return FusedSDPA.apply(**given)

    call = torch.compile(attend, backend="hpu_backend") if way == "compiled" else attend
    fresh_process()
    mode = lazy_mode() if way == "lazy" else nullcontext()
    with mode, pytest.raises(kind, match=f"FusedSDPA: {error}"):
        call()


@pytest.mark.parametrize("wanted", ["return_attn_probs", "return_dropout_mask"])
@pytest.mark.parametrize("place", range(4))
def test_results_with_weights_refuse_a_gradient(place, wanted):
    """Their operator has no gradient, which would be lost."""
    tensors = [*on_device(operands()), matrix(2, 1, 5, 5).to("hpu")]
    tensors[place].requires_grad_()
    with pytest.raises(ValueError, match=f"FusedSDPA: {wanted} needs inference; an operand"):
        FusedSDPA.apply(*tensors, 0.5, **{wanted: True})
    with torch.no_grad():
        assert len(FusedSDPA.apply(*tensors, 0.5, **{wanted: True})) == 2


@pytest.mark.parametrize("p", [0.1, -0.1])
def test_attention_of_8_bits_has_no_dropout(p):
    with pytest.raises(ValueError, match="fp8_fused_sdpa: dropout_p"):
        fp8_fused_sdpa(*on_device(operands()), dropout_p=p)


@pytest.mark.parametrize("device", ["hpu", "meta"])
def test_operators_refuse_wrong_operands(device):
    q, k, v = (t.to(device) for t in operands())
    with pytest.raises(ValueError, match="hpu::sdpa_fwd: k has 3 heads and q has 4"):
        torch.ops.hpu.sdpa_fwd(q, k[:, :3], v, None, 0.0, 0.5, False, "none", None, "left")
    with pytest.raises(ValueError, match="hpu::sdpa_fwd: p is 1.0; pass a probability"):
        torch.ops.hpu.sdpa_fwd(q, k, v, None, 1.0, 0.5, False, "none", None, "left")
    for window, p, error in (
        ([1], 0.0, r"window_size is \[1\]"),
        (None, -0.5, "dropout is not drawn here"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=f"hpu::sdpa_recomp_fwd: {error}"):
            torch.ops.hpu.sdpa_recomp_fwd(
                q, k, v, None, p, 0.5, False, False, "none", None, "left", window
            )
