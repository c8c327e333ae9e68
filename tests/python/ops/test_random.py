"""Random numbers of compiled graphs: those of eager hpu, in order, and the mask of a forward again
in its backward."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu
from helpers import fresh_process
from lazy_case import lazy_mode
from torch import nn
from torch.utils.checkpoint import checkpoint

from habana_frameworks.torch.dynamo import report

X = torch.linspace(-1, 1, 600).reshape(20, 30)


def seeded(function, *args, seed=7):
    torch.hpu.manual_seed(seed)
    with torch.no_grad():
        return function(*args)


def compiled(function):
    fresh_process()
    return torch.compile(function, backend="hpu_backend", dynamic=False)


def only_graph():
    (graph,) = report().graphs
    return graph


DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.3, True) + 1,
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True) + 1,
    "dropout of all": lambda x: F.dropout(x, 1.0, True) + 1,
    "native_dropout": lambda x: torch.native_dropout(x, 0.3, True),
    "bernoulli of a number": lambda x: torch.bernoulli(x, 0.25),
    "bernoulli of a tensor": lambda x: torch.bernoulli(x.abs()),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.25) * x,
    "bernoulli_ of bool": lambda x: torch.empty_like(x, dtype=torch.bool).bernoulli_(0.25),
    "rand": lambda x: x + torch.rand(20, 30, device="hpu"),
    "rand_like": lambda x: torch.rand_like(x) * x,
    "rand of bf16": lambda x: torch.rand(33, device="hpu", dtype=torch.bfloat16) + 0,
    "rand of f16": lambda x: torch.rand(33, device="hpu", dtype=torch.float16) + 0,
    "uniform_": lambda x: torch.empty_like(x).uniform_(-2, 3) + 0,
    "randn": lambda x: x + torch.randn(20, 30, device="hpu"),
    "randn_like": lambda x: torch.randn_like(x) * x,
    "randn of bf16": lambda x: torch.randn(33, device="hpu", dtype=torch.bfloat16) + 0,
    "normal_": lambda x: torch.empty_like(x).normal_(-2, 3) + 0,
    "of one number": lambda x: torch.rand((), device="hpu") + x,
    "of no numbers": lambda x: (
        F.dropout(torch.zeros(0, 3, device="hpu"), 0.5, True),
        x + torch.rand(2, 0, device="hpu").sum(),
        torch.rand_like(x),
    ),
    "randint": lambda x: torch.randint(7, (20, 30), device="hpu"),
    "randint of i32": lambda x: torch.randint(-3, 50257, (33,), device="hpu", dtype=torch.int32),
    "randint far away": lambda x: torch.randint(2**24 - 9, 2**24, (33,), device="hpu"),
    "randint of a large range": lambda x: torch.randint(-(2**31), 2**31, (37,), device="hpu"),
    "randint of f32": lambda x: torch.randint(-5, 2**24, (37,), device="hpu", dtype=torch.float32),
    "randint of bytes": lambda x: torch.randint(0, 256, (37,), device="hpu", dtype=torch.uint8),
    "randint of bf16": lambda x: torch.randint(0, 100, (37,), device="hpu", dtype=torch.bfloat16),
    "exponential_": lambda x: torch.empty_like(x).exponential_(1.5) * x,
    "exponential_ of bf16": lambda x: torch.empty_like(x, dtype=torch.bfloat16).exponential_() + 0,
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.2) + 0,
    "geometric_ of i64": lambda x: torch.empty_like(x, dtype=torch.int64).geometric_(0.6) + 0,
    "multinomial": lambda x: torch.multinomial(x.abs(), 1) + 0,
    "multinomial of several": lambda x: torch.multinomial(x.abs().bfloat16(), 5) + 0,
    "randperm": lambda x: torch.randperm(97, device="hpu") + 0,
    "randperm of nothing": lambda x: (torch.randperm(0, device="hpu") + 0, torch.rand_like(x)),
    "randint_like": lambda x: torch.randint_like(
        torch.zeros(33, dtype=torch.int64, device="hpu"), 2, 9
    ),
    "in columns": lambda x: torch.rand_like(x.t()) + x.t(),
    "many dimensions": lambda x: torch.rand(2, 1, 2, 1, 3, 2, 2, device="hpu") + 0,
    "three draws": lambda x: F.dropout(
        F.dropout(x, 0.5, True) + torch.rand(7, 1, device="hpu")[0], 0.1, True
    ),
    "feature_dropout": lambda x: F.dropout1d(x, 0.5, True) + 1,
}


# These are made of functions whose last bits depend on what computes them.
NEARLY = {
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(0.5, 0.3) + x,
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(0.5, 0.3) + x,
    "normal of means": lambda x: torch.normal(x, 0.5) + 0,
    "normal of deviations": lambda x: torch.normal(2.0, x.abs()) + 0,
    "normal of tensors": lambda x: torch.normal(x[0].bfloat16(), x.abs().bfloat16()) + 0,
    "multinomial with replacement": lambda x: torch.multinomial(x.abs(), 50, True) + 0,
    "multinomial of many classes": lambda x: torch.multinomial(x.flatten().abs(), 50, True) + 0,
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.4, training=True) + 0,
}


@pytest.mark.parametrize("way", ["compiled", "lazy", "only in recipes"])
@pytest.mark.parametrize("case", [*DRAWS, *NEARLY])
def test_numbers_do_not_depend_on_the_way(case, way):
    function = DRAWS.get(case) or NEARLY[case]
    x = X.to("hpu")
    if way == "compiled":
        ours = seeded(compiled(function), x)
    else:
        with lazy_mode() if way == "lazy" else place_on_cpu("none"):
            ours = seeded(function, x)
    after = torch.hpu.get_rng_state()
    theirs = seeded(function, x)
    near = 1e-5 if case in NEARLY else 0
    for a, b in zip(_tuple(ours), _tuple(theirs), strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=near, atol=near)
    assert torch.equal(torch.hpu.get_rng_state(), after)
    if way != "compiled":
        return
    graph = only_graph()
    assert graph.origin != "eager" and graph.eager_nodes == 0


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_every_call_draws_anew_and_a_state_replays():
    run = compiled(lambda x: F.dropout(x, 0.5, True))
    x = torch.ones(64, device="hpu")
    with torch.no_grad():
        first = run(x)
        state = torch.hpu.get_rng_state()
        second, third = run(x), run(x)
        assert not torch.equal(first, second) and not torch.equal(second, third)
        torch.hpu.set_rng_state(state)
        assert torch.equal(run(x), second)
        torch.hpu.set_rng_state(state)
        assert torch.equal(F.dropout(x, 0.5, True), second)
        with torch.random.fork_rng(device_type="hpu"):
            inside = run(x)
        assert torch.equal(run(x), inside)


def test_the_state_is_seed_and_offset():
    torch.hpu.manual_seed(0x1234567890)
    torch.rand(9, device="hpu")
    state = torch.hpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.view(torch.int64).tolist() == [0x1234567890, 3]
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.hpu.set_rng_state(torch.zeros(5056, dtype=torch.uint8))


def test_seed_and_offset_have_64_bits():
    run = compiled(lambda x: torch.rand_like(x))
    x = torch.empty(50, device="hpu")
    found = []
    for seed, offset in ((-1, 2**32 - 3), (2**31, 2**32 - 3), (5, 2**40), (5, 0)):
        state = torch.tensor([seed, offset]).view(torch.uint8)
        with torch.no_grad():
            torch.hpu.set_rng_state(state)
            ours = run(x)
            torch.hpu.set_rng_state(state)
            assert torch.equal(ours, torch.rand_like(x))
        assert all(not torch.equal(ours, other) for other in found)
        found.append(ours)


def test_draws_that_run_eagerly_keep_all_in_order():
    def function(x):
        mask = F.dropout(x, 0.5, True)
        counts = torch.poisson(x.abs())
        return mask * counts + torch.rand_like(x)

    x = X.to("hpu")
    run = compiled(function)
    assert torch.equal(seeded(run, x), seeded(function, x))
    assert only_graph().eager_nodes >= 3


@pytest.mark.parametrize(
    "first",
    [
        lambda x: torch.randperm(5, dtype=torch.float64, device="hpu"),
        lambda x: torch.randint(0, 1000, (5,), dtype=torch.bfloat16, device="hpu"),
        lambda x: torch.bernoulli(x[0].abs().double()),
    ],
)
def test_draws_after_one_that_no_recipe_holds(first):
    def function(x):
        return first(x), torch.rand_like(x)

    x = X.to("hpu")
    for ours, theirs in zip(seeded(compiled(function), x), seeded(function, x), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("bounds", [(0, 2**32 + 1), (-(2**60), 0), (2**60, 2**60 + 5)])
def test_integers_of_very_large_ranges_are_drawn_eagerly(bounds):
    run = compiled(lambda x: torch.randint(*bounds, x.shape, device="hpu"))
    x = X.to("hpu")
    numbers = seeded(run, x)
    assert torch.equal(numbers, seeded(lambda x: torch.randint(*bounds, x.shape, device="hpu"), x))
    assert bounds[0] <= numbers.min().item() and numbers.max().item() < bounds[1]
    assert only_graph().eager_nodes == 1


def test_a_draw_is_not_decomposed_into_others():
    x = X.to("hpu")
    run = compiled(lambda x: torch.empty_like(x).exponential_() + x)
    assert torch.equal(seeded(run, x), seeded(lambda x: torch.empty_like(x).exponential_() + x, x))


def test_gradients_use_the_mask_of_the_forward():
    run = compiled(lambda x, w: F.dropout(x * w, 0.5, True))
    x = X.abs().add(1).to("hpu").requires_grad_()
    w = torch.full((30,), 2.0, device="hpu", requires_grad=True)
    for _ in range(3):
        x.grad = w.grad = None
        y = run(x, w)
        torch.rand(5, device="hpu")  # the generator has moved on when the backward runs
        y.backward(torch.ones_like(y))
        kept = (y != 0).float()
        assert 0.3 < kept.mean().item() < 0.7
        torch.testing.assert_close(x.grad, kept * 2 * w)
        torch.testing.assert_close(w.grad, (kept * 2 * x).sum(0))
    assert only_graph().eager_nodes == 0


def test_the_state_is_saved_and_no_mask():
    run = compiled(lambda x: F.dropout(x, 0.5, True))
    saved = []

    def pack(tensor):
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run(torch.ones(64, device="hpu", requires_grad=True))
    assert saved == [1, 1]


def test_training_is_that_of_eager():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(30, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 4), nn.Dropout(0.5)
    ).to("hpu")
    x = X.to("hpu")

    def steps(call):
        torch.hpu.manual_seed(5)
        grads = []
        for _ in range(2):
            model.zero_grad()
            call(x).square().sum().backward()
            grads += [p.grad.clone() for p in model.parameters()]
        return grads

    ours, theirs = steps(compiled(model)), steps(model)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def _softmax_attention(q, k, v, mask):
    weights = torch.matmul(q, k.transpose(-1, -2)) * 0.3 + mask
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, 0.3), v).transpose(1, 2)


def _repeated(heads):
    batch, groups, length, size = heads.shape
    heads = heads[:, :, None].expand(batch, groups, 2, length, size)
    return heads.reshape(batch, 2 * groups, length, size)


_sdpa = F.scaled_dot_product_attention
ATTENTIONS = {
    "plain": lambda q, k, v, mask: _sdpa(q, k, v, dropout_p=0.3),
    "causal": lambda q, k, v, mask: _sdpa(q, k, v, dropout_p=0.3, is_causal=True),
    "mask": lambda q, k, v, mask: _sdpa(q, k, v, mask, dropout_p=0.3, scale=0.2),
    "bool mask": lambda q, k, v, mask: _sdpa(q, k, v, mask >= 0, dropout_p=0.3),
    "softmax": _softmax_attention,
    "no dropout": lambda q, k, v, mask: F.softmax(q @ k.mT * 0.3 + mask, dim=-1) @ v,
    "groups": lambda q, k, v, mask: _sdpa(
        q, k[:, :2], v[:, :2], dropout_p=0.3, is_causal=True, enable_gqa=True
    ),
    "repeated heads": lambda q, k, v, mask: _sdpa(
        q, _repeated(k[:, :2]), _repeated(v[:, :2]), mask, dropout_p=0.3
    ),
    "repeated heads without dropout": lambda q, k, v, mask: _sdpa(
        q, _repeated(k[:, :2]), _repeated(v[:, :2]), is_causal=True
    ),
}


def _heads(length, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 4, length, 8, generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [7, 20])
@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention_drops_what_eager_drops(case, length, dtype):
    attention = ATTENTIONS[case]
    mask = _heads(length, 4)[:, :1, :, :1].mT.to("hpu", dtype)

    def step(call):
        torch.hpu.manual_seed(5)
        q, k, v = (_heads(length, i).to("hpu", dtype).requires_grad_() for i in range(3))
        y = call(q, k, v, mask)
        torch.rand(5, device="hpu")  # the generator has moved on when the backward runs
        return y.detach(), *torch.autograd.grad(y.float().square().sum(), (q, k, v))

    # relative to the largest, because results are rounded
    tolerance = 1e-5 if dtype == torch.float32 else 0.03
    for ours, theirs in zip(step(compiled(attention)), step(attention), strict=True):
        bound = tolerance * theirs.abs().max().item()
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=bound)
    assert only_graph().eager_nodes == 0


def test_a_graph_that_is_retained_draws_the_same_mask():
    run = compiled(lambda x: F.dropout(x, 0.5, True))
    x = torch.ones(64, device="hpu", requires_grad=True)
    y = run(x)
    (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    (second,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(first, second) and torch.equal(first, y.detach())


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("compiling", [False, True])
def test_checkpointing_replays_the_numbers(compiling, reentrant):
    def block(x):
        return F.dropout(x, 0.5, True) * 3

    run = compiled(block) if compiling else block
    x = torch.ones(64, device="hpu", requires_grad=True)
    y = checkpoint(run, x, use_reentrant=reentrant)
    torch.rand(3, device="hpu")
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_numbers_on_the_cpu_are_not_drawn_by_the_device():
    run = compiled(lambda x: x + torch.rand(20, 30).to("hpu"))
    torch.manual_seed(3)
    expected = X + torch.rand(20, 30)
    torch.manual_seed(3)
    with torch.no_grad():
        assert torch.equal(run(X.to("hpu")).cpu(), expected)
    assert "draws random numbers on cpu" in only_graph().reason


PROCESS = """
import torch, torch.nn.functional as F
import habana_frameworks.torch
run = torch.compile(lambda x: F.dropout(x, 0.5, True) + torch.rand_like(x), backend="hpu_backend")
torch.hpu.manual_seed(11)
with torch.no_grad():
    for size in ((1000, 77), (5,)):
        y = run(torch.ones(size, device="hpu")).cpu()
        z = torch.rand(size, device="hpu").cpu()
        print(hash(tuple(y.flatten().tolist())), hash(tuple(z.flatten().tolist())))
"""


def test_threads_do_not_show():
    def run(threads: str) -> str:
        environment = {**os.environ, "HPU_EMULATOR_THREADS": threads, "OMP_NUM_THREADS": threads}
        return subprocess.run(
            [sys.executable, "-c", PROCESS],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert run("1") == run("2") != ""


def test_native_dropout_that_drops_nothing_is_a_copy():
    x = torch.randn(4, 6, device="hpu")
    torch._dynamo.reset()
    run = torch.compile(
        lambda x: torch.native_dropout(x, 0.5, False), backend="hpu_backend", dynamic=False
    )
    with torch.no_grad():
        kept, mask = run(x)
    assert torch.equal(kept, x)
    assert kept.data_ptr() != x.data_ptr()
    assert mask.all()
