"""Eager calls on views that Python copies to themselves, and on types that CPU kernels lack."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu
from lazy_case import lazy_mode

from habana_frameworks.torch import native


@pytest.mark.parametrize("place", ["none", "pow"])
def test_augmented_assignment_to_views(place):
    def change(x):
        x[:, 0] += 1
        x[::2] *= 2
        x[:, 1:3] -= 3
        x[1:3] += 1
        x[:, 1].zero_()
        return x

    with place_on_cpu(place):
        torch.testing.assert_close(
            change(torch.ones(4, 5, device="hpu")).cpu(), change(torch.ones(4, 5))
        )


@pytest.mark.parametrize("place", ["none", ""])
def test_a_copy_to_an_overlapping_part_is_refused(place):
    x = torch.arange(6.0, device="hpu")
    with place_on_cpu(place):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            x[1:] = x[:-1]
        x[:3] = x[3:]
        x[1:] = x[1:]
    assert x.tolist() == [3, 4, 5, 3, 4, 5]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_a_call_whose_shape_function_fails(mode):
    """PyTorch's functions for resizes of no images raise a TypeError."""
    x = torch.ones(0, 4, 5, device="hpu")
    with place_on_cpu(""):
        assert F.interpolate(x, scale_factor=2, mode=mode).shape == (0, 4, 10)
    with place_on_cpu("none"), pytest.raises(NotImplementedError, match="shape function fails"):
        F.interpolate(x, scale_factor=2, mode=mode)


def test_operators_in_a_list_fall_back_and_others_do_not():
    native.torch_module().reset_op_counts()
    with place_on_cpu("lgamma"):
        x = torch.tensor([0.5, 2.5]).to("hpu")
        torch.testing.assert_close(x.lgamma().cpu(), torch.tensor([0.5, 2.5]).lgamma())
        with pytest.raises(NotImplementedError, match="PT_HPU_PLACE_ON_CPU=lgamma"):
            x.digamma()


def test_float8_of_any_size():
    """Small calls of other types run by CPU kernels, which float8 lacks."""
    x = torch.arange(64, device="hpu").float().view(16, 4).to(torch.float8_e4m3fn)
    index = torch.tensor([3], device="hpu")
    y = x.clone()
    y.index_copy_(0, index, x[:1].clone())
    wanted = x.float()
    wanted[3] = wanted[0]
    assert torch.equal(y.float().cpu(), wanted.cpu())
    rows = torch.tensor([[2, 1, 0, 3]], device="hpu")
    assert torch.equal(x.gather(0, rows).float().cpu(), x.float().gather(0, rows).cpu())
    filled = x.masked_fill(x.float() > 8, 1.0).float()
    assert torch.equal(filled.cpu(), x.float().masked_fill(x.float() > 8, 1.0).cpu())


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16], ids=str)
def test_the_default_type_may_change_between_equal_calls(lazy, default):
    """It is the type of an integer with a floating-point number."""

    def types(x):
        results = x * 0.25, x / 2, x.sqrt(), torch.full((2,), 1.5, device=x.device)
        return [(result.dtype, result.tolist()) for result in results]

    given = torch.arange(4)
    mode = lazy_mode() if lazy else place_on_cpu("none")
    with mode:
        on_device = given.to("hpu")
        for dtype in (torch.float32, default, torch.float32, default):
            torch.set_default_dtype(dtype)
            try:
                assert types(on_device) == types(given)
            finally:
                torch.set_default_dtype(torch.float32)
