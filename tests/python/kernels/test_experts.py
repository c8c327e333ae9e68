"""torch.ops.hpu.mixture_of_experts with all of its overloads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from kernel_case import assert_near, by_way, on_device, run
from lazy_case import lazy_mode
from training_case import matrix

OP = "mixture_of_experts"
TOKENS, HIDDEN, SIZE, EXPERTS = 6, 8, 5, 4
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}
moe = torch.ops.hpu.mixture_of_experts


def weights(permuted, dtype=torch.float32):
    """w1, w2 and w3 of all experts as [operands, results], and as they are given."""
    plain = [
        [matrix(*sizes, seed=10 * n + e).to(dtype) for e in range(EXPERTS)]
        for n, sizes in enumerate([(HIDDEN, SIZE), (HIDDEN, SIZE), (SIZE, HIDDEN)])
    ]
    given = [[w.t().contiguous() if permuted else w for w in each] for each in plain]
    return plain, given


def routed(first=0):
    """Tokens, their experts, and the router's weights; each token has two of six experts."""
    scores, table = matrix(TOKENS, 6, seed=5).softmax(-1).topk(2)
    return matrix(TOKENS, HIDDEN, seed=4), table + first, scores


def expected(x, table, router, between, last, first=0):
    """Token by token. between: a function of a token and an expert."""
    y = torch.zeros(TOKENS, HIDDEN, dtype=torch.float64)
    for t in range(TOKENS):
        for place in range(table.shape[1]):
            e = table[t, place].item() - first
            if 0 <= e < EXPERTS:
                y[t] += router[t, place].double() * last(between(x[t].double(), e), e)
    return y


def gated(plain, activation):
    w1, w2, w3 = plain
    return (
        lambda x, e: ACTIVATIONS[activation](x @ w1[e].double()) * (x @ w2[e].double()),
        lambda h, e: h @ w3[e].double(),
    )


