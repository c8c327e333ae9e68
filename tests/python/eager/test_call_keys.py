"""Eager calls have front-end keys, by which another process finds their programs
(docs/cache_key.md, docs/eager.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from eager_case import place_on_cpu
from processes import output_of
from torch import Tensor

from habana_frameworks.torch.dynamo.programs.service import FrontEndKey, NoProgram, service
from habana_frameworks.torch.eager import calls, stored

PROGRAM = """
import sys
import torch, habana_frameworks.torch as ht

torch.manual_seed(3)
x = torch.arange(12.0).reshape(3, 4).to("hpu")
y = x * 2 + 1
y.mul_(0.5)
print(y.tolist())
print(torch.softmax(x, 1).sum(0).tolist())
print(torch.cat([x, y], 1).argmax(1).tolist(), (x > 3).tolist())
print(torch.nn.functional.dropout(x + 1, 0.5).tolist(), torch.rand(3, device="hpu").tolist())
out = torch.empty(3, 4, device="hpu")
torch.add(x, y, alpha=2, out=out)
torch._foreach_add_([out, y], 1.0)
print(out.tolist(), y.tolist(), torch.nn.functional.gelu(x.t()).tolist())
print("torch._dynamo" in sys.modules)
"""


def test_the_next_process_captures_no_call_and_imports_no_dynamo():
    how = {"PT_HPU_PLACE_ON_CPU": "none", "PT_HPU_LAZY_MODE": "0", "fresh": True}
    first = output_of(PROGRAM, **how).stdout.splitlines()
    again = output_of(PROGRAM, **how).stdout.splitlines()
    assert again[:-1] == first[:-1]
    assert (first[-1], again[-1]) == ("True", "False")


@contextmanager
def _captures() -> Iterator[list[str]]:
    """The operators that are captured in the block, in which no call runs on the host."""
    captured: list[str] = []
    capture = calls._try_capture

    def noted(op: Any, *call: Any) -> Any:
        captured.append(str(op))
        return capture(op, *call)

    calls._try_capture = noted
    try:
        with place_on_cpu("none"):
            yield captured
    finally:
        calls._try_capture = capture


def _in_new_process(function: Callable[..., Any], *inputs: Any) -> tuple[Any, list[str]]:
    """What the function gives as in a process that knows no program yet, and what it captures."""
    service.forget_programs()
    with _captures() as captured:
        result = function(*inputs)
    return result, captured


def x() -> Tensor:
    return torch.arange(15.0).reshape(3, 5).to("hpu")


def _convolution_gradient() -> Any:
    image, weight = torch.ones(1, 2, 4, 4).to("hpu"), torch.ones(3, 2, 3, 3).to("hpu")
    gradient = torch.ones(1, 3, 2, 2).to("hpu")
    return torch.ops.aten.convolution_backward(
        gradient,
        image,
        weight,
        None,
        (1, 1),
        (0, 0),
        (1, 1),
        False,
        (0, 0),
        1,
        (False, True, False),
    )


def _into_another_size() -> Tensor:
    out = torch.empty(1, device="hpu")
    with pytest.warns(UserWarning, match="resized"):
        return torch.sub(x(), 1, out=out)


SIGNATURES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a number": (lambda: x() * 2.5, lambda: x() * 3.5),
    "an integer": (lambda: x().roll(1), lambda: x().roll(2)),
    "strides": (lambda: x() - 1, lambda: x().t() - 1),
    "sizes": (lambda: x() - 2, lambda: x()[:2] - 2),
    "an out tensor": (_into_another_size, lambda: torch.sub(x(), 1, out=torch.empty_like(x()))),
    "a type": (lambda: x().abs(), lambda: x().to(torch.bfloat16).abs()),
    "one tensor twice": (lambda: torch.maximum(x(), x()), lambda: torch.maximum(*[x()] * 2)),
    "an overload": (lambda: x().std(1), lambda: x().std(1, correction=0)),
    "a text": (
        lambda: torch.nn.functional.gelu(x()),
        lambda: torch.nn.functional.gelu(x(), approximate="tanh"),
    ),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_calls_of_other_signatures_have_other_keys(name):
    first, second = SIGNATURES[name]
    wanted = first(), second()
    for function, result in zip((first, second), wanted, strict=True):
        # A first run stores what it captures.
        _in_new_process(function)
        found, captured = _in_new_process(function)
        assert captured == []
        torch.testing.assert_close(found.cpu(), result.cpu())


def test_the_default_type_and_deterministic_mode_are_part_of_the_key():
    def divide() -> Tensor:
        return torch.tensor([1, 2, 4], dtype=torch.int32).to("hpu") / 3

    single, _ = _in_new_process(divide)
    torch.set_default_dtype(torch.bfloat16)
    try:
        narrow, _ = _in_new_process(divide)
        again, captured = _in_new_process(divide)
    finally:
        torch.set_default_dtype(torch.float32)
    assert (single.dtype, narrow.dtype, again.dtype, captured) == (
        torch.float32,
        torch.bfloat16,
        torch.bfloat16,
        [],
    )


def test_results_that_a_mask_does_not_ask_for_are_none():
    _in_new_process(_convolution_gradient)
    gradients, captured = _in_new_process(_convolution_gradient)
    assert captured == []
    assert [gradient is None for gradient in gradients] == [True, False, True]
    assert gradients[1].tolist() == torch.full((3, 2, 3, 3), 4.0).tolist()


def test_results_that_the_program_alone_does_not_tell_are_captured_in_every_process():
    def empty() -> Any:
        return torch.ops.aten.native_layer_norm(x()[:0], [5], None, None, 1e-5)

    _in_new_process(empty)
    results, captured = _in_new_process(empty)
    assert captured == ["aten.native_layer_norm.default"]
    assert [tuple(result.shape) for result in results] == [(0, 5), (0, 1), (0, 1)]


def test_a_stored_program_that_takes_other_tensors_is_compiled_anew(monkeypatch, caplog):
    key = FrontEndKey(b"\x17" * 32, [("test", "one key for all")], "a test")
    monkeypatch.setattr(stored, "call_key", lambda *_: key)
    _in_new_process(lambda: x() + 7)
    with caplog.at_level("WARNING"):
        result, captured = _in_new_process(lambda: torch.ones(2, 2).to("hpu") + 7)
    assert captured == ["aten.add.Tensor"]
    assert result.tolist() == [[8.0, 8.0], [8.0, 8.0]]
    assert "the stored program takes other tensors" in caplog.text


def test_wrong_arguments_are_found_without_a_server(monkeypatch):
    def no_server() -> Any:
        raise NoProgram("no compile server: this test says so", lasting=False)

    monkeypatch.setattr(service, "connect", no_server)
    with pytest.raises(RuntimeError, match="dimension of length 4"):
        _in_new_process(lambda: x() + torch.ones(4).to("hpu"))


def test_a_call_that_no_recipe_holds_is_refused_again_without_a_capture():
    def refused() -> str:
        with pytest.raises(RuntimeError) as error:
            torch.lgamma(x())
        return str(error.value)

    first, captured = _in_new_process(refused)
    again, captured_again = _in_new_process(refused)
    assert "aten.lgamma.default" in captured
    assert captured_again == []
    assert again == first
