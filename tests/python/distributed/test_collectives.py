"""The backend hccl: every collective of torch.distributed on hpu tensors (DIST-1, DIST-2)."""

from __future__ import annotations

import pytest
from ranks import expect_success, run_ranks

COLLECTIVES = """
rank, size = start()
hpu = lambda *values, dtype=torch.float32: torch.tensor(values, dtype=dtype, device="hpu")

for asynchronous in (False, True):
    def run(call, *arguments, **options):
        work = call(*arguments, async_op=asynchronous, **options)
        if asynchronous:
            work.wait()
    x = torch.arange(1000.0, device="hpu") + rank
    run(dist.all_reduce, x)
    equal(x, torch.arange(1000.0) * size + sum(range(size)))
    for op, wanted in {
        dist.ReduceOp.MAX: size, dist.ReduceOp.MIN: 1, dist.ReduceOp.AVG: (size + 1) / 2,
        dist.ReduceOp.PRODUCT: torch.arange(1.0, size + 1).prod().item(),
    }.items():
        x = hpu(rank + 1.0)
        run(dist.all_reduce, x, op)
        equal(x, torch.tensor([float(wanted)]))
    premultiplied = dist._make_nccl_premul_sum(0.5)
    x = hpu(2.0 * rank, 4.0)
    run(dist.all_reduce, x, premultiplied)
    equal(x, torch.tensor([float(sum(range(size))), 2.0 * size]))
    x = hpu(2.0, dtype=torch.bfloat16)
    run(dist.all_reduce, x, dist._make_nccl_premul_sum(hpu(0.5)))
    equal(x, torch.tensor([float(size)], dtype=torch.bfloat16))
    x = hpu(2.0 * (rank + 1))
    run(dist.reduce, x, 1, premultiplied)
    equal(x, torch.tensor([float(sum(range(size + 1)))]) if rank == 1
          else torch.tensor([2.0 * (rank + 1)]))
    part, whole = torch.empty(1, device="hpu"), torch.arange(1.0 * size, device="hpu")
    run(dist.reduce_scatter_tensor, part, whole, premultiplied)
    equal(part, torch.tensor([0.5 * size * rank]))
    run(dist.reduce_scatter, part, list(whole.split(1)), premultiplied)
    equal(part, torch.tensor([0.5 * size * rank]))
    equal(whole, torch.arange(1.0 * size))
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8, torch.bfloat16,
                  torch.float16, torch.float64):
        x = hpu(rank, 3, dtype=dtype)
        run(dist.all_reduce, x)
        equal(x, torch.tensor([sum(range(size)), 3 * size], dtype=dtype))
    x = hpu(rank == 0, rank == 1, False, dtype=torch.bool)
    run(dist.all_reduce, x)
    equal(x, torch.tensor([True, True, False]))
    x = hpu(1 + 2j * rank, dtype=torch.complex64)
    run(dist.all_reduce, x)
    equal(x, torch.tensor([size + 2j * sum(range(size))], dtype=torch.complex64))
    x = hpu(rank, dtype=torch.int16)
    run(dist.broadcast, x, 1)
    equal(x, torch.tensor([1], dtype=torch.int16))
    x = hpu(rank + 1.0)
    run(dist.reduce, x, 1)
    if rank == 1:
        equal(x, torch.tensor([sum(range(1, size + 1)) * 1.0]))
    parts = [torch.empty(2, device="hpu") for _ in range(size)]
    run(dist.all_gather, parts, hpu(rank, rank + 0.5))
    equal(torch.stack(parts), torch.arange(size)[:, None] + torch.tensor([0, 0.5]))
    whole = torch.empty(2 * size, dtype=torch.int64, device="hpu")
    run(dist.all_gather_into_tensor, whole, hpu(rank, -rank, dtype=torch.int64))
    equal(whole.view(size, 2), torch.arange(size)[:, None] * torch.tensor([1, -1]))
    part = torch.empty(3, device="hpu")
    run(dist.reduce_scatter_tensor, part, torch.arange(3.0 * size, device="hpu") * (rank + 1))
    equal(part, torch.arange(3.0 * size).view(size, 3)[rank] * sum(range(1, size + 1)))
    run(dist.reduce_scatter, part, [torch.full((3,), rank + 10.0 * i, device="hpu")
                                    for i in range(size)])
    equal(part, torch.full((3,), sum(range(size)) + 10.0 * rank * size))
    gathered = [torch.empty(1, device="hpu") for _ in range(size)] if rank == 0 else None
    run(dist.gather, hpu(rank * 2.0), gathered, 0)
    if rank == 0:
        equal(torch.cat(gathered), torch.arange(size) * 2.0)
    part = torch.empty(1, device="hpu")
    run(dist.scatter, part, [hpu(i * 3.0) for i in range(size)] if rank == 1 else None, 1)
    equal(part, torch.tensor([rank * 3.0]))
    part = torch.empty(3, device="hpu")
    expanded = [hpu(i * 3.0).expand(3) for i in range(size)]  # as the gradient of a sum is
    run(dist.scatter, part, expanded if rank == 1 else None, 1)
    equal(part, torch.full((3,), rank * 3.0))
    turned = torch.empty(size, device="hpu")
    run(dist.all_to_all_single, turned, torch.arange(float(size), device="hpu") + 10 * rank)
    equal(turned, torch.arange(float(size)) * 10 + rank)
    # Rank r sends i + 1 rows to rank i.
    rows = torch.full((sum(range(1, size + 1)), 2), float(rank), device="hpu")
    taken = torch.empty((rank + 1) * size, 2, device="hpu")
    run(dist.all_to_all_single, taken, rows, [rank + 1] * size, list(range(1, size + 1)))
    equal(taken, torch.arange(float(size)).repeat_interleave(rank + 1)[:, None].expand(-1, 2))
    outputs = [torch.empty(i + 1, device="hpu") for i in range(size)]
    run(dist.all_to_all, outputs, [torch.full((rank + 1,), float(i), device="hpu")
                                   for i in range(size)])
    equal(torch.cat(outputs), torch.full((sum(range(1, size + 1)),), float(rank)))
for sizes in ((0,), (size, 0)):
    x = torch.zeros(sizes, device="hpu")
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_to_all_single(torch.zeros_like(x), x)
    dist.all_gather([torch.zeros_like(x) for _ in range(size)], x)
dist.barrier()
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": i} for i in range(size)]
print("done")
"""


