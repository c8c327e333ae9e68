"""torch.compile(backend="hpu_backend") on the emulated device against eager on the CPU.

Guide rows: MODE-11..15 (torch.compile), FALL-1, FALL-2 (eager segments), CACHE-1..5 (recipes).
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from exact_reference import ExactReference
from function_cases import PURE, WRITES, A, B
from helpers import check, compare, compare_form, compiled_whole, fresh_process, place_all

from habana_frameworks.torch.dynamo import report

# Cases with ops that no recipe holds; these run eagerly inside the program.
EAGER = {"float64"}


@pytest.mark.parametrize("case", PURE)
def test_pure_function(case):
    function, inputs = PURE[case]
    summary = check(function, *inputs)
    assert summary.count("eager") == 0, summary.eager_reasons
    if case in EAGER:
        assert summary.eager_segments > 0, "it is a recipe now: take it out of EAGER"
    else:
        compiled_whole(summary)


@pytest.mark.parametrize("case", WRITES)
def test_graph_that_writes(case):
    function, inputs = WRITES[case]
    summary = check(function, *inputs)
    assert summary.count("eager") == 0, summary.eager_reasons


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_in_every_type(dtype):
    x = (torch.randn(5, 7) * 4).to(dtype)
    check(lambda x: (x + x * 3 - 1).abs(), x)


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (17,), (3, 5, 7), (1, 2, 1, 3), (127, 129)])
def test_odd_shapes(shape):
    compiled_whole(check(lambda x: torch.softmax(x * 2 + 1, -1).sum(0), torch.randn(shape)))


def test_views_of_inputs_alias_them():
    def function(x):
        return x[1:], x.t(), x.view(-1)[::5]

    check(function, A)


def test_inputs_that_share_memory():
    base = torch.randn(40)
    x, y = base[:24].view(4, 6), base[10:34].view(4, 6)
    check(lambda x, y: x * y + x, x, y, share=True)


def test_written_input_that_shares_memory():
    base = torch.randn(40)

    def function(x, y):
        x.add_(1)
        return x * y

    x, y = base[:24].view(4, 6), base[10:34].view(4, 6)
    check(function, x, y, share=True, calls=1)


def test_same_tensor_twice():
    def function(x, y):
        y.mul_(2)
        return x + y

    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend")
    with torch.no_grad():
        cpu = A.clone()
        (hpu,) = place_all([A.clone()])
        compare(compiled(hpu, hpu), function(cpu, cpu), 1e-5, 1e-5)
        compare(hpu, cpu, 0, 0)


def test_offset_and_overlapping_strides():
    base = torch.randn(50)
    windows = base.unfold(0, 10, 5)
    compiled_whole(check(lambda x: x.sum(1), windows, share=True))
    compiled_whole(check(lambda x: x @ x.t(), base[5:41].view(6, 6), share=True))


def test_expanded_input():
    x = torch.randn(4, 1).expand(4, 6)
    compiled_whole(check(lambda x, y: x + y, x, A, share=True))


def test_scalar_on_cpu_mixes_with_device_tensors():
    compiled_whole(check(lambda x, s: x * s + 1, A, torch.tensor(2.5)))


def test_complex_numbers_run_eagerly_for_a_reason_of_one_sentence():
    x, rotation = torch.randn(2, 4), torch.polar(torch.ones(2), torch.randn(2))

    def rotate(x, rotation):
        return torch.view_as_real(torch.view_as_complex(x.view(2, 2, 2)) * rotation).flatten(1)

    reason = (
        "is complex, and recipes hold real numbers (rotary embeddings can be computed with cosine "
        "and sine; a call such as torch.fft can be kept out of the graph by torch.compiler.disable)"
    )
    (graph,) = check(rotate, x, rotation).graphs
    assert graph.reason == f"input l_rotation_ {reason}"
    fresh_process()
    spectrum = torch.compile(lambda x: torch.fft.rfft(x).abs(), backend="hpu_backend")
    spectrum(x.to("hpu").requires_grad_()).sum().backward()
    (graph,) = report().graphs
    assert graph.reason == f"the result of aten._fft_r2c.default {reason}"


def test_a_mode_of_inductor_is_accepted(caplog):
    fresh_process()
    function = torch.compile(lambda x: x + 2, backend="hpu_backend", mode="max-autotune")
    assert function(torch.ones(2, device="hpu")).tolist() == [3, 3]
    assert "mode='max-autotune' has no effect" in caplog.text
    compiled_whole(report())


def test_new_shape_compiles_a_new_program():
    fresh_process()
    compiled = torch.compile(lambda x: x.relu() + 1, backend="hpu_backend", dynamic=False)
    with torch.no_grad():
        for rows in (3, 8, 3):
            x = torch.randn(rows, 4)
            compare(compiled(x.to("hpu")), x.relu() + 1, 1e-6, 1e-6)
    keys = [graph.front_end_key for graph in report().graphs]
    assert len(set(keys)) == len(keys) == 2


def test_automatic_dynamic_shapes():
    fresh_process()
    compiled = torch.compile(lambda x: x.sum(0) / x.shape[0], backend="hpu_backend")
    with torch.no_grad():
        for rows in (3, 8, 11, 8, 2):
            x = torch.randn(rows, 4)
            compare(compiled(x.to("hpu")), x.sum(0) / rows, 1e-5, 1e-6)


def test_mark_dynamic():
    fresh_process()
    compiled = torch.compile(lambda x: x.view(x.shape[0] * 2, -1) * 2, backend="hpu_backend")
    with torch.no_grad():
        for rows in (4, 9):
            x = torch.randn(rows, 6)
            device = x.to("hpu")
            torch._dynamo.mark_dynamic(device, 0)
            compare(compiled(device), x.view(rows * 2, -1) * 2, 0, 0)


def test_graph_break():
    def function(x):
        y = x.relu()
        if y.sum() > 0:
            y = y / y.norm()
        return y + 1

    summary = check(function, A.abs())
    assert len(summary.graphs) == 2
    compiled_whole(summary)


def test_unsupported_op_runs_eagerly_between_recipes():
    """FALL-1, FALL-2."""

    def function(x, w):
        return (torch.lgamma(torch.relu(x @ w) + 0.5) * 2).sum(-1)

    summary = check(function, A, B, rtol=1e-4, atol=1e-4)
    (graph,) = summary.graphs
    assert graph.origin != "eager"
    assert graph.eager_nodes == 1
    assert "lgamma" in graph.eager_steps[0]


def test_eager_fallback_can_be_forbidden():
    fresh_process()
    compiled = torch.compile(
        torch.lgamma, backend="hpu_backend", options={"use_eager_fallback": False}
    )
    with torch.no_grad(), pytest.raises(Exception, match="lgamma"):
        compiled(A.to("hpu"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    """AUTO-3: casts of the device's autocast are part of the graph."""
    fresh_process()

    def function(x, w, kind):
        with torch.autocast(kind, dtype=dtype):
            return F.linear(x, w).relu()

    compiled = torch.compile(function, backend="hpu_backend")
    w = torch.randn(3, 6)
    with torch.no_grad():
        got, eager = compiled(A.to("hpu"), w.to("hpu"), "hpu"), function(A, w, "cpu")
        compare_form(got, eager)
        ExactReference(lambda x, w: function(x, w, "cpu"), A, w, coarsest=dtype).check(
            [got], [eager]
        )


