"""habana_frameworks.torch.hpex: optimizers, clipping, norm and attention of Gaudi scripts."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from torch import nn
from training_case import assert_close, matrix, only_graph

import habana_frameworks.torch as ht
from habana_frameworks.torch.hpex.kernels import FusedSDPA
from habana_frameworks.torch.hpex.normalization import FusedClipNorm, FusedRMSNorm
from habana_frameworks.torch.hpex.optimizers import FusedAdagrad, FusedAdamW, FusedLamb, FusedSGD


def test_is_an_attribute_of_the_package():
    assert ht.hpex.optimizers.FusedAdamW is FusedAdamW


def parameters(device):
    return [nn.Parameter(matrix(3, 4, seed=n).to(device)) for n in range(2)]


def give_gradients(params, step):
    for n, p in enumerate(params):
        p.grad = matrix(3, 4, seed=10 * step + n).to(p.device)


def run(optimizer, params, steps, step=None):
    for number in range(steps):
        give_gradients(params, number + 1)
        (step or optimizer.step)()
    return [p.detach().cpu() for p in params]


STANDARD = {
    "sgd": (
        lambda p: FusedSGD(p, 0.1, 0.9, 0.01, 0.5),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, dampening=0.5),
    ),
    "adagrad": (
        lambda p: FusedAdagrad(p, lr=0.1, weight_decay=0.01),
        lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.01),
    ),
    # eps is scaled by the root of a bias correction, which does not matter beside these gradients
    "adamw": (
        lambda p: FusedAdamW(p, lr=0.1, eps=1e-12, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.1, eps=1e-12, weight_decay=0.01),
    ),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", STANDARD)
def test_standard_optimizers_are_those_of_pytorch(name, compiled):
    make, make_theirs = STANDARD[name]
    ours, theirs = parameters("hpu"), parameters("cpu")
    optimizer = make(ours)
    fresh_process()
    step = torch.compile(optimizer.step, backend="hpu_backend") if compiled else None
    given = run(optimizer, ours, 4, step)
    # 1 - 0.999**t in f32 has a relative error of 2**-24 / 0.001; a step moves by 0.1 at most.
    for mine, other in zip(given, run(make_theirs(theirs), theirs, 4), strict=True):
        assert_close(mine, other, atol=2e-5)


def adam_by_hand(weight, gradients, eps, corrected):
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for t, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        rate = 0.1 * ((1 - 0.999**t) ** 0.5 / (1 - 0.9**t) if corrected else 1)
        weight = weight * (1 - 0.1 * 0.01) - rate * m / (v.sqrt() + eps)
    return weight


@pytest.mark.parametrize("corrected", [True, False])
def test_where_adamw_adds_eps(corrected):
    params = parameters("hpu")[:1]
    start = params[0].detach().cpu()
    optimizer = FusedAdamW(params, lr=0.1, eps=0.1, weight_decay=0.01, bias_correction=corrected)
    (given,) = run(optimizer, params, 3)
    gradients = [matrix(3, 4, seed=10 * step) for step in (1, 2, 3)]
    assert_close(given, adam_by_hand(start, gradients, 0.1, corrected), atol=2e-5)


def test_adamw_with_bf16_moments():
    params = parameters("hpu")
    optimizer = FusedAdamW(params, lr=0.1, moments_dtype=torch.bfloat16)
    given = run(optimizer, params, 3)
    assert {
        t.dtype for t in (optimizer.state[params[0]][k] for k in ("exp_avg", "exp_avg_sq"))
    } == {torch.bfloat16}
    exact = parameters("cpu")
    for mine, other in zip(given, run(FusedAdamW(exact, lr=0.1), exact, 3), strict=True):
        assert_close(mine, other, 2e-2, 5e-3)
    with pytest.raises(ValueError, match="use float32 or bfloat16"):
        FusedAdamW(parameters("cpu"), moments_dtype=torch.float8_e4m3fn)


def test_adamw_with_f32_moments_of_bf16_parameters():
    """v * 0.999 in bf16 would be v."""
    (parameter,) = params = [nn.Parameter(torch.ones(8, dtype=torch.bfloat16, device="hpu"))]
    optimizer = FusedAdamW(params, lr=0.0, moments_dtype=torch.float32)
    for gradient in (1.0, *[0.0] * 20):
        parameter.grad = torch.full_like(parameter, gradient)
        optimizer.step()
    state = optimizer.state[parameter]["exp_avg_sq"]
    assert state.dtype is torch.float32
    assert_close(state.cpu(), torch.full((8,), 0.001 * 0.999**20), rtol=1e-5, atol=0)


@pytest.mark.parametrize("make", [FusedAdamW, FusedLamb])
def test_the_number_of_steps_is_an_int_that_learning_rates_follow(make):
    parameter = torch.nn.Parameter(torch.ones(3, device="hpu"))
    optimizer = make([parameter], lr=0.1)
    for number in (1, 2):
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        step = optimizer.param_groups[0]["step"]
        assert (type(step), step) == (int, number)


@pytest.mark.parametrize("make", [FusedAdamW, FusedLamb])
def test_a_group_without_parameters(make):
    params = parameters("hpu")
    optimizer = make([{"params": params}, {"params": []}], lr=0.1)
    run(optimizer, params, 2)


def test_adamw_goes_on_from_a_checkpoint():
    params = parameters("hpu")
    optimizer = FusedAdamW(params, lr=0.1)
    run(optimizer, params, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    others = [nn.Parameter(p.detach().cpu()) for p in params]
    other = FusedAdamW(others, lr=0.1)
    other.load_state_dict(saved)
    number = int(saved["param_groups"][0]["step"])
    assert number == 2
    plain = FusedAdamW([nn.Parameter(p.detach().cpu()) for p in params], lr=0.1)
    saved["param_groups"][0]["step"] = number  # as a number, which other builds save
    plain.load_state_dict(saved)
    wanted = run(optimizer, params, 1)
    for goes_on in (other, plain):
        given = run(goes_on, goes_on.param_groups[0]["params"], 1)
        for mine, its in zip(given, wanted, strict=True):
            assert_close(mine, its)


def lamb_by_hand(weights, gradients):
    m = [torch.zeros_like(w) for w in weights]
    v = [torch.zeros_like(w) for w in weights]
    for t, step in enumerate(gradients, 1):
        norm = torch.cat([g.flatten() for g in step]).norm()
        for k, gradient in enumerate(step):
            g = gradient / max(norm.item(), 1.0)
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g**2
            update = m[k] / (1 - 0.9**t) / ((v[k] / (1 - 0.999**t)).sqrt() + 1e-6)
            update = update + 0.01 * weights[k]
            weights[k] = weights[k] - 0.1 * weights[k].norm() / update.norm() * update
    return weights


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_lamb(compiled):
    params = parameters("hpu")
    optimizer = FusedLamb(params, lr=0.1)
    start = [p.detach().cpu() for p in params]
    fresh_process()
    step = torch.compile(optimizer.step, backend="hpu_backend") if compiled else None
    given = run(optimizer, params, 3, step)
    gradients = [[matrix(3, 4, seed=10 * s + n) for n in range(2)] for s in (1, 2, 3)]
    for mine, other in zip(given, lamb_by_hand(start, gradients), strict=True):
        assert_close(mine, other, atol=2e-5)
    with pytest.raises(ValueError, match="neither amsgrad"):
        FusedLamb(params, amsgrad=True)


def test_clip_norm():
    ours, theirs = parameters("hpu"), parameters("cpu")
    give_gradients(ours, 1)
    give_gradients(theirs, 1)
    norm = FusedClipNorm(ours, 0.5).clip_norm(ours)
    assert_close(norm, torch.nn.utils.clip_grad_norm_(theirs, 0.5))
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine.grad, other.grad)


def test_rms_norm_and_attention_in_a_graph():
    def function(rms_norm, attention, x, weight):
        y = rms_norm(x, weight).reshape(2, 4, 3, 8)
        return attention(y, y.tanh(), y.sin()).square().mean()

    def ours(x, weight):
        return function(
            lambda x, w: FusedRMSNorm.apply(x, w, 1e-5),
            lambda q, k, v: FusedSDPA.apply(q, k, v, None, 0.0, True, 0.5, "fast", None),
            x,
            weight,
        )

    def theirs(x, weight):
        return function(
            lambda x, w: F.rms_norm(x, [8], w, 1e-5),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5),
            x,
            weight,
        )

    x, weight = matrix(24, 8), matrix(8, seed=1)
    on_device = [t.to("hpu").requires_grad_() for t in (x, weight)]
    on_cpu = [t.requires_grad_() for t in (x, weight)]
    fresh_process()
    loss = torch.compile(ours, backend="hpu_backend")(*on_device)
    loss.backward()
    wanted = theirs(*on_cpu)
    wanted.backward()
    only_graph()
    assert_close(loss, wanted)
    for mine, other in zip(on_device, on_cpu, strict=True):
        assert_close(mine.grad, other.grad, 1e-4, 1e-5)


def test_attention_of_grouped_heads():
    q, k = matrix(2, 4, 3, 8), matrix(2, 2, 3, 8, seed=1)
    ours = FusedSDPA.apply(q.to("hpu"), k.to("hpu"), k.to("hpu"))
    both = k.repeat_interleave(2, 1)
    assert_close(ours, F.scaled_dot_product_attention(q, both, both))
    with pytest.raises(ValueError, match="valid_seq_len needs is_causal"):
        FusedSDPA.apply(q, q, q, valid_seq_len=torch.tensor([1]))