@by_way
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("permuted", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_experts(fused, permuted, activation, way):
    x, table, router = routed()
    plain, given = weights(permuted)
    w1, w2, w3 = given
    joined = [torch.cat(pair, 0 if permuted else 1) for pair in zip(w1, w2, strict=True)]
    lists = (joined, w3) if fused else (w1, w2, w3)

    def mixture(x, table, router, *lists):
        return moe(x, table, router, *lists, permuted, activation, 0, EXPERTS - 1)

    y = run(way, OP, mixture, x, table, router, *lists)
    assert_near([y.double()], [expected(x, table, router, *gated(plain, activation))], 1e-5, 1e-5)


@pytest.mark.parametrize("first", [0, 2])
def test_a_slice_of_the_experts_by_name(first):
    x, table, router = routed()
    plain, (w1, w2, w3) = weights(True)
    joined = [torch.cat(pair) for pair in zip(w1, w2, strict=True)]
    y = moe(
        hidden_states=x.to("hpu"),
        expert_routing_table=table.to("hpu"),
        router_weights=router.to("hpu"),
        w12=on_device(joined),
        w3=on_device(w3),
        permuted_weights=True,
        activation="silu",
        experts_min=first,
        experts_max=first + EXPERTS - 1,
        chunk_size=64,
        total_experts=6,
    )
    want = expected(x, table, router, *gated(plain, "silu"), first)
    assert_near([y.double()], [want], 1e-5, 1e-5)


@by_way
def test_bf16(way):
    x, table, router = routed()
    plain, given = weights(True, torch.bfloat16)

    def mixture(x, table, router, *lists):
        return moe(x, table, router, *lists, True, "silu", 0, EXPERTS - 1)

    narrow = x.bfloat16(), table, router.bfloat16()
    y = run(way, OP, mixture, *narrow, *given)
    assert y.dtype == torch.bfloat16
    want = expected(*narrow, *gated(plain, "silu"))
    # The values between the products are rounded by up to 2**-9 of about ten.
    assert_near([y.double()], [want], 2**-6, 2**-3)


@by_way
@pytest.mark.parametrize("fused", [True, False])
def test_measurement_gives_the_largest_element_of_each_expert(fused, way):
    x, table, router = routed()
    plain, (w1, w2, w3) = weights(True)
    lists = ([torch.cat(pair) for pair in zip(w1, w2, strict=True)], w3) if fused else (w1, w2, w3)

    def mixture(x, table, router, *lists):
        return moe(x, table, router, *lists, True, "silu", 0, EXPERTS - 1, True)

    y, largest = run(way, OP, mixture, x, table, router, *lists)
    between, last = gated(plain, "silu")
    assert_near([y.double()], [expected(x, table, router, between, last)], 1e-5, 1e-5)
    peaks = [between(x.double(), e).max() for e in range(EXPERTS)]
    assert_near([largest.double()], [torch.stack(peaks)], 1e-5, 1e-5)


@by_way
def test_biases_and_the_gated_unit_of_gpt_oss(way):
    x, table, router = routed()
    w12 = [2 * matrix(2 * SIZE, HIDDEN, seed=e) for e in range(EXPERTS)]
    w3 = [matrix(HIDDEN, SIZE, seed=20 + e) for e in range(EXPERTS)]
    b12 = [matrix(2 * SIZE, seed=30 + e) for e in range(EXPERTS)]
    b3 = [matrix(HIDDEN, seed=40 + e) for e in range(EXPERTS)]

    def mixture(x, table, router, *lists):
        return moe.bias_fused_weights(x, table, router, *lists, True, 0, EXPERTS - 1)

    def between(x, e):
        both = w12[e].double() @ x + b12[e]
        gate, up = both[::2].clamp(max=7), both[1::2].clamp(-7, 7)
        return gate / (1 + (-1.702 * gate).exp()) * (up + 1)

    y = run(way, OP, mixture, x, table, router, w12, w3, b12, b3)
    want = expected(x, table, router, between, lambda h, e: w3[e].double() @ h + b3[e])
    assert_near([y.double()], [want], 1e-5, 1e-4)


@by_way
@pytest.mark.parametrize("between_scale", ["none", "tensor", "list"])
def test_floats_of_8_bits(between_scale, way):
    """Scales of weights are one number, or one for each result."""
    e4m3 = torch.float8_e4m3fn
    x, table, router = routed()
    _, (w1, w2, w3) = weights(True)
    w12 = [torch.cat(pair).to(e4m3) for pair in zip(w1, w2, strict=True)]
    last = [w.to(e4m3) for w in w3]
    s12 = [matrix(2 * SIZE, seed=50 + e).abs() for e in range(EXPERTS)]
    s3 = [torch.tensor(0.5 + e) for e in range(EXPERTS)]
    scale = matrix(TOKENS, 1, seed=60).abs()
    more = {
        "none": (),
        "tensor": (torch.tensor(0.5),),
        "list": ([torch.tensor(0.5)] * EXPERTS,),
    }[between_scale]

    def mixture(x, table, router, w12, last, scale, s12, s3, *more):
        names = ["d_scale_intermediate_hidden_states"] * len(more)
        return moe(
            hidden_states=x, expert_routing_table=table, router_weights=router, w12=w12, w3=last,
            d_scale_hidden_states=scale, d_scale_w12=s12, d_scale_w3=s3, permuted_weights=True,
            activation="silu", experts_min=0, experts_max=EXPERTS - 1,
            **dict(zip(names, more, strict=True)),
        )  # fmt: skip

    narrow = x.to(e4m3)
    y = run(way, OP, mixture, narrow, table, router, w12, last, scale, s12, s3, *more)
    wide = [(w.double().t() * s) for w, s in zip(w12, s12, strict=True)]
    plain = (
        [w[:, :SIZE] for w in wide],
        [w[:, SIZE:] for w in wide],
        [w.double().t() * s for w, s in zip(last, s3, strict=True)],
    )
    want = expected(narrow.double() * scale, table, router, *gated(plain, "silu"))
    assert y.dtype == router.dtype
    assert_near([y.double()], [want], 1e-5, 1e-4)


@pytest.mark.parametrize(
    ("activation", "last", "error"),
    [("tanh", 3, "activation is 'tanh'; it is one of gelu"), ("silu", 4, "4 experts for .*0 to 4")],
)
def test_errors_say_what_is_wrong(activation, last, error):
    _, given = weights(True)
    with pytest.raises(RuntimeError, match=f"hpu::mixture_of_experts: .*{error}"):
        moe(*routed(), *given, True, activation, 0, last)


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (2, 2)])
def test_a_row_of_the_table_for_several_tokens(sizes):
    """The kernel on the CPU broadcasts it; a graph does what that does."""
    _, given = weights(True)
    x = matrix(2, HIDDEN)
    table, router = torch.arange(sizes[0] * sizes[1]).reshape(sizes), matrix(*sizes, seed=1)

    def mixture(x, table, router, *lists):
        return moe(x, table, router, *lists, True, "silu", 0, EXPERTS - 1)

    want = mixture(x, table, router, *given)
    got = torch.compile(mixture, backend="hpu_backend")(*on_device((x, table, router, *given)))
    assert_near([got], [want], 1e-5, 1e-5)