@pytest.mark.parametrize("size", [2, 4])
def test_every_collective(size):
    assert expect_success(size, COLLECTIVES) == ["done\n"] * size


def test_lazy_mode():
    """MODE-2: what a collective reads is queued before it, and what follows waits for it."""
    script = COLLECTIVES.replace(
        'print("done")', "import habana_frameworks.torch as h\nprint(h.hpu.is_lazy())"
    )
    assert expect_success(2, script, {"PT_HPU_LAZY_MODE": "1"}) == ["True\n"] * 2


def test_strict_mode():
    """On a card nothing reads device memory through host pointers."""
    assert expect_success(2, COLLECTIVES, {"EMULATOR_STRICT": "1"}) == ["done\n"] * 2


def test_sends_and_receives():
    expect_success(
        2,
        """
rank, size = start()
peer = 1 - rank
count = 1 << 20  # more than is on its way at a time
mine, other = torch.full((count,), rank + 1.0, device="hpu"), torch.empty(count, device="hpu")
# Both send first: neither waits for the other.
works = [dist.isend(mine, peer), dist.irecv(other, peer)]
for work in works:
    work.wait()
equal(other, torch.full((count,), peer + 1.0))
other.zero_()
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer),
                                    dist.P2POp(dist.irecv, other, peer)]):
    work.wait()
equal(other, torch.full((count,), peer + 1.0))
if rank == 0:
    dist.send(mine[:3], 1)
else:
    small = torch.empty(3, device="hpu")
    dist.recv(small, 0)
    equal(small, torch.ones(3))
dist.destroy_process_group()
""",
    )


