"""Collectives in compiled graphs are steps of their programs (DIST-2)."""

from __future__ import annotations

import pytest
from ranks import expect_success, run_ranks

COMPILED = """
import torch.distributed._functional_collectives as functional
from habana_frameworks.torch.dynamo import report

def compiled(function):
    return torch.compile(function, backend="hpu_backend")

def expect_new_program(recipes):
    graph = report().graphs[-1]
    assert report().eager_segments == 0 and graph.recipes == recipes, str(report())

rank, size = start()
x = (torch.arange(24.0).reshape(8, 3) + rank).to("hpu")
all_x = [torch.arange(24.0).reshape(8, 3) + other for other in range(size)]
"""

# The function, its result in terms of all_x, and the number of recipes.
CALLS = {
    "all_reduce": (
        "functional.all_reduce(x * 2, 'sum', dist.group.WORLD) + 1",
        "sum(2 * each for each in all_x) + 1",
        2,
    ),
    "of an input": (
        "functional.all_reduce(x, 'max', dist.group.WORLD) - x",
        "all_x[-1] - all_x[rank]",
        1,
    ),
    "average": (
        "functional.all_reduce(x.exp(), 'avg', dist.group.WORLD)",
        "sum(each.exp() for each in all_x) / size",
        1,
    ),
    "in place": (
        "in_place(x)",
        "sum(each.exp() for each in all_x) * 2",
        2,
    ),
    "coalesced": (
        "torch.cat(functional.all_reduce_coalesced([x + 1, x[:2] + 2], 'sum', dist.group.WORLD))",
        "torch.cat([sum(all_x) + size, sum(all_x)[:2] + 2 * size])",
        2,
    ),
    "all_gather": (
        "functional.all_gather_tensor(x + 1, 0, dist.group.WORLD).sin()",
        "(torch.cat(all_x) + 1).sin()",
        2,
    ),
    "all_gather of columns": (
        "functional.all_gather_tensor(x + 1, 1, dist.group.WORLD)",
        "torch.cat(all_x, 1) + 1",
        2,
    ),
    "reduce_scatter": (
        "functional.reduce_scatter_tensor(x * x, 'sum', 0, dist.group.WORLD)",
        "sum(each * each for each in all_x).chunk(size)[rank]",
        1,
    ),
    "broadcast": (
        "functional.broadcast(x.cos(), 1, dist.group.WORLD).sum(0)",
        "all_x[1].cos().sum(0)",
        2,
    ),
    "all_to_all": (
        "functional.all_to_all_single(x + 1, None, None, dist.group.WORLD)",
        "torch.cat([each.chunk(size)[rank] for each in all_x]) + 1",
        1,
    ),
    "one beside another": (
        "functional.all_reduce(x + 1, 'sum', dist.group.WORLD)"
        " @ functional.all_gather_tensor(x.sin(), 0, dist.group.WORLD).T",
        "(sum(all_x) + size) @ torch.cat(all_x).sin().T",
        2,
    ),
    "beside a recipe": (
        "beside_a_recipe(x)",
        "sum(each.repeat(2048, 8).sin() for each in all_x) - all_x[rank].repeat(2048, 8).cos()",
        3,
    ),
}


def test_collectives_of_a_graph():
    checks = "\n".join(
        f"""
function = compiled(lambda x: {function})
for _ in range(3):
    equal(function(x), {wanted})
expect_new_program({recipes})
assert len(report().graphs) == {number + 1}, {name!r}
"""
        for number, (name, (function, wanted, recipes)) in enumerate(CALLS.items())
    )
    expect_success(
        2,
        f"""{COMPILED}
def in_place(x):
    y = x.exp()
    dist.all_reduce(y)
    return y * 2

def beside_a_recipe(x):
    whole = x.repeat(2048, 8)  # a reduction of 1 MiB or more ends the recipe before it
    reduced = functional.all_reduce(whole.sin(), "sum", dist.group.WORLD)
    return reduced - whole.cos()
{checks}""",
    )


