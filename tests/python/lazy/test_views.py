"""lazy/views.py: a view that is known by its place in memory, made again by slices and splits."""

from __future__ import annotations

import random

import pytest
import torch

from habana_frameworks.torch.lazy.views import (
    Form,
    form_of,
    is_dense,
    pieces_of,
    row_major,
    view_of,
    with_memory_of,
)


class _NoStrided(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func is not torch.Tensor.as_strided, "as_strided"
        return func(*args, **(kwargs or {}))


def _base(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes)


VIEWS = {
    "itself": lambda t: t,
    "transpose": lambda t: t.transpose(0, 2),
    "heads": lambda t: t.view(4, 6, 2, 4).transpose(1, 2),
    "row": lambda t: t[2],
    "rows": lambda t: t[1:3],
    "column": lambda t: t[:, 3],
    "element": lambda t: t[1, 2, 3],
    "every other": lambda t: t[::2],
    "every third from one": lambda t: t[:, 1::3],
    "last dimension": lambda t: t[..., 5:6],
    "flat": lambda t: t.reshape(-1),
    "one more dimension": lambda t: t.unsqueeze(1).unsqueeze(-1),
    "expanded": lambda t: t[:, :1].expand(4, 6, 8),
    "expanded scalar": lambda t: t[0, 0, 1].expand(3, 2),
    "block of a block": lambda t: t[1:, 2:5, 4:].permute(2, 0, 1)[1:3],
    "diagonal": lambda t: t[:, :, 0].diagonal(1),
    "whole diagonal": lambda t: t.diagonal(-2, 1, 2),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_views(name: str, order: tuple[int, ...]) -> None:
    """The base lies in memory in several orders of its dimensions."""
    inverse = [order.index(d) for d in range(3)]
    base = _base(*(torch.Size((4, 6, 8))[d] for d in order)).permute(inverse)
    assert base.shape == (4, 6, 8) and is_dense(form_of(base))
    if name in ("heads", "flat") and order != (0, 1, 2):
        return  # no view of such a base
    wanted = VIEWS[name](base)
    strided = name == "diagonal"  # of a slice, which is no diagonal of the base
    if strided:
        got = view_of(base, form_of(wanted))
    else:
        with _NoStrided():
            got = view_of(base, form_of(wanted))
    assert torch.equal(got, wanted)
    assert got.data_ptr() == wanted.data_ptr()
    got.zero_()
    assert not wanted.any()


def test_random_views() -> None:
    """Results of slices, splits and permutations are found again without as_strided."""
    for seed in range(300):
        draw = random.Random(seed)
        view = base = _base(4, 6, 8)
        for _ in range(draw.randint(1, 4)):
            dim = draw.randrange(view.dim())
            kind = draw.choice(["slice", "permute", "select", "unsqueeze"])
            if kind == "slice":
                start = draw.randrange(view.shape[dim])
                view = view.narrow(dim, start, draw.randint(1, view.shape[dim] - start))
            elif kind == "permute":
                view = view.permute(draw.sample(range(view.dim()), view.dim()))
            elif kind == "select" and view.dim() > 1:
                view = view.select(dim, draw.randrange(view.shape[dim]))
            else:
                view = view.unsqueeze(dim)
        with _NoStrided():
            got = view_of(base, form_of(view))
        assert torch.equal(got, view), seed


def test_views_of_tensors_in_flat_memory() -> None:
    """Gradients of DistributedDataParallel lie so; the sizes do not divide the memory's."""
    base = _base(421)
    for tensor in (base[288:416].view(4, 32), base[1:417].view(32, 13), base[293:].view(4, 32)):
        views = (tensor, tensor.t(), tensor[:, 5:9], tensor[1:3, 4:], tensor[3, -1], tensor[-1:])
        for view in views:
            with _NoStrided():
                got = view_of(base, form_of(view))
            assert torch.equal(got, view) and got.data_ptr() == view.data_ptr()


def test_windows_overlap_and_need_as_strided() -> None:
    base = _base(10)
    assert torch.equal(view_of(base, form_of(base.unfold(0, 4, 2))), base.unfold(0, 4, 2))


def test_another_type() -> None:
    base = _base(4, 6)
    assert torch.equal(view_of(base, form_of(base.view(torch.int32))), base.view(torch.int32))


def test_dense() -> None:
    assert is_dense(Form(torch.float32, (2, 1, 3), (3, 77, 1), 0))
    assert not is_dense(Form(torch.float32, (2, 3), (4, 1), 0))
    assert not is_dense(Form(torch.float32, (2, 3), (0, 1), 0))


def test_row_major() -> None:
    form = Form(torch.float32, (2, 3, 4), (1, 8, 2), 0)
    assert row_major(form) == Form(torch.float32, (3, 4, 2), (8, 2, 1), 0)
    assert row_major(Form(torch.float32, (), (), 0)) == Form(torch.float32, (), (), 0)


def _form(sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype=torch.float32):
    return Form(dtype, sizes, strides, offset)


def test_pieces_that_do_not_overlap() -> None:
    first, second = _form((5, 2), (2, 1), 4), _form((3,), (2,), 100)
    other_type = _form((4,), (1,), 15, torch.float64)
    assert pieces_of([second, first]) == [first, second]
    assert pieces_of([second, other_type, first]) == [first, other_type, second]
    assert pieces_of([first, first._replace(offset=14)]) == [first, first._replace(offset=14)]


def test_pieces_that_overlap() -> None:
    matrix = _form((4, 6), (6, 1), 12)
    column, transposed = _form((4,), (6,), 14), _form((6, 4), (1, 6), 12)
    assert pieces_of([column, matrix]) == [matrix]
    assert pieces_of([transposed, column]) == [matrix]
    left, right = _form((10,), (1,), 0), _form((10,), (1,), 5)
    assert pieces_of([left, right, column._replace(offset=20)]) == [
        _form((15,), (1,), 0),
        column._replace(offset=20),
    ]


def test_no_pieces() -> None:
    """Columns have no dense piece of their own, and elements of two types have no row in common."""
    column = _form((4,), (6,), 2)
    assert pieces_of([column, column._replace(offset=3)]) == []
    assert pieces_of([_form((4,), (1,), 0), _form((1,), (1,), 1, torch.float64)]) == []
    assert pieces_of([_form((0, 3), (3, 1), 0)]) == []


def test_memory_of_another_order() -> None:
    value = _base(2, 3, 4)
    other = with_memory_of(value, (2, 3, 4), (1, 8, 2))
    assert other.stride() == (1, 8, 2) and torch.equal(other, value)
    assert with_memory_of(value, (2, 3, 4), (12, 4, 1)) is value


def test_another_type_of_an_odd_number_of_bytes() -> None:
    base = torch.arange(7, dtype=torch.uint8)
    for wanted in (base[:4].view(torch.int32), base[4:6].view(torch.int16)):
        assert torch.equal(view_of(base, form_of(wanted)), wanted)


def test_a_smaller_type() -> None:
    base = torch.arange(6, dtype=torch.int16)
    assert torch.equal(view_of(base, form_of(base.view(torch.uint8))), base.view(torch.uint8))