LAYOUTS = {
    "row-major": "x.contiguous()",
    "transposed": "x.T.contiguous().T",
    "with gaps": "torch.stack([x, x], -1)[..., 0]",
}


@pytest.mark.parametrize("variables", [{}, {"PT_HPU_LAZY_MODE": "1"}, {"EMULATOR_STRICT": "1"}])
def test_layouts(variables):
    """Elements keep their places, also where ranks lay tensors out differently."""
    expect_success(
        2,
        f"""
rank, size = start()
layouts = [{", ".join("lambda x: " + each for each in LAYOUTS.values())}]
def ours(rank): return torch.arange(8.0).reshape(4, 2) + 10 * rank
for mine, other in ((0, 1), (1, 1), (1, 0), (2, 1), (2, 2)):
    lay = layouts[(mine, other)[rank]]
    for asynchronous in (False, True):
        def run(collective, *arguments):
            work = collective(*arguments, async_op=asynchronous)
            if asynchronous:
                work.wait()
        def x(): return lay(ours(rank).to("hpu"))
        def empty(rows=4): return lay(torch.zeros(rows, 2, device="hpu"))
        y = x()
        run(dist.all_reduce, y)
        equal(y, ours(0) + ours(1))
        y = x()
        run(dist.reduce, y, 1)
        equal(y, ours(0) + ours(1) if rank == 1 else ours(0))
        y = x()
        run(dist.broadcast, y, 1)
        equal(y, ours(1))
        parts = [empty(), empty()]
        run(dist.all_gather, parts, x())
        equal(torch.stack(parts), torch.stack([ours(0), ours(1)]))
        y = empty(8)
        run(dist.all_gather_into_tensor, y, x())
        equal(y, torch.cat([ours(0), ours(1)]))
        y = empty(2)
        run(dist.reduce_scatter_tensor, y, x())
        equal(y, (ours(0) + ours(1))[2 * rank : 2 * rank + 2])
        y = empty()
        run(dist.reduce_scatter, y, [x(), x()])
        equal(y, ours(0) + ours(1))
        y = empty()
        run(dist.all_to_all_single, y, x())
        equal(y, torch.cat([ours(0)[2 * rank :][:2], ours(1)[2 * rank :][:2]]))
        y = empty(3 if rank == 0 else 5)
        run(dist.all_to_all_single, y, x(), [(1, 2), (3, 2)][rank], [(1, 3), (2, 2)][rank])
        equal(y, torch.cat([ours(0)[:1], ours(1)[:2]] if rank == 0 else [ours(0)[1:], ours(1)[2:]]))
        parts = [empty(), empty()]
        run(dist.all_to_all, parts, [x(), x() + 1])
        equal(torch.stack(parts), torch.stack([ours(0), ours(1)]) + rank)
        parts = [empty(), empty()]
        run(dist.gather, x(), parts if rank == 0 else None, 0)
        equal(torch.stack(parts), torch.stack([ours(0), ours(1)]) * (rank == 0))
        y = empty()
        run(dist.scatter, y, [x(), x() + 1] if rank == 1 else None, 1)
        equal(y, ours(1) + rank)
    if rank == 0:
        dist.send(lay(ours(0).to("hpu")), 1)
    else:
        y = torch.empty(4, 2, device="hpu")
        dist.recv(y, 0)
        equal(y, ours(0))
    with dist._coalescing_manager(device=torch.device("hpu"), async_ops=True) as works:
        y, z = x() * 2, x()
        dist.broadcast(y, 0)
        dist.broadcast(z, 1)
    works.wait()
    equal(y, ours(0) * 2)
    equal(z, ours(1))
""",
        variables,
    )


