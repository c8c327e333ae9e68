"""Steps of optimizers of torch.ops.hpu, which write to lists of tensors, and what uses them."""

from __future__ import annotations

import copy

import pytest
import torch
from kernel_case import assert_near, by_way, on_device, run
from torch import nn
from training_case import matrix

from habana_frameworks.torch.hpex.movingavrg import FusedEMA
from habana_frameworks.torch.hpex.optimizers import FusedLars, FusedResourceApplyMomentum

hpu = torch.ops.hpu
NEAR = 1e-5, 1e-6
SIZES = ((3, 4), (5,))


def tensors(seed):
    return [matrix(*sizes, seed=10 * seed + n) for n, sizes in enumerate(SIZES)]


@by_way
@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_adamw(decay, way):
    g, w, m, v = tensors(0), tensors(1), tensors(2), [t.abs() for t in tensors(3)]

    def call(g, w, m, v, rate, kept):
        hpu.optimizer_adamw(g, w, m, v, rate, 0.9, 0.99, 1e-6, kept, decay != 1.0)
        return *w, *m, *v

    rate, kept = torch.tensor(-0.1), torch.tensor(decay)
    found = run(way, "optimizer_adamw", call, g, w, m, v, rate, kept)
    m = [a * 0.9 + b * 0.1 for a, b in zip(m, g, strict=True)]
    v = [a * 0.99 + b * b * 0.01 for a, b in zip(v, g, strict=True)]
    w = [a * decay - 0.1 * b / (c.sqrt() + 1e-6) for a, b, c in zip(w, m, v, strict=True)]
    assert_near(found, [*w, *m, *v], *NEAR)


@by_way
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("averaging", [0, 1])
def test_lamb(averaging, decay, way):
    g, w, m, v = tensors(0), tensors(1), tensors(2), [t.abs() for t in tensors(3)]
    norms, lengths = ([torch.zeros(1) for _ in SIZES] for _ in range(2))
    steps = [torch.zeros(s) for s in SIZES]
    corrections = torch.tensor(0.5), torch.tensor(0.25)

    def call(g, w, m, v, norms, lengths, steps, rate, *corrections):
        clip = hpu.optimizer_lamb_fused_norm(g, 2.0)
        hpu.optimizer_lamb_phase1(
            g, w, m, v, norms, lengths, steps, clip, averaging, 0.9, 0.99, 1e-6, *corrections, decay
        )
        hpu.optimizer_lamb_phase2(w, lengths, norms, steps, rate, decay, False)
        return clip, *w, *m, *v, *norms, *lengths

    lists = g, w, m, v, norms, lengths, steps
    found = run(way, "optimizer_lamb_phase1", call, *lists, torch.tensor(-0.1), *corrections)
    clip = max(torch.cat([t.flatten() for t in g]).norm() / 2, torch.tensor(1.0))
    g = [t / clip for t in g]
    m = [a * 0.9 + b * (0.1 if averaging else 1) for a, b in zip(m, g, strict=True)]
    v = [a * 0.99 + b * b * 0.01 for a, b in zip(v, g, strict=True)]
    updates = [
        a / 0.5 / ((b / 0.25).sqrt() + 1e-6) + decay * c for a, b, c in zip(m, v, w, strict=True)
    ]
    norms, lengths = ([t.norm().reshape(1) for t in each] for each in (w, updates))
    ratio = [a / b if decay else 1 for a, b in zip(norms, lengths, strict=True)]
    w = [a - 0.1 * b * c for a, b, c in zip(w, updates, ratio, strict=True)]
    assert_near(found, [clip.reshape(1), *w, *m, *v, *norms, *lengths], 1e-4, 1e-5)


def test_lamb_without_a_norm():
    """The ratio is 1 where a norm is 0."""
    w, u = on_device((matrix(3), matrix(3, seed=1)))
    zero, one = torch.zeros(1).to("hpu"), torch.ones(1).to("hpu")
    before = w.cpu()
    hpu.optimizer_lamb_phase2([w], [zero], [one], [u], torch.tensor(-0.5).to("hpu"), 0.1, True)
    assert_near([w], [before - 0.5 * u.cpu()], *NEAR)


def lars(g, w, decay, rate):
    ratio = w.norm() * 0.01 / (g.norm() + w.norm() * decay + 1e-8)
    return (g + w * decay) * ratio * rate


@by_way
def test_lars(way):
    g, w = tensors(0), tensors(1)

    def call(w, g, rate):
        hpu.optimizer_lars(w, g, [1, 0], 0.01, 0.1, 1e-8, rate)
        return g

    found = run(way, "optimizer_lars", call, w, g, torch.tensor(0.5))
    assert_near(found, [lars(g[0], w[0], 0.1, 0.5), g[1] * 0.5], *NEAR)