def test_inference_mode_gives_inference_tensors():
    fresh_process()
    compiled = torch.compile(lambda x: x.exp(), backend="hpu_backend")
    with torch.inference_mode():
        got = compiled(A.to("hpu"))
    assert got.is_inference()
    compare(got, A.exp(), 1e-5, 1e-6)


def test_training_step_is_right():
    fresh_process()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    device_model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
    )
    device_model.load_state_dict(model.state_dict())
    device_model.to("hpu")
    compiled = torch.compile(device_model, backend="hpu_backend")
    for net, x in ((model, A), (compiled, A.to("hpu"))):
        net(x).square().mean().backward()
    for ours, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
        compare(ours.grad, theirs.grad, 1e-4, 1e-6)
    assert report().graphs[-1].recipes == 2


def test_version_counter_of_a_written_input():
    fresh_process()
    compiled = torch.compile(lambda x: x.add_(1).sum(), backend="hpu_backend")
    x = torch.zeros(4, device="hpu")
    before = x._version
    with torch.no_grad():
        compiled(x)
    assert x._version > before


def test_weights_are_inputs():
    """A write to a weight takes effect, and compiles nothing."""
    fresh_process()
    layer = torch.nn.Linear(6, 3).to("hpu")
    compiled = torch.compile(layer, backend="hpu_backend")
    with torch.no_grad():
        compiled(A.to("hpu"))
        layer.weight.zero_()
        compare(compiled(A.to("hpu")), layer.bias.cpu().expand(4, 3).contiguous(), 1e-6, 1e-6)
        layer.weight.data.fill_(1.0)
        compare(compiled(A.to("hpu")), A.sum(1, keepdim=True) + layer.bias.cpu(), 1e-5, 1e-5)
    assert len(report().graphs) == 1