def test_gradients_flow_through_collectives():
    expect_success(
        2,
        f"""{COMPILED}
weight = torch.full((3, 3), 0.5, device="hpu", requires_grad=True)
def function(x, weight):
    part = functional.all_gather_tensor_autograd(x @ weight, 0, dist.group.WORLD)
    return functional.reduce_scatter_tensor_autograd(part.sin(), "sum", 0, dist.group.WORLD).sum()
compiled(function)(x, weight).backward()
host = [torch.full((3, 3), 0.5, requires_grad=True) for _ in range(size)]
sines = torch.cat([each @ w for each, w in zip(all_x, host)]).sin()
(sines.sum() * size).backward()
equal(weight.grad, host[rank].grad)
assert report().eager_segments == 0, str(report())
""",
    )


PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module)
from torch.distributed.tensor import Shard

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

torch.manual_seed(0)
plain = nn.Sequential(*(Block() for _ in range(3)))
model = nn.Sequential(*(Block() for _ in range(3)))
model.load_state_dict(plain.state_dict())
model = model.to("hpu")
sizes, names = (size // TENSOR_PARALLEL, TENSOR_PARALLEL), ("replica", "part")
mesh = init_device_mesh("hpu", sizes, mesh_dim_names=names)["part"]
for block in model:
    parallelize_module(block, mesh, PLAN)
function = compiled(model)
optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, plain)]
for step in range(3):
    data = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
    part = data.chunk(mesh.size())[mesh.get_local_rank()] if SHARDED else data
    losses = []
    for each, optimizer, given in zip((function, plain), optimizers, (part.to("hpu"), data)):
        optimizer.zero_grad()
        loss = each(given).square().sum() / data.numel()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    if SHARDED:
        dist.all_reduce(losses[0], group=mesh.get_group())
    equal(*losses)
graphs = report().graphs
assert report().eager_segments == 0 and len(graphs) == 2, str(report())
print([graph.recipes for graph in graphs], sum(graph.origin == "compiled" for graph in graphs))
"""
PLANS = {
    "columns and rows": '{"up": ColwiseParallel(), "down": RowwiseParallel()}',
    "sequence": """{
    "norm": SequenceParallel(sequence_dim=0, use_local_output=True),
    "up": ColwiseParallel(input_layouts=Shard(0)),
    "down": RowwiseParallel(output_layouts=Shard(0)),
}""",
}


@pytest.mark.parametrize(("replicas", "ranks_of_each"), [(1, 2), (1, 4), (2, 2)])
@pytest.mark.parametrize("plan", PLANS)
def test_tensor_parallel_training(plan, replicas, ranks_of_each, tmp_path):
    """Every block of the model is compiled, and all ranks share its programs, also those of
    replicas, whose groups have other names."""
    text = PARALLEL.replace("PLAN", PLANS[plan]).replace("SHARDED", str(plan == "sequence"))
    printed = expect_success(
        replicas * ranks_of_each,
        COMPILED + text.replace("TENSOR_PARALLEL", str(ranks_of_each)),
        {"HPU_CACHE_DIR": str(tmp_path)},
    )
    recipes = {text.rpartition("]")[0] for text in printed}
    compiled = [int(text.rpartition("]")[2]) for text in printed]
    assert len(recipes) == 1, printed
    assert sum(compiled) == 2, printed


def test_a_group_that_has_become_smaller_is_refused():
    expect_success(
        2,
        f"""{COMPILED}
import os
function = compiled(lambda x: functional.all_gather_tensor(x + 1, 0, "0"))
equal(function(x), torch.cat(all_x) + 1)
dist.destroy_process_group()
if rank == 0:
    os.environ.update(RANK="0", WORLD_SIZE="1", MEETING_FILE=os.environ["MEETING_FILE"] + "2")
    start()
    try:
        function(x)
    except RuntimeError as error:
        assert "was compiled for 2 ranks in the process group" in str(error), error
    else:
        raise AssertionError("the group has one rank")
""",
    )


def test_a_rank_that_dies_is_named():
    results = run_ranks(
        2,
        f"""{COMPILED}
import os
function = compiled(lambda x: functional.all_reduce(x + 1, "sum", dist.group.WORLD) * 2)
equal(function(x), (sum(all_x) + size) * 2)
if rank == 1:
    os._exit(3)
try:
    function(x).cpu()
except RuntimeError as error:
    assert "rank 1 has closed its connection: its process has ended" in str(error), error
else:
    raise AssertionError("rank 1 has ended")
os._exit(0)
""",
    )
    assert [result.returncode for result in results] == [0, 3], results[0].stderr[-3000:]