@by_way
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("epoch", [0, 3])
def test_sgd(epoch, nesterov, way):
    g, w, b = tensors(0), tensors(1), tensors(2)

    def plain(g, w, rate):
        hpu.optimizer_sgd(g, w, rate, 0.1, 0.0, 0.0, False)
        return w

    rate = torch.tensor(0.2)
    want = [y - 0.2 * (x + 0.1 * y) for x, y in zip(g, w, strict=True)]
    assert_near(run(way, "optimizer_sgd", plain, g, w, rate), want, *NEAR)

    def momentum(g, w, b, number, rate, factor):
        hpu.optimizer_sgd_momentum(g, w, b, number, rate, factor, 0.1, 0.3, nesterov)
        return *w, *b

    number, factor = torch.tensor(epoch), torch.tensor(0.9)
    found = run(way, "optimizer_sgd_momentum", momentum, g, w, b, number, rate, factor)
    updates = [x + 0.1 * y for x, y in zip(g, w, strict=True)]
    b = [0.9 * x + 0.7 * u if epoch else u for x, u in zip(b, updates, strict=True)]
    moves = [u + 0.9 * x if nesterov else x for x, u in zip(b, updates, strict=True)]
    assert_near(found, [*(x - 0.2 * y for x, y in zip(w, moves, strict=True)), *b], *NEAR)


@by_way
def test_clipping(way):
    g = tensors(0)

    def call(g, most):
        return hpu.fused_clip_norm(g, most, 2.0), *g

    found = run(way, "fused_clip_norm", call, g, torch.tensor(0.5))
    norm = torch.cat([t.flatten() for t in g]).norm()
    assert_near(found, [norm, *(t * 0.5 / norm for t in g)], 1e-4, 1e-5)


def test_lists_of_different_lengths_are_an_error():
    with pytest.raises(RuntimeError, match=r"hpu::optimizer_ema: the lists have 2, 1 elements"):
        hpu.optimizer_ema(tensors(0), tensors(1)[:1], torch.tensor([0.5]))


def test_average_of_a_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("hpu")
    average = FusedEMA(model, decay=0.9, updates=1999)
    before = {name: t.cpu() for name, t in model.state_dict().items()}
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)
    average.update(model)
    weight = 0.9 * (1 - torch.tensor(-1.0).exp())
    after = model.state_dict()
    for name, t in average.ema.state_dict().items():
        want = before[name]
        if want.is_floating_point():
            want = want * weight + after[name].cpu() * (1 - weight)
        torch.testing.assert_close(t.cpu(), want, rtol=1e-5, atol=1e-6)
    assert average.updates == 2000
    model.note = "new"
    average.update_attr(model)
    assert average.ema.note == "new"
    with pytest.raises(ValueError, match=r"decay is -0.1"):
        FusedEMA(model, -0.1)


def parameters(device):
    return [nn.Parameter(t.to(device)) for t in tensors(1)]


def test_lars_around_an_optimizer():
    """Two steps of SGD with momentum and rate 1, whose gradients LARS has scaled."""
    params = parameters("hpu")
    inner = torch.optim.SGD(params, lr=1.0, momentum=0.9, weight_decay=0.1)
    optimizer = FusedLars(inner, [1, 0], eeta=0.01)
    want, buffers = [p.detach() for p in parameters("cpu")], [torch.zeros(s) for s in SIZES]
    for number in range(2):
        gradients = tensors(5 + number)
        for p, g in zip(params, gradients, strict=True):
            p.grad = g.to("hpu")
        optimizer.step()
        scaled = [lars(gradients[0], want[0], 0.1, 1.0), gradients[1]]
        buffers = [0.9 * b + g for b, g in zip(buffers, scaled, strict=True)]
        want = [w - b for w, b in zip(want, buffers, strict=True)]
    assert_near(params, want, 1e-5, 1e-5)
    assert inner.param_groups[0]["weight_decay"] == 0.1
    optimizer.zero_grad(set_to_none=True)
    assert params[0].grad is None


def test_momentum_of_scaled_gradients():
    params = parameters("hpu")
    optimizer = FusedResourceApplyMomentum(params, lr=0.1, momentum=0.9)
    want = [copy.deepcopy(p.detach()) for p in parameters("cpu")]
    buffers = None
    for number in range(3):
        gradients = tensors(5 + number)
        for p, g in zip(params, gradients, strict=True):
            p.grad = g.to("hpu")
        optimizer.step()
        if buffers is None:
            buffers = gradients
        else:
            buffers = [0.9 * b - g for b, g in zip(buffers, gradients, strict=True)]
        want = [w + b for w, b in zip(want, buffers, strict=True)]
    assert_near(params, want, 1e-5, 1e-5)
    with pytest.raises(ValueError, match="nesterov needs a momentum"):
        FusedResourceApplyMomentum(params, lr=0.1, nesterov=True)