@by_way
def test_biases_of_several_types(way):
    x, table, router = routed()
    w12 = [matrix(2 * SIZE, HIDDEN, seed=e) for e in range(EXPERTS)]
    w3 = [matrix(HIDDEN, SIZE, seed=20 + e) for e in range(EXPERTS)]
    types = (torch.bfloat16, torch.float32, torch.bfloat16, torch.float32)
    b12 = [matrix(2 * SIZE, seed=30 + e).to(types[e]) for e in range(EXPERTS)]
    b3 = [matrix(HIDDEN, seed=40 + e).to(types[e]) for e in range(EXPERTS)]

    def mixture(x, table, router, *lists):
        return moe.bias_fused_weights(x, table, router, *lists, True, 0, EXPERTS - 1)

    want = mixture(x, table, router, w12, w3, b12, b3)
    y = run(way, OP, mixture, x, table, router, w12, w3, b12, b3)
    assert_near([y], [want], 1e-5, 1e-5)


def test_biases_of_too_few_experts():
    x, table, router = routed()
    w12 = [matrix(2 * SIZE, HIDDEN, seed=e) for e in range(EXPERTS)]
    w3 = [matrix(HIDDEN, SIZE, seed=20 + e) for e in range(EXPERTS)]
    b12 = [matrix(2 * SIZE, seed=30 + e) for e in range(EXPERTS)]

    def mixture(x, table, router, *lists):
        return moe.bias_fused_weights(x, table, router, *lists, True, 0, EXPERTS - 1)

    given = on_device((x, table, router, w12, w3, b12, []))
    for function in (mixture, torch.compile(mixture, backend="hpu_backend")):
        with pytest.raises(Exception, match="index out of range"):
            function(*given)


@by_way
def test_no_tokens_give_no_results(way):
    _, given = weights(False)
    x, table, router = (v[:0] for v in routed())
    flat = [w for each in given for w in each]

    def call(x, table, router, *flat):
        lists = [list(flat[n * EXPERTS : (n + 1) * EXPERTS]) for n in range(3)]
        return moe(x, table, router, *lists, False, "silu", 0, EXPERTS - 1)

    assert run(way, OP, call, x, table, router, *flat).shape == (0, HIDDEN)


@pytest.mark.parametrize(
    ("lengths", "activation", "last", "text"),
    [
        ((4, 4, 4), "tanh", 3, "activation is 'tanh'; it is one of gelu, relu, silu"),
        ((4, 4, 4), "silu", 4, "weights of 4 experts for experts 0 to 4"),
        ((3, 4, 4), "silu", 3, "weights of 3 experts for experts 0 to 3"),
    ],
)
def test_a_wrong_call_is_refused_where_it_is_given_and_costs_nothing_else(
    lengths, activation, last, text
):
    """In lazy mode, too, where the call is recorded beside others."""
    _, given = weights(False)
    lists = [on_device(each[:n]) for each, n in zip(given, lengths, strict=True)]
    x, table, router = on_device(routed())

    def call():
        moe(x, table, router, *lists, False, activation, 0, last)

    with pytest.raises(RuntimeError, match=text):
        call()
    with lazy_mode():
        before = x + 1
        with pytest.raises(RuntimeError, match=text):
            call()
        assert torch.equal(before.cpu(), routed()[0] + 1)
