"""Collectives in captures and in lazy mode are steps of the recorded programs (DIST-2)."""

from __future__ import annotations

from ranks import expect_success

SETUP = """
import torch.distributed._functional_collectives as functional
from habana_frameworks.torch.dynamo import report
import habana_frameworks.torch.core as core
from habana_frameworks.torch import native

rank, size = start()
host = (torch.arange(24.0).reshape(8, 3) + rank)
all_x = [torch.arange(24.0).reshape(8, 3) + other for other in range(size)]
x = host.to("hpu")
def counts(name):
    return native.torch_module().recorder_counts()[name]
"""

# Each case makes y of x; the second text is the value that y must have.
CALLS = {
    "all_reduce": ("y = x * 2; dist.all_reduce(y); y = y + 1", "2 * sum(all_x) + 1"),
    "all_reduce of an input": ("y = x.clone(); dist.all_reduce(y)", "sum(all_x)"),
    "average": (
        "y = x.exp(); dist.all_reduce(y, dist.ReduceOp.AVG)",
        "sum(map(torch.exp, all_x)) / size",
    ),
    "largest, by columns": (
        "y = x.t().clone(memory_format=torch.preserve_format);"
        " dist.all_reduce(y, dist.ReduceOp.MAX)",
        "all_x[-1].t()",
    ),
    "asynchronous": (
        "y = x + 1; work = dist.all_reduce(y, async_op=True); z = x * 3; work.wait(); y = y + z",
        "sum(all_x) + size + 3 * host",
    ),
    "a work's results": (
        "y = x + 1; work = dist.all_reduce(y, async_op=True);"
        " y = work.get_future().then(lambda f: f.value()[0] * 2).wait()",
        "2 * (sum(all_x) + size)",
    ),
    "two tensors": (
        "y = x + 1; z = x[:2] + 2\ndist.all_reduce_coalesced([y, z]); y = torch.cat([y, z])",
        "torch.cat([sum(all_x) + size, sum(all_x)[:2] + 2 * size])",
    ),
    "broadcast": ("y = x.cos(); dist.broadcast(y, 1); y = y.sum(0)", "all_x[1].cos().sum(0)"),
    "all_gather_into_tensor": (
        "y = torch.empty(size * 8, 3, device='hpu');"
        " dist.all_gather_into_tensor(y, x + 1); y = y.sin()",
        "(torch.cat(all_x) + 1).sin()",
    ),
    "all_gather": (
        "y = [torch.empty(8, 3, device='hpu') for _ in range(size)]; dist.all_gather(y, x + 1);"
        " y = torch.stack(y)",
        "torch.stack(all_x) + 1",
    ),
    "reduce_scatter_tensor": (
        "y = torch.empty(8 // size, 3, device='hpu'); dist.reduce_scatter_tensor(y, x * x)",
        "sum(each * each for each in all_x).chunk(size)[rank]",
    ),
    "reduce_scatter": (
        "y = torch.empty(8 // size, 3, device='hpu');"
        " dist.reduce_scatter(y, [part.clone() for part in (x * x).chunk(size)])",
        "sum(each * each for each in all_x).chunk(size)[rank]",
    ),
    "all_to_all_single": (
        "y = torch.empty(8, 3, device='hpu'); dist.all_to_all_single(y, x + 1)",
        "torch.cat([each.chunk(size)[rank] for each in all_x]) + 1",
    ),
    "parts of other sizes": (
        "rows = [3, 5]; y = torch.empty(size * rows[rank], 3, device='hpu');"
        " dist.all_to_all_single(y, x, [rows[rank]] * size, rows); y = y * 2",
        "2 * torch.cat([each.split([3, 5])[rank] for each in all_x])",
    ),
    "functional": (
        "y = functional.all_reduce(x + 1, 'sum', dist.group.WORLD) * 2",
        "2 * (sum(all_x) + size)",
    ),
}


LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_LAZY_COLLECTIVES": "1"}


def _cases() -> str:
    """A program that makes `cases`: by name what is called and what it must return."""
    text = "cases = {}\n"
    for name, (call, wanted) in CALLS.items():
        body = "\n".join(f"    {line.strip()}" for line in call.split("\n"))
        text += f"def call():\n{body}\n    return y\n"
        text += f"cases[{name!r}] = call, {wanted}\n"
    return text


