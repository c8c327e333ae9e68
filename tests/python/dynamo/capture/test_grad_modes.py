"""Grad mode that changes inside a graph, and modes of its caller: a tensor has a gradient exactly
where it has one eagerly. Every case runs eagerly on the CPU and compiled on hpu.

Guide row: MODE-3 (eager mode).
"""

from __future__ import annotations

import contextlib

import pytest
import torch
from training_case import compiled, matrix

from habana_frameworks.torch.dynamo import report


def enabled(x):
    with torch.enable_grad():
        return x * 3


@torch.enable_grad()
def decorated(x):
    return x.sin() * 2


def half(x):
    before = x * 3
    with torch.enable_grad():
        inside = x.cos()
    return before, inside, before * inside


def only_views(x):
    with torch.set_grad_enabled(True):
        flat = x.view(-1)
    return flat, x.t()


def nested(x):
    with torch.enable_grad():
        y = x * 2
        with torch.no_grad():
            scale = y * 3
        z = y * scale
    return z, scale, z + 1


def switched_by_argument(x):
    with torch.set_grad_enabled(x.shape[0] == 4):
        return x.exp()


def with_a_break(x):
    with torch.enable_grad():
        y = x * x
        torch._dynamo.graph_break()
        return y.sin()


def differentiated(x):
    with torch.enable_grad():
        loss = (x * x * x).sum()
        (gradient,) = torch.autograd.grad(loss, x)
    return gradient


def guidance(x):
    """A gradient inside a loop without gradients, as in samplers of diffusion models."""
    y = x * 0.5
    with torch.enable_grad():
        z = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(z.square().sum(), z)
    return y - gradient


def enabled_without_input(x):
    with torch.enable_grad():
        return x.detach() * 2


def a_view_and_a_product(x):
    with torch.enable_grad():
        return x.t(), x * 2, x.detach()


def in_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
    return y + 0, x * 3


def left_on(x):
    torch.set_grad_enabled(True)
    return x * 2


def left_off(x):
    y = x * 2
    torch.set_grad_enabled(False)
    return y, x * 3


def leaves_inference(x):
    with torch.inference_mode(False):
        return x * 5


FUNCTIONS = [
    enabled,
    decorated,
    half,
    only_views,
    nested,
    switched_by_argument,
    with_a_break,
    differentiated,
    guidance,
    enabled_without_input,
    a_view_and_a_product,
    in_inference_mode,
    left_on,
    left_off,
    leaves_inference,
]
# Functions that run eagerly, by the caller's mode.
EAGER = {
    (left_on, torch.no_grad): "leaves another grad mode behind",
    (left_off, torch.enable_grad): "leaves another grad mode behind",
    (leaves_inference, torch.no_grad): "leaves inference mode",
    (leaves_inference, torch.enable_grad): "leaves inference mode",
}


def seen(function, mode, device: str):
    x = matrix().to(device).clone().requires_grad_()
    before = torch.is_grad_enabled()
    try:
        with mode():
            outputs = function(x)
            after = torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(before)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    flags = [(o.requires_grad, o._is_view(), o is x) for o in outputs]
    wanted = [o for o in outputs if o.requires_grad and o.grad_fn is not None]
    if wanted and not x.is_inference():
        sum((o * o).sum() for o in wanted).backward()
    values = [o.detach().cpu() for o in outputs]
    return (flags, after), values, None if x.grad is None else x.grad.cpu()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_has_a_gradient_is_what_has_one_eagerly(function, mode):
    expected = seen(function, mode, "cpu")
    found = seen(compiled(function), mode, "hpu")
    assert found[0] == expected[0]
    torch.testing.assert_close(found[1:], expected[1:], rtol=1e-5, atol=1e-5)
    reason = EAGER.get((function, mode))
    assert [reason in given for given in report().eager_reasons] == [True] * (reason is not None)


@pytest.mark.parametrize("function", [enabled, half, nested, leaves_inference])
def test_in_inference_mode(function):
    """In inference mode nothing is recorded for gradients, whatever a graph switches on, except
    where the graph leaves the mode."""

    def run(function, device):
        x = matrix().to(device).clone().requires_grad_()
        with torch.inference_mode():
            outputs = function(x)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return [(o.requires_grad, o.is_inference(), o.detach().cpu()) for o in outputs]

    torch.testing.assert_close(run(compiled(function), "hpu"), run(function, "cpu"))


@pytest.mark.parametrize("modes", [[0, 1, 2, 0], [2, 0, 1, 2], [1, 0, 2, 1]])
def test_modes_of_the_caller_in_any_order(modes):
    """One program serves calls without gradients and in inference mode: its graph switches them on
    itself."""
    contexts = [torch.no_grad, torch.inference_mode, contextlib.nullcontext]
    run = compiled(half)
    for mode in modes:
        for device, function in (("cpu", half), ("hpu", run)):
            x = matrix().to(device).clone().requires_grad_()
            with contexts[mode]():
                before, inside, both = function(x)
            flags = (before.requires_grad, inside.requires_grad, both.requires_grad)
            assert flags == [(False, True, False), (False,) * 3, (True,) * 3][mode]
            assert inside.is_inference() == (mode == 1)
            if mode != 1:
                inside.sum().backward()
                torch.testing.assert_close(x.grad.cpu(), -matrix().sin())


def test_sizes_that_change_without_gradients():
    """Later sizes are captured where they are called, in whatever mode that is."""
    run = compiled(enabled)
    for rows, mode in ((2, torch.no_grad), (3, torch.no_grad), (5, torch.inference_mode)):
        x = matrix(rows, 4).to("hpu").requires_grad_()
        with mode():
            y = run(x)
        assert y.requires_grad == (mode is torch.no_grad)
        torch.testing.assert_close(y.detach().cpu(), 3 * matrix(rows, 4))
    x = matrix(5, 4).to("hpu").requires_grad_()
    with torch.no_grad():
        y = run(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), torch.full((5, 4), 3.0))