def test_rewrapping_compiles_nothing():
    """MODE-15: train() wraps the same module once per epoch."""
    layer = torch.nn.Linear(6, 3).to("hpu")
    origins = []
    for _ in range(3):
        fresh_process()
        with torch.no_grad():
            torch.compile(layer, backend="hpu_backend")(A.to("hpu"))
        origins.append(report().graphs[-1].origin)
    assert origins[1:] == ["memory", "memory"]


def test_compile_count_is_flat():
    """CACHE-3, CACHE-4."""
    fresh_process()
    compiled = torch.compile(lambda x: x.tanh() @ x.t(), backend="hpu_backend")
    with torch.no_grad():
        for _ in range(5):
            compiled(torch.randn(4, 6, device="hpu"))
    assert len(report().graphs) == 1


def test_streams_order_programs():
    fresh_process()
    compiled = torch.compile(lambda x: x * 2 + 1, backend="hpu_backend")
    side = torch.hpu.Stream()
    with torch.no_grad():
        x = torch.ones(1000, 1000, device="hpu")
        y = compiled(x)
        side.wait_stream(torch.hpu.current_stream())
        with torch.hpu.stream(side):
            z = compiled(y)
        torch.hpu.current_stream().wait_stream(side)
        assert float((z + 0).sum()) == 7_000_000


def test_threads_share_a_program():
    import threading

    fresh_process()
    compiled = torch.compile(lambda x: (x @ x.t()).softmax(-1), backend="hpu_backend")
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            x = torch.randn(8, 6, generator=torch.Generator().manual_seed(seed))
            with torch.no_grad():
                for _ in range(10):
                    compare(compiled(x.to("hpu")), (x @ x.t()).softmax(-1), 1e-5, 1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("queries", [2, 48])
def test_keys_that_are_almost_hidden_have_no_denormal_weight(queries):
    """exp(-100) is a denormal, which would become visible when multiplied by 1e38; exp(-80) is
    not."""
    query, key = torch.zeros(1, 1, queries, 16), torch.zeros(1, 1, 40, 16)
    value = torch.ones(1, 1, 40, 16)
    value[:, :, 7], value[:, :, 9] = 1e38, 1e36
    mask = torch.zeros(1, 1, queries, 40)
    mask[..., 7], mask[..., 9] = -100.0, -80.0
    attention = torch.nn.functional.scaled_dot_product_attention
    compiled = torch.compile(lambda *given: attention(*given), backend="hpu_backend")
    got = compiled(*(given.to("hpu") for given in (query, key, value, mask))).cpu()
    want = 1 + 1e36 * math.exp(-80) / 38
    torch.testing.assert_close(got, torch.full_like(got, want), rtol=1e-6, atol=0)


@pytest.mark.parametrize("columns", [1, 3, 16, 40, 64])
def test_results_of_bf16_products_are_rounded_to_nearest_even(columns):
    """Ties, overflow, infinities and NaN, whichever instruction the CPU narrows with."""
    largest = torch.finfo(torch.bfloat16).max
    rows = [
        (1, 2**-8), (1, 3 * 2**-8), (-1, -(2**-8)), (1, 2**-8 + 2**-15), (largest, largest),
        (float("inf"), 1), (-float("inf"), 1), (float("nan"), 1), (1, -1),
    ]  # fmt: skip
    x = torch.tensor(rows).to(torch.bfloat16)
    weight = torch.ones(columns, 2, dtype=torch.bfloat16)
    expected = x.float().sum(1).to(torch.bfloat16)[:, None].expand(-1, columns)
    compiled = torch.compile(torch.nn.functional.linear, backend="hpu_backend")
    with torch.inference_mode():
        got = compiled(x.to("hpu"), weight.to("hpu")).cpu()
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