def test_captures() -> None:
    """A capture runs nothing; each replay reads the inputs anew, and runs no operator by itself."""
    expect_success(
        2,
        f"""{SETUP}
{_cases()}
for name, (call, wanted) in cases.items():
    graph = torch.hpu.HPUGraph()
    x.zero_()
    with torch.hpu.graph(graph):
        y = call()
    x.copy_(host)
    for _ in range(2):
        graph.replay()
    equal(y, wanted)
    assert report().eager_segments == 0, (name, str(report()))
""",
    )


def test_lazy_mode() -> None:
    """All of them are one program, and come again in the second step."""
    expect_success(
        2,
        f"""{SETUP}
{_cases()}
core.mark_step()
for step in range(2):
    before = {{name: counts(name) for name in ("runs", "compilations", "runs_by_call")}}
    made = [call() for call, _ in cases.values()]
    assert counts("runs") == before["runs"]
    core.mark_step()
    assert counts("runs") == before["runs"] + 1
    assert counts("compilations") == before["compilations"] + (step == 0)
    assert counts("runs_by_call") == before["runs_by_call"]
    for y, (_, wanted) in zip(made, cases.values()):
        equal(y, wanted)
assert report().eager_segments == 0, str(report())
""",
        LAZY,
    )


def test_a_collective_whose_result_nobody_reads() -> None:
    """The other rank waits for it, so it runs, and so do those after it."""
    expect_success(
        2,
        f"""{SETUP}
first = torch.ones(1, device="hpu")
dist.all_reduce(first)
if rank == 1:
    del first
second = torch.ones(5, device="hpu")
dist.all_reduce(second)
core.mark_step()
equal(second, torch.full((5,), 2.0))
""",
        LAZY,
    )


def test_lazy_mode_without_the_flag() -> None:
    """A collective runs what is recorded before it."""
    expect_success(
        2,
        f"""{SETUP}
{_cases()}
for call, wanted in cases.values():
    equal(call(), wanted)
y = x * 2
dist.all_reduce(y)
assert counts("recorded") == 0
""",
        {"PT_HPU_LAZY_MODE": "1"},
    )


def test_calls_without_a_functional_form_follow_what_is_recorded() -> None:
    """Otherwise the receiver would wait for a sender that waits in the recorded collective."""
    expect_success(
        2,
        SETUP
        + """
y, sent, received = x.clone(), torch.full((3,), 11.0, device="hpu"), torch.zeros(3, device="hpu")
torch.hpu.synchronize()
for round in range(3):
    dist.all_reduce(y)
    if rank == 0:
        dist.send(sent, 1)
    else:
        dist.recv(received, 0)
        equal(received, torch.full((3,), 11.0))
    dist.broadcast(y, 0)
    dist.scatter(received, [sent, sent + 1] if rank == 0 else None, 0)
    equal(received, torch.full((3,), 11.0 + rank))
    dist.all_reduce(y, dist.ReduceOp.MAX)
    dist.barrier()
    if round == 0:
        equal(y, sum(all_x))
""",
        LAZY,
    )


def test_a_wrapped_tensor_parallel_model() -> None:
    """Each call after the first one is a replay."""
    expect_success(
        2,
        f"""{SETUP}
import habana_frameworks.torch as ht

class Parallel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        up, down = nn.Linear(8, 16, bias=False), nn.Linear(16, 8, bias=False)
        self.whole = nn.Sequential(up, nn.ReLU(), down)
        self.up = nn.Parameter(up.weight.detach().chunk(size)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(size, 1)[rank].clone())
    def forward(self, x):
        y = torch.relu(x @ self.up.T) @ self.down.T
        dist.all_reduce(y)
        return y

model = Parallel()
whole = model.whole
model.whole = None
model = ht.hpu.wrap_in_hpu_graph(model.to("hpu"))
with torch.no_grad():
    for step in range(3):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
        equal(model(x.to("hpu")), whole(x))
""",
    )


