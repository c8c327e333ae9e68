"""Reordered caches of beams, and fast functions, of torch.ops.hpu."""

from __future__ import annotations

import pytest
import torch
from kernel_case import by_way, run
from training_case import matrix

hpu = torch.ops.hpu


def _reordered(x, start, end, beams):
    want = x.clone()
    for row in range(x.shape[0]):
        part = slice(int(start[row]), int(end[row]))
        for beam in range(4):
            want[row, beam, :, part] = x[row, beams[row, beam], :, part]
    return want


@by_way
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.float8_e5m2])
@pytest.mark.parametrize("in_place", [False, True])
def test_places_of_beams_are_taken_from_other_beams(in_place, dtype, way):
    x = (matrix(3, 4, 2, 7, 3) * 10).to(dtype)
    start, end = torch.tensor([0, 3, 6]), torch.tensor([7, 5, 6])
    beams = torch.tensor([[3, 0, 0, 1], [2, 2, 1, 0], [1, 1, 1, 1]])
    packed = (beams * torch.tensor([64, 16, 4, 1])).sum(1).to(torch.uint8)

    def reorder(x, start, end, packed):
        if in_place:
            hpu.kv_reorder_(x, start, end, packed)
            return x
        return hpu.kv_reorder(x, start, end, packed)

    name = "kv_reorder_" if in_place else "kv_reorder"
    found = run(way, name, reorder, x, start.int(), end.int(), packed)
    want = _reordered(x.float(), start, end, beams)
    assert found.dtype == dtype and torch.equal(found.float().cpu(), want)


@by_way
@pytest.mark.parametrize("name", ["exp", "sqrt", "rsqrt"])
def test_fast_functions(name, way):
    x = matrix(3, 5).abs()
    y = run(way, f"{name}_fast_math", getattr(hpu, f"{name}_fast_math"), x)
    torch.testing.assert_close(y.cpu(), getattr(torch, name)(x))
