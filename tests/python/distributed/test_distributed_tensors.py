"""DTensors on hpu: attention and random numbers, for which DTensor asks the device (DIST-2)."""

from __future__ import annotations

import pytest
from ranks import expect_success

ATTENTION = """
from itertools import product
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from habana_frameworks.torch.dynamo import report

rank, size = start()
mesh = init_device_mesh("hpu", (size,))
generator = torch.Generator().manual_seed(0)
values = [torch.randn(4, 4, 6, 8, generator=generator) for _ in range(3)]
masks = [None] + [torch.rand(shape, generator=generator) > 0.3
                  for shape in ((6, 6), (4, 1, 6, 6), (4, 4, 6, 6), (1, 4, 6, 6))]

def attend(q, k, v, mask):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

function = attend if EAGER else torch.compile(attend, backend="hpu_backend", dynamic=False)
for mask, placement in product(masks, (Replicate(), Shard(0), Shard(1), Shard(2))):
    given = [distribute_tensor(x.to("hpu"), mesh, [placement]).requires_grad_() for x in values]
    spread, wanted_placement = None, placement
    if mask is not None:
        dim = getattr(placement, "dim", 2)
        is_spread = mask.ndim == 4 and dim < 2 and mask.shape[dim] > 1
        own = placement if is_spread and FITTING else Replicate()
        spread = distribute_tensor(mask.to("hpu"), mesh, [own])
        if is_spread and not FITTING:
            wanted_placement = Replicate()
    if placement == Shard(2) and mask is not None:
        wanted_placement = Replicate()
    host = [x.clone().requires_grad_() for x in values]
    got, wanted = function(*given, spread), attend(*host, mask)
    # DTensor gathers keys and values that are spread over the sequence, and operands that the mask
    # does not fit.
    assert got.placements == (wanted_placement,), got.placements
    equal(got.full_tensor(), wanted)
    got.square().sum().full_tensor().backward()
    wanted.square().sum().backward()
    for ours, theirs in zip(given, host):
        equal(ours.grad.full_tensor(), theirs.grad)
assert EAGER or report().eager_segments == 0, str(report())
"""


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "compiled"])
@pytest.mark.parametrize("fitting", [True, False], ids=["spread mask", "whole mask"])
def test_attention(eager, fitting):
    """The masks follow each other in one process, because DTensor remembers its rules."""
    script = ATTENTION.replace("EAGER", str(eager)).replace("FITTING", str(fitting))
    expect_success(2, script)


def test_random_numbers():
    """The parts of a tensor differ, and the generators of all ranks stay in step."""
    expect_success(
        2,
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, randn

rank, size = start()
mesh = init_device_mesh("hpu", (size,))
torch.manual_seed(5)
for step in range(2):
    whole = randn(1000, 8, device_mesh=mesh, placements=[Shard(0)])
    parts = whole.full_tensor().chunk(size)
    assert not torch.isin(parts[0], parts[1]).any()
    equal(whole.to_local(), parts[rank].cpu())
    same = randn(100, device_mesh=mesh, placements=[Replicate()]).to_local()
    own = torch.randn(100, device="hpu")
    for value in (same, own):
        mean = value.clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        equal(mean, value.cpu())
    assert not torch.isin(own, same).any()
assert abs(whole.full_tensor().std().item() - 1) < 0.05
try:
    torch.hpu.set_rng_ctx("mersenne")
except ValueError as error:
    assert str(error) == "the generator's state has the form 'philox', not 'mersenne'"
""",
    )


def test_norms() -> None:
    """PyTorch calls another operator for them on hpu than on the CPU."""
    expect_success(
        2,
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

rank, size = start()
whole = torch.arange(24.0).reshape(4, 6) - 7
mesh = init_device_mesh("hpu", (size,))
for placement in (Shard(0), Shard(1)):
    spread = distribute_tensor(whole.to("hpu"), mesh, [placement]).requires_grad_()
    for call in (
        lambda x: x.norm(), lambda x: x.norm(1), lambda x: x.norm(2, 1),
        lambda x: x.norm(3, 0, True), lambda x: torch.norm(x, 2, (0, 1)),
        lambda x: torch.norm(x, 1, 1, dtype=torch.float32),
    ):
        equal(call(spread).full_tensor().detach(), call(whole))
    spread.norm().backward()
    equal(spread.grad.full_tensor(), whole / whole.norm())
""",
    )


CONTEXT_PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel

rank, size = start()
mesh = init_device_mesh("hpu", (size,))
generator = torch.Generator().manual_seed(0)
host = [torch.randn(2, 4, 32, 8, generator=generator).requires_grad_() for _ in range(3)]
wanted = nn.functional.scaled_dot_product_attention(*host)
wanted.square().sum().backward()
q, k, v = [x.detach().to("hpu") for x in host]
place = torch.arange(32.0, device="hpu").view(1, 1, 32, 1)
with context_parallel(mesh, buffers=(q, k, v, place), buffer_seq_dims=(2, 2, 2, 2)):
    rows = place.flatten().cpu().long()
    assert len(rows) == 32 // size
    given = [x.clone().requires_grad_() for x in (q, k, v)]
    got = nn.functional.scaled_dot_product_attention(*given)
    equal(got.detach(), wanted[:, :, rows])
    got.square().sum().backward()
    for ours, theirs in zip(given, host):
        equal(ours.grad, theirs.grad[:, :, rows])
    try:
        nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    except NotImplementedError as error:
        assert "has no causal attention" in str(error), error
    else:
        raise AssertionError("causal attention was not refused")
"""


def test_context_parallel():
    """Each rank has some of the queries, and all keys and values come to it."""
    expect_success(2, CONTEXT_PARALLEL)
