"""Wrong arguments raise what the CPU raises where they are given, in recipes and in lazy mode, and
also where PyTorch's shape functions accept them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu
from lazy_case import lazy_mode
from torch._dynamo.exc import TorchRuntimeError

X = torch.arange(12.0).reshape(3, 4)
I = torch.tensor([0])  # noqa: E741  as in the guide's formulas
TWO = torch.tensor([[0, 1], [1, 0]])
ONES = torch.ones(3, 9)

CALLS: dict[str, Callable[..., object]] = {
    "index_add of another width": lambda x, i, two, ones: x.index_add(0, i, ones[:1]),
    "index_add of a source to spread": lambda x, i, two, ones: x.index_add(0, two[0], ones[:1, :4]),
    "index_add of a narrow source": lambda x, i, two, ones: x.index_add(0, i, ones[:1, :1]),
    "index_add at a matrix": lambda x, i, two, ones: x.index_add(0, two, ones[:2, :4]),
    "index_add_": lambda x, i, two, ones: x.clone().index_add_(0, i, ones[:1]),
    "index_put": lambda x, i, two, ones: x.index_put((i,), ones[:1]),
    "index_put_": lambda x, i, two, ones: x.clone().index_put_((two, two), ones),
    "index_fill at floats": lambda x, i, two, ones: x.index_fill(0, i.float(), 1.0),
    "index_fill at a matrix": lambda x, i, two, ones: x.index_fill(0, two, 1.0),
    "index_select": lambda x, i, two, ones: x.index_select(0, two),
    "bucketize": lambda x, i, two, ones: torch.bucketize(x, x),
    "max of nothing": lambda x, i, two, ones: x[:0].max(),
    "min of nothing": lambda x, i, two, ones: x[:0].min(),
    "max of nothing along a dimension": lambda x, i, two, ones: x[:0].max(0),
    "amax of nothing": lambda x, i, two, ones: x[:0].amax(),
    "amin of nothing along a dimension": lambda x, i, two, ones: x[:0].amin([1, 0]),
    "argmax of nothing": lambda x, i, two, ones: x[:0].argmax(),
    "argmin of nothing along a dimension": lambda x, i, two, ones: x[:0].argmin(0),
    "weights of other classes": lambda x, i, two, ones: F.cross_entropy(
        x, i.expand(3), weight=ones[0]
    ),
    "grid of another batch": lambda x, i, two, ones: F.grid_sample(
        x[None, None], x.new_zeros(2, 2, 2, 2), align_corners=False
    ),
    "grid of other coordinates": lambda x, i, two, ones: F.grid_sample(
        x[None, None], x.new_zeros(1, 2, 2, 3), align_corners=False
    ),
    "grid over nothing": lambda x, i, two, ones: F.grid_sample(
        x[None, None, :0], x.new_zeros(1, 2, 2, 2), align_corners=False
    ),
    "difference of masks": lambda x, i, two, ones: (x > 1) - (x > 2),
    "difference of a mask": lambda x, i, two, ones: (x > 1) - 2,
    "difference from a mask": lambda x, i, two, ones: 3 - (x > 1),
    "difference of a mask from a tensor": lambda x, i, two, ones: x - (x > 1),
    "difference in place": lambda x, i, two, ones: x.clone().sub_(x > 1),
    "softmax of integers": lambda x, i, two, ones: two.softmax(0),
    "softmax of integers along the last dimension": lambda x, i, two, ones: two.softmax(-1),
    "log softmax of integers": lambda x, i, two, ones: two.log_softmax(0),
    "log softmax of masks along the last dimension": lambda x, i, two, ones: (x > 1).log_softmax(1),
    "targets of 32 bits": lambda x, i, two, ones: F.nll_loss(x, i.expand(3).int()),
    "targets of images in 32 bits": lambda x, i, two, ones: F.nll_loss(
        x.new_zeros(1, 2, 2, 2), two[None].int()
    ),
    "a mask of another size": lambda x, i, two, ones: x[ones[:, 0] > 3, :][ones[0] > 3],
    "a mask of another width": lambda x, i, two, ones: x[:, ones[0] > 0],
    "values at a mask of another size": lambda x, i, two, ones: x.clone().index_put_(
        (ones[0] > 0,), ones[:, 0]
    ),
    "a value at a mask of another size": lambda x, i, two, ones: x.clone().index_put_(
        (ones[0] > 0,), ones[0, 0]
    ),
    "and of floats": lambda x, i, two, ones: x & 1,
    "xor of floats": lambda x, i, two, ones: x ^ x,
}


@pytest.mark.parametrize("mode", ["none", "lazy"])
@pytest.mark.parametrize("name", CALLS)
def test_raises_what_the_cpu_raises(name: str, mode: str) -> None:
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        CALLS[name](X, I, TWO, ONES)
    arguments = [t.to("hpu") for t in (X, I, TWO, ONES)]
    block: AbstractContextManager[None] = lazy_mode() if mode == "lazy" else place_on_cpu("none")
    with block, pytest.raises(wanted.type) as found:
        CALLS[name](*arguments)
    # Without a kernel on the host, calls of types that have none say that.
    if wanted.type is not NotImplementedError or mode == "lazy":
        assert _first_words(found.value) == _first_words(wanted.value)


@pytest.mark.parametrize("name", CALLS)
def test_a_compiled_function_raises_what_the_cpu_raises(name: str) -> None:
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        CALLS[name](X, I, TWO, ONES)
    compiled = torch.compile(CALLS[name], backend="hpu_backend", dynamic=False)
    with pytest.raises((RuntimeError, IndexError)) as found:
        compiled(*[t.to("hpu") for t in (X, I, TWO, ONES)])
    # Dynamo reports an error of a shape function as a RuntimeError of its own.
    assert found.type in (wanted.type, TorchRuntimeError)


def _first_words(error: BaseException) -> str:
    """The shape functions write sizes in another way, at the end."""
    return str(error).partition("\n")[0][:60]


def test_right_arguments_pass() -> None:
    x, i, two, ones = (t.to("hpu") for t in (X, I, TWO, ONES))
    with place_on_cpu("none"):
        assert x.index_add(0, i[0], ones[:1, :4])[0].tolist() == [1, 2, 3, 4]
        assert x.index_put((two, two), ones[0, 0])[0].tolist() == [1, 1, 2, 3]
        x[:, i] = ones[:1, :1]
        assert x[:, 0].tolist() == [1, 1, 1]
        assert x.index_put((two,), ones[0, :4])[:2].tolist() == [[1] * 4] * 2
        assert x.index_fill(0, i[0], 7.0)[0].tolist() == [7] * 4
        assert x.max().item() == 11
