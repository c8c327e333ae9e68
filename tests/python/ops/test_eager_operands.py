"""A step that runs eagerly gets its operands with the memory layout with which the program was
captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import check, fresh_process

Function = Callable[[torch.Tensor], Any]

MATRIX = torch.arange(12.0).reshape(3, 4)
NINE = torch.arange(512.0).reshape([2] * 9)

# Each makes a copy in another order, and reads its memory with an op that no recipe supports.
COPIES: dict[str, tuple[Function, torch.Tensor]] = {
    "contiguous, narrower": (lambda x: x.t().contiguous().view(torch.int16), MATRIX),
    "bf16 as bytes": (lambda x: x.t().contiguous().view(torch.int8), MATRIX.bfloat16()),
    "i64 as i32": (lambda x: x.t().contiguous().view(torch.int32), MATRIX.long()),
    "f64 as f32": (lambda x: x.t().contiguous().view(torch.float32), MATRIX.double()),
    "wider": (lambda x: x.t().contiguous().view(torch.float64), MATRIX[:2].contiguous()),
    "clone": (
        lambda x: x.t().clone(memory_format=torch.contiguous_format).view(torch.int16),
        MATRIX,
    ),
    "slice": (lambda x: x[:, 1:3].contiguous().view(torch.int16), MATRIX),
    "expand": (lambda x: x[:1].expand(3, 4).contiguous().view(torch.int16), MATRIX),
    "flip": (lambda x: x.flip(1).view(torch.int16), MATRIX),
    "calculated": (lambda x: (x.t() + 1).contiguous().view(torch.int16), MATRIX),
    "concatenated": (lambda x: torch.cat([x.t(), x.t()]).view(torch.int16), MATRIX),
    "complex": (lambda x: torch.view_as_complex(x.t().contiguous()), MATRIX[:2].contiguous()),
    "channels last": (
        lambda x: x.to(memory_format=torch.channels_last).permute(0, 2, 3, 1).view(torch.int16),
        torch.arange(24.0).reshape(1, 2, 3, 4),
    ),
    "nine dimensions": (
        lambda x: x.permute(8, 7, 6, 5, 4, 3, 2, 1, 0).contiguous().view(-1),
        NINE,
    ),
    "nine dimensions, cloned": (
        lambda x: x.transpose(0, 8).clone(memory_format=torch.contiguous_format).view(4, -1),
        NINE,
    ),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 3), NINE),
    "pixel_shuffle": (
        lambda x: F.pixel_shuffle(x, 2),
        torch.arange(1024.0).reshape(1, 2, 2, 2, 2, 2, 8, 2, 2),
    ),
    "windows": (
        lambda x: x.permute(0, 2, 1, 3, 5, 4, 7, 6, 8).reshape(8, -1),
        NINE,
    ),
    "f64, calculated": (lambda x: (x.t().contiguous() * 2).view(-1), MATRIX.double()),
    "f64 group_norm": (
        lambda x: F.group_norm(x.permute(2, 1, 0), 3),
        torch.linspace(-1, 2, 120, dtype=torch.float64).reshape(4, 6, 5),
    ),
    "inverse": (
        lambda x: torch.linalg.inv(x.t().contiguous() + torch.eye(3, device=x.device)),
        MATRIX[:, :3].contiguous(),
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_before_an_eager_step(name: str) -> None:
    function, x = COPIES[name]
    check(function, x, rtol=0, atol=0) if name == "bf16 as bytes" else check(function, x)


def test_a_view_before_an_eager_step_is_no_copy() -> None:
    """The step gets the transposed memory itself."""
    report = check(lambda x: torch.lgamma(x.t() + 0).t(), MATRIX + 1)
    assert report.eager_segments > 0


def test_two_layouts_of_one_value() -> None:
    def function(x: torch.Tensor) -> Any:
        transposed = x.t()
        copied = transposed.contiguous()
        return torch.lgamma(transposed), copied.view(torch.int16), torch.lgamma(copied)

    check(function, MATRIX + 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.group_norm(x.permute(2, 1, 0), 3),
        lambda x: F.batch_norm(x.permute(2, 1, 0), None, None, training=True),
        lambda x: F.layer_norm(x.permute(2, 1, 0), (4,)),
        lambda x: F.avg_pool1d(x.permute(2, 1, 0), 2),
        lambda x: F.softmax(x.permute(2, 1, 0).contiguous(), -1),
        lambda x: F.max_pool1d(x.permute(2, 1, 0).contiguous(), 2),
    ],
    ids=["group_norm", "batch_norm", "layer_norm", "avg_pool1d", "softmax", "max_pool1d"],
)
def test_gradients_of_f64_in_another_layout(function: Function) -> None:
    values = torch.linspace(-1, 2, 120, dtype=torch.float64).sin().reshape(4, 6, 5)
    theirs = values.clone().requires_grad_()
    function(theirs).square().sum().backward()
    ours = values.to("hpu").requires_grad_()
    fresh_process()
    torch.compile(function, backend="hpu_backend", dynamic=False)(ours).square().sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
