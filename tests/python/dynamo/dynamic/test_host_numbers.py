"""Python floats that change between calls: numbers that the host computes, and inputs of the
device."""

from __future__ import annotations

import math

import pytest
import torch

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.dynamic.host_numbers import split_numbers
from habana_frameworks.torch.dynamo.records import records

VALUES = (1.0, 2.5, 0.3, -4.0, 1e-30, 3.0)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    records.reset()
    yield
    torch._dynamo.reset()
    records.reset()


def check(function, x, values=VALUES, tolerance=1e-6):
    """Every value must be right; returns the number of programs after the first two calls."""
    compiled = torch.compile(function, backend="hpu_backend")
    counts = []
    with torch.no_grad():
        for value in values:
            got, want = compiled(x.to("hpu"), value), function(x, value)
            if isinstance(want, tuple):
                assert [isinstance(v, float) for v in got] == [isinstance(v, float) for v in want]
            else:
                got, want = (got,), (want,)
            for ours, theirs in zip(got, want, strict=True):
                if isinstance(theirs, float):
                    assert ours == theirs
                else:
                    assert ours.dtype is theirs.dtype
                    torch.testing.assert_close(
                        ours.cpu(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True
                    )
            counts.append(len(report().graphs))
    assert report().eager_segments == 0, report().eager_reasons
    return counts[-1] - counts[1]


X = torch.linspace(-2, 3, 24).reshape(4, 6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x * s,
        lambda x, s: s - x,
        lambda x, s: s / (x + 9),
        lambda x, s: torch.add(x, s).relu(),
        lambda x, s: x.mul(s).sub(s * 2),
        lambda x, s: (x > s, x.le(s), x == s),
        lambda x, s: x * (2 * s + 1) + s * s,
        lambda x, s: (x * s).sum() * s,
        lambda x, s: x.to(torch.int32) * s,
        lambda x, s: (x * s, s * 3.0),
        lambda x, s: torch.stack([x * s, x / (s + 5)]),
    ],
    ids=lambda function: "",
)
def test_one_program_for_all_values(function):
    assert check(function, X) == 0


def test_numbers_are_computed_in_double():
    """1 - 0.999**t, as optimizers have it; in f32 the difference has three digits."""

    def corrected(x, t):
        return x / (1.0 - 0.999999**t)

    assert check(corrected, X, (1.0, 2.0, 3.0, 7.0), tolerance=1e-6) == 0


def test_a_narrow_tensor_times_a_number_is_rounded_once():
    x = torch.linspace(0.5, 3, 64, dtype=torch.bfloat16)
    assert check(lambda x, s: x * s, x, (1.0, 1.00390625, 0.3, 0.7), tolerance=0) == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32, torch.bfloat16])
def test_whole_numbers_and_truth_values_promote_as_numbers(dtype):
    x = torch.arange(-4, 8).to(dtype)
    assert check(lambda x, s: (x + int(s), x * int(s > 1)), x, (1.0, 2.0, 3.0, 4.0)) <= 4


def test_a_narrow_number_is_rounded_before_it_is_compared():
    x = torch.tensor(0.1, dtype=torch.bfloat16)
    check(lambda x, s: (x == s, x < s), x, (0.3, 0.2, 0.1, 0.1001))


def test_both_zeros_are_values():
    def signs(x, s):
        return 1 / x.masked_fill(x > 1, s)

    check(signs, X, (1.0, 2.0, 0.0, -0.0, math.nan, math.nan))


def test_a_number_made_of_a_size():
    function = torch.compile(
        lambda x, s: x * (s / (x.shape[0] * 2)), backend="hpu_backend", dynamic=True
    )
    with torch.no_grad():
        for rows, value in ((3, 1.0), (4, 2.0), (5, 3.0)):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(function(x.to("hpu"), value).cpu(), x * (value / rows / 2))
    assert report().eager_segments == 0, report().eager_reasons


def test_a_returned_number_that_a_tensor_op_takes():
    check(lambda x, s: (x * 2, torch.scalar_tensor(s, device=x.device) + x), X, (1.0, 2.0, 3.0))


def test_a_root_in_python():
    assert check(lambda x, s: x / math.sqrt(s), X, (1.0, 2.0, 4.0, 9.0)) <= 2


def test_a_number_that_is_an_argument_has_a_program_per_value():
    def filled(x, s):
        return x.masked_fill(x > 1, s)

    assert check(filled, X, (1.0, 2.0, 3.0, 2.0, 3.0)) == 1


def test_sizes_and_numbers_change_together():
    function = torch.compile(lambda x, s: (x * s).sum(0), backend="hpu_backend")
    with torch.no_grad():
        for rows, value in ((3, 1.0), (4, 2.0), (5, 3.0), (4, 4.0)):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(function(x.to("hpu"), value).cpu(), (x * value).sum(0))
    assert report().eager_segments == 0


def test_gradients_of_a_product_with_a_number():
    function = torch.compile(lambda x, w, s: ((x @ w) * s).sum(), backend="hpu_backend")
    w = torch.randn(6, 5)
    on_device = w.to("hpu").requires_grad_()
    for value in (1.0, 2.0, -0.5, 4.0):
        on_device.grad = None
        function(X.to("hpu"), on_device, value).backward()
        leaf = w.clone().requires_grad_()
        ((X @ leaf) * value).sum().backward()
        torch.testing.assert_close(on_device.grad.cpu(), leaf.grad)
    assert report().eager_segments == 0
    assert len(report().graphs) == 2


def test_a_tensor_on_the_cpu_that_the_backward_needs():
    function = torch.compile(lambda x, w, s: ((x @ w) * s).sum(), backend="hpu_backend")
    w = torch.randn(6, 5, device="hpu", requires_grad=True)
    function(X.to("hpu"), w, torch.tensor(3.0)).backward()
    torch.testing.assert_close(w.grad.cpu(), (X.sum(0) * 3).reshape(6, 1).expand(6, 5))
    assert report().eager_segments == 0


def test_what_the_host_computes_stands_apart():
    seen = []

    def backend(module, inputs):
        seen.append(split_numbers(module))
        return module.forward

    function = torch.compile(lambda x, s: (x * (s * 2) + s, s + 1), backend=backend)
    for value in (1.0, 2.0):
        function(X, value)
    assert seen[0] is None, "the first value is a constant"
    parts = seen[1]
    assert parts.dtypes == [torch.float32, torch.float32]
    assert parts.on_device == [True, False]
    calls = [n for n in parts.module.graph.nodes if n.op in ("call_function", "call_method")]
    assert [n.target.__name__ for n in calls] == ["mul", "add"]
    assert not [n for n in parts.module.graph.nodes if n.target == "item"]