def test_groups_and_a_second_start():
    """The group's name in the store is used again, so what the first one left must not be read."""
    expect_success(
        4,
        """
import os
rank, size = start()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
x = torch.tensor([1.0 + rank], device="hpu")
dist.all_reduce(x, group=pairs[rank // 2])
equal(x, torch.tensor([3.0 if rank < 2 else 7.0]))
dist.destroy_process_group()
os.environ["MEETING_FILE"] += ".second"
for backend in ("cpu:gloo,hpu:hccl", None):
    rank, size = start(backend, device_id=torch.device("hpu", 0))
    x, y = torch.ones(2, device="hpu"), torch.ones(2)
    dist.all_reduce(x)
    equal(x, torch.full((2,), 4.0))
    if backend:
        dist.all_reduce(y)
        equal(y, torch.full((2,), 4.0))
        assert dist.distributed_c10d._get_default_group()._has_hooks() is False
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    x = torch.tensor([1.0 + rank], device="hpu")
    dist.all_reduce(x, group=half)
    equal(x, torch.tensor([3.0 if rank < 2 else 7.0]))
    dist.destroy_process_group()
    os.environ["MEETING_FILE"] += "x"
assert dist.is_backend_available("hccl") and dist.Backend.HCCL == "hccl"
assert dist.Backend.default_device_backend_map["hpu"] == "hccl"
""",
    )


def test_debug_level_detail():
    expect_success(
        2,
        """
rank, size = start()
x = torch.ones(3, device="hpu")
dist.all_reduce(x)
equal(x, torch.full((3,), 2.0))
""",
        {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("dist.all_reduce(torch.ones(1, device='hpu').expand(4))", "whose elements share memory"),
        ("dist.all_reduce(torch.ones(3))", "No backend type associated with device type cpu"),
        ("dist.all_reduce(torch.ones(3, device='hpu'), dist.ReduceOp.BAND)", "no such reduction"),
        ("dist.all_reduce(torch.ones(3, device='hpu').short())", "cannot reduce tensors of Short"),
        (
            "dist.all_reduce(torch.ones(3, device='hpu').int(), dist._make_nccl_premul_sum(2.0))",
            "cannot multiply tensors of Int by the factor of PREMUL_SUM",
        ),
        (
            "backend.broadcast([torch.ones(3, device='hpu')], BroadcastOptions())",
            "the root 5 is none of 1 ranks",
        ),
        (
            "dist.all_gather_into_tensor(torch.ones(3, device='hpu'), torch.ones(2, device='hpu'))",
            "3 elements are not 1 times 2",
        ),
    ],
)
def test_wrong_arguments(call, error):
    """Errors are raised before anything is sent."""
    script = f"""
from torch._C._distributed_c10d import BroadcastOptions as Options
rank, size = start()
backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("hpu"))

def BroadcastOptions():
    options = Options()
    options.rootRank = 5
    return options

try:
    {call}
except Exception as error:
    print(error)
"""
    assert error in run_ranks(1, script)[0].stdout


def test_a_group_goes_while_its_collectives_run():
    """Their tensors live until they have ended."""
    expect_success(
        2,
        """
rank, size = start()
group = dist.new_group([0, 1])
kept = []
for _ in range(20):
    x = torch.ones(1 << 20, device="hpu")
    dist.all_reduce(x, group=group, async_op=True)
    kept.append(x)
dist.destroy_process_group(group)
for x in kept:
    equal(x, torch.full((1 << 20,), 2.0))
for _ in range(20):
    dist.all_reduce(torch.ones(1 << 20, device="hpu"), async_op=True)
dist.destroy_process_group()
""",
    )


def test_an_error_among_coalesced_calls_ends_them():
    expect_success(
        2,
        """
rank, size = start()
peer = 1 - rank
x, y = torch.full((3,), rank + 1.0, device="hpu"), torch.empty(3, device="hpu")
dist.all_reduce(torch.ones(1, device="hpu"))
strided = torch.ones(4, 4, device="hpu")[:, ::2]
try:
    dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer),
                            dist.P2POp(dist.irecv, strided, peer)])
except ValueError as error:
    assert "pass a contiguous tensor" in str(error), error
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer),
                                    dist.P2POp(dist.irecv, y, peer)]):
    work.wait()
equal(y, torch.full((3,), peer + 1.0))
""",
    )
