"""A graph that computes with a copy of its input saves the copy for the backward: the caller may
write to the input in between, as in eager mode. (Longformer does so with its attention scores.)"""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process

from habana_frameworks.torch.dynamo import report

FUNCTIONS = {
    "of a part": lambda p, v: p.narrow(-1, 2, 4).contiguous() @ v[:4],
    "of the whole": lambda p, v: p.clone() @ v,
    "turned": lambda p, v: p.transpose(1, 2).contiguous().exp() @ v[:5],
    "by reshape": lambda p, v: p.transpose(0, 1).reshape(15, 8) @ v,
    "repeated": lambda p, v: p[:, None].expand(-1, 2, -1, -1).reshape(6, 5, 8) * v.sum(),
    "read twice": lambda p, v: (p.clone() @ v) * (p * 1.0).sum(),
}


def trained(function, device, write):
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(3, 5, 8, generator=generator).to(device).requires_grad_()
    v = torch.randn(8, 6, generator=generator).to(device).requires_grad_()
    p = q * 2
    out = function(p, v)
    write(p)
    (out.square().sum() + p.sum()).backward()
    return [t.cpu() for t in (out, q.grad, v.grad)]


def write_part(p):
    p[0] = 7


def write_data(p):
    p.data[0] = 7


@pytest.mark.parametrize("write", [write_part, write_data])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_input_may_be_written_before_the_backward(name, write):
    fresh_process()
    function = FUNCTIONS[name]
    compiled = torch.compile(function, backend="hpu_backend")
    wanted = trained(function, "cpu", write)
    got = trained(compiled, "hpu", write)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    assert "eager" not in {graph.origin for graph in report().graphs}
