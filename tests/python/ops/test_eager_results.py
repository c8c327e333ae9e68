"""A step that runs eagerly gives the types that the program says, also where the CPU's kernel gives
others than PyTorch's fake kernel announced."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process

NORMS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], x.new_ones(x.shape[-1])),
    "group_norm": lambda x: F.group_norm(x, 1),
    "instance_norm": lambda x: F.instance_norm(x),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
}
EMPTY = {
    "layer_norm": [(0,), (2, 0), (0, 3)],
    "rms_norm": [(0,), (2, 0), (0, 3)],
    "group_norm": [(0, 2, 4)],
    "instance_norm": [(0, 2, 4)],
    "batch_norm": [(0, 2, 4)],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("name", "sizes"), [(n, s) for n in EMPTY for s in EMPTY[n]])
def test_norms_of_nothing(name, sizes, dtype):
    def run(x):
        x = x.detach().requires_grad_()
        y = NORMS[name](x)
        return y, torch.autograd.grad(y.sum(), x)[0]

    x = torch.ones(sizes, dtype=dtype)
    expected = run(x)
    fresh_process()
    torch._dynamo.reset()
    for found, wanted in zip(
        torch.compile(run, backend="hpu_backend")(x.to("hpu")), expected, strict=True
    ):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)


def test_statistics_have_the_announced_type():
    x = torch.ones(2, 0, dtype=torch.bfloat16, device="hpu")
    function = torch.compile(
        lambda x: torch.native_layer_norm(x, (0,), None, None, 1e-5), backend="hpu_backend"
    )
    assert [t.dtype for t in function(x)] == [torch.bfloat16, torch.float32, torch.float32]