TRAINING = """
from torch.nn.parallel import DistributedDataParallel

def losses(model, device, inputs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for x in inputs:
        loss = model(x.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        core.mark_step()
        optimizer.step()
        core.mark_step()
        found.append(loss.detach())
    return torch.stack(found)

def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))

inputs = [torch.randn(6, 8, generator=torch.Generator().manual_seed(n)) for n in range(8)]
one = losses(model(), "cpu", inputs)
parts = [x.chunk(size)[rank] for x in inputs]
parallel = DistributedDataParallel(model().to("hpu"), bucket_cap_mb=0.0005)
own = losses(parallel, "hpu", parts)
dist.all_reduce(own, dist.ReduceOp.AVG)
equal(own, one)
"""


def test_data_parallel_training_in_lazy_mode() -> None:
    """The gradients of a step are averaged in the program that computes them."""
    expect_success(
        2,
        f"""{SETUP}
{TRAINING}
core.mark_step()
before = native.torch_module().recorder_counts()
losses(parallel, "hpu", parts)
core.mark_step()
after = native.torch_module().recorder_counts()
runs = after["runs"] - before["runs"]
assert runs <= 2 * len(parts) + 2, runs
assert after["runs_by_call"] == before["runs_by_call"]
""",
        LAZY,
    )


def test_graphed_callables() -> None:
    """A layer whose halves are on two ranks: its forward and its backward hold a collective each,
    and replays run no operator by itself."""
    expect_success(
        2,
        f"""{SETUP}
class Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, dy):
        dx = dy.clone()
        dist.all_reduce(dx)
        return dx

class Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        dist.all_reduce(y)
        return y
    @staticmethod
    def backward(ctx, dy):
        return dy

torch.manual_seed(0)
up, down = torch.randn(6, 3), torch.randn(3, 6)

class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Parameter(up.chunk(size)[rank].clone())
        self.down = torch.nn.Parameter(down.chunk(size, 1)[rank].clone())
    def forward(self, x):
        return Leave.apply(torch.tanh(Enter.apply(x) @ self.up.t()) @ self.down.t())

sample = torch.zeros(8, 3, device="hpu", requires_grad=True)
half = torch.hpu.make_graphed_callables(Half().to("hpu"), (sample,))
for step in range(3):
    numbers = torch.randn(8, 3) + step
    whole = [t.clone().requires_grad_() for t in (numbers, up, down)]
    wanted = torch.tanh(whole[0] @ whole[1].t()) @ whole[2].t()
    wanted.square().sum().backward()
    given = numbers.to("hpu").requires_grad_()
    half.zero_grad()
    before = counts("runs_by_call")
    y = half(given)
    y.square().sum().backward()
    assert counts("runs_by_call") == before
    near = dict(rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(y.detach().cpu(), wanted.detach(), **near)
    torch.testing.assert_close(given.grad.cpu(), whole[0].grad, **near)
    torch.testing.assert_close(half.up.grad.cpu(), whole[1].grad.chunk(size)[rank], **near)
    torch.testing.assert_close(half.down.grad.cpu(), whole[2].grad.chunk(size, 1)[rank], **near)
assert report().eager_segments == 0, str(report())
""",
    )


def test_captures_refuse_by_name_what_has_no_functional_form() -> None:
    outputs = expect_success(
        1,
        """
rank, size = start()
x = torch.ones(3, device="hpu")
dist.all_reduce(x)
calls = {
    "barrier": dist.barrier,
    "gather": lambda: dist.gather(x, [torch.empty_like(x)]),
    "reduce": lambda: dist.reduce(x, 0),
    "all_to_all": lambda: dist.all_to_all([torch.empty_like(x)], [x]),
}
for call in calls.values():
    try:
        with torch.hpu.graph(torch.hpu.HPUGraph()):
            call()
    except (RuntimeError, ValueError) as error:
        print(str(error).splitlines()[0])
dist.all_reduce(x)
equal(x, torch.ones(3))
""",
    )
    lines = outputs[0].splitlines()
    assert len(lines) == 4
    for line, name in zip(lines, ("barrier", "gather", "reduce", "all_to_all"), strict=True):
        assert f"and {name} cannot be part of it" in line, line


def test_what_no_collective_reduces_is_refused_at_its_call() -> None:
    expect_success(
        2,
        f"""{SETUP}
try:
    dist.all_reduce(x > 0, dist.ReduceOp.AVG)
except TypeError as error:
    assert "cannot average booleans" in str(error), error
else:
    raise AssertionError("the call was recorded")
""",
        LAZY,
    )
