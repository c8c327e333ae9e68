"""HPU graphs that a program captures by hand: HPUGraph, graph, make_graphed_callables."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from both_modes import close, matrix
from both_modes import mode as mode
from torch import nn


def test_a_replay_reads_and_writes_the_same_memory():
    x, weight = matrix(3, 4).to("hpu"), matrix(4, 4).to("hpu")
    counter = torch.zeros(1, device="hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        assert torch.hpu.is_current_stream_capturing()
        result = (x @ weight).relu()
        view = result.t()[1:]
        counter.add_(1)
    close(counter, torch.ones(1))  # the end of the capture has run it
    close(result, (matrix(3, 4) @ matrix(4, 4)).relu())
    for value in (1.0, -3.0):
        x.fill_(value)
        graph.replay()
        wanted = (torch.full((3, 4), value) @ matrix(4, 4)).relu()
        close(result, wanted)
        close(view, wanted.t()[1:])
    close(counter, torch.full((1,), 3.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=x.device),
        lambda x: x + torch.ones(3).to(x.device),
        lambda x: x * torch.tensor(3.0, device=x.device),
        lambda x: x[[2, 0]],
    ],
    ids=["list", "tensor", "number", "indices"],
)
def test_tensors_from_the_cpu_are_constants(function):
    x = matrix(3).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        result = function(x)
    x.fill_(2.0)
    graph.replay()
    close(result, function(torch.full((3,), 2.0)))


def test_a_dry_run_waits_for_the_first_replay():
    x = matrix(3).to("hpu")
    torch.hpu.synchronize()
    for graph in (torch.hpu.HPUGraph(), torch.hpu.HPUGraph()):
        with torch.hpu.graph(graph, dry_run=True):
            x.mul_(2)
        close(x, matrix(3))
    graph.replay()
    close(x, matrix(3) * 2)


def test_pools_are_names():
    first, second = torch.hpu.graph_pool_handle(), torch.hpu.graph_pool_handle()
    assert first != second
    x = matrix(3).to("hpu")
    graph, other = torch.hpu.HPUGraph(), torch.hpu.HPUGraph()
    with torch.hpu.graph(graph, pool=first):
        doubled = x * 2
    other.capture_begin(pool=graph.pool())
    tripled = x * 3
    other.capture_end()
    assert graph.pool() == other.pool() == first
    graph.replay()
    other.replay()
    close(doubled, matrix(3) * 2)  # a common pool is no common memory
    close(tripled, matrix(3) * 3)


def test_begin_and_end_on_a_stream_of_ones_own():
    x = matrix(5).to("hpu")
    torch.hpu.synchronize()
    graph = torch.hpu.HPUGraph()
    with torch.hpu.stream(torch.hpu.Stream()):
        graph.capture_begin()
        result = x * 2
        graph.capture_end()
    x.add_(1)
    graph.replay(asynchronous=True)
    close(result, (matrix(5) + 1) * 2)


def test_a_whole_training_step():
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    ours = copy.deepcopy(theirs).to("hpu")
    x, y = matrix(4, 6), matrix(4, 3)
    x_hpu, y_hpu = x.to("hpu"), y.to("hpu")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (theirs, ours)]

    def step(model, optimizer, x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(theirs, optimizers[0], x, y)
    step(ours, optimizers[1], x_hpu, y_hpu)  # makes gradients and momenta
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        loss = step(ours, optimizers[1], x_hpu, y_hpu)
    for replay in range(4):
        if replay > 0:
            graph.replay()
        close(loss, step(theirs, optimizers[0], x, y))


def test_random_numbers_go_on_from_replay_to_replay():
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        drawn = torch.rand(64, device="hpu")
    seen = []
    for seed in (3, None, 3):
        if seed is not None:
            torch.manual_seed(seed)
        graph.replay()
        seen.append(drawn.cpu())
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0], seen[1])


def test_inputs_by_list():
    """The bridge's replayV2 and replayV3."""
    a, b = torch.zeros(3, device="hpu"), torch.zeros(3, device="hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        result = a - b
    graph.mark_user_inputs([a, b])
    assert graph.get_user_input_match_indices() == [0, 1]
    graph.replayV2([a], [torch.ones(3)])
    close(result, torch.ones(3))
    graph.replayV3([torch.full((3,), 5.0), torch.full((3,), 2.0)])
    close(result, torch.full((3,), 3.0))


REFUSED = {
    "aten::_local_scalar_dense": lambda x: x.sum().item(),
    "a copy from or to the CPU": lambda x: x.cpu(),
    "aten::_linalg_svd": lambda x: torch.linalg.svdvals(x),
    "aten::nonzero": lambda x: x.nonzero(),
    "a wait for it": lambda x: torch.hpu.current_stream().synchronize(),
    "a wait for the device": lambda x: torch.hpu.synchronize(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_captured_is_named_and_undone(what):
    x = matrix(3, 3).to("hpu")
    torch.hpu.synchronize()
    graph = torch.hpu.HPUGraph()

    def capture():
        with torch.hpu.graph(graph):
            x.mul_(2)
            REFUSED[what](x)

    with pytest.raises(RuntimeError, match=f"a graph is captured.*{what}.*cannot be part of it"):
        capture()
    close(x, matrix(3, 3))
    with torch.hpu.graph(graph):
        x.mul_(2)
    graph.replay()
    close(x, matrix(3, 3) * 4)


def test_an_error_that_the_program_swallows_comes_back_at_the_end():
    x = matrix(3).to("hpu")
    torch.hpu.synchronize()
    graph = torch.hpu.HPUGraph()
    graph.capture_begin()
    y = x + 1
    with pytest.raises(RuntimeError, match=r"cannot be part of it at .*test_captures\.py:\d+;"):
        y.tolist()
    with pytest.raises(RuntimeError, match=r"given up, because .* of it at .*_captures\.py:\d+"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="has no value"):
        y.tolist()


def test_an_exception_in_the_block_gives_the_capture_up():
    x = matrix(3).to("hpu")

    def capture():
        with torch.hpu.graph(torch.hpu.HPUGraph()):
            x.add_(1)
            raise KeyError("the user's own")

    with pytest.raises(KeyError):
        capture()
    close(x, matrix(3))


def test_misuse():
    graph = torch.hpu.HPUGraph()
    with pytest.raises(RuntimeError, match="has no capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="has no capture on the current stream"):
        graph.capture_end()
    with torch.hpu.graph(graph), pytest.raises(RuntimeError, match="already captured"):
        torch.hpu.HPUGraph().capture_begin()
    with pytest.raises(RuntimeError, match=r"has a capture; reset\(\) drops it"):
        graph.capture_begin()
    graph.reset()
    with torch.hpu.graph(graph):
        pass
    graph.replay()  # of nothing


def test_the_graph_keeps_its_memory_and_gives_it_back():
    before = torch.hpu.memory_allocated()
    x = torch.ones(1 << 18, device="hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        result = x * 3
    del x
    graph.replay()
    close(result[:2], torch.full((2,), 3.0))
    del result
    graph.replay()
    graph.reset()
    gc.collect()
    torch.hpu.synchronize()
    assert torch.hpu.memory_allocated() <= before + 4096


def test_its_program_is_written_as_text(tmp_path):
    x = matrix(3).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        result = x * 3
    graph.debug_dump(tmp_path / "graph.txt")
    assert "launch" in (tmp_path / "graph.txt").read_text()
    assert result.shape == (3,)


def modules() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    return model, copy.deepcopy(model).to("hpu")


@pytest.mark.parametrize("sample", [torch.ones(4, 6), torch.ones(4, 6, device="hpu")])
def test_graphed_modules_train(sample):
    theirs, ours = modules()
    graphed = torch.hpu.make_graphed_callables(ours, (sample,), warmups=1)
    assert graphed is ours
    for scale in (1.0, 0.5):
        x = matrix(4, 6) * scale
        for model, batch in ((theirs, x), (graphed, x.to("hpu"))):
            model.zero_grad()
            model(batch).square().sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            close(a.grad, b.grad)
    ours.eval()
    close(ours(matrix(2, 6).to("hpu")), theirs(matrix(2, 6)))  # not captured in this mode


def test_graphed_functions_give_gradients_of_their_inputs():
    sample = torch.ones(3, requires_grad=True)
    first, second = torch.hpu.make_graphed_callables(
        (lambda x: {"twice": x * 2, "square": x * x}, torch.sin), ((sample,), torch.ones(2))
    )
    ours = matrix(3).to("hpu").requires_grad_()
    results = first(ours)
    (results["twice"].sum() + results["square"].sum()).backward()
    close(ours.grad, 2 + 2 * matrix(3))
    close(second(matrix(2).to("hpu")), matrix(2).sin())
    with pytest.raises(TypeError, match="another structure"):
        first(ours, ours)


def test_modules_that_cannot_be_captured():
    _, ours = modules()
    ours.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="hooks cannot be captured"):
        torch.hpu.make_graphed_callables(ours, (torch.ones(4, 6),))


def test_a_dropped_graph_gives_its_capture_up():
    x = matrix(3).to("hpu")
    graph = torch.hpu.HPUGraph()
    graph.capture_begin()
    y = x * 2
    with pytest.raises(RuntimeError, match="has no capture on the current stream"):
        torch.hpu.HPUGraph().capture_end()
    del graph
    gc.collect()
    assert not torch.hpu.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="has no value"):
        y.cpu()
    close(x * 2, matrix(3) * 2)


def test_an_address_in_a_capture_is_refused():
    x = matrix(3).to("hpu")
    torch.hpu.synchronize()
    graph = torch.hpu.HPUGraph()
    graph.capture_begin()
    y = x * 2
    with pytest.raises(RuntimeError, match="a use of its storage cannot be part of it"):
        y.data_ptr()


def test_gradients_accumulate():
    """A replay of the backward does not write to what autograd has kept."""
    theirs, ours = modules()
    graphed = torch.hpu.make_graphed_callables(ours, (torch.ones(4, 6),))
    for scale in (1.0, 0.5, 2.0):
        x = matrix(4, 6) * scale
        theirs(x).square().sum().backward()
        graphed(x.to("hpu")).square().sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad)


def test_results_that_are_no_tensors_stay_the_same():
    graphed = torch.hpu.make_graphed_callables(lambda x: (x * 2, None, 3), (torch.ones(2),))
    doubled, nothing, three = graphed(matrix(2).to("hpu"))
    close(doubled, matrix(2) * 2)
    assert nothing is None
    assert three == 3


def test_arguments_by_name_in_any_order():
    def function(x, y, scale=2):
        return (x - y) * scale

    sample = torch.ones(3)
    graphed = torch.hpu.make_graphed_callables(function, (sample, sample), num_warmup_iters=1)
    x, y = matrix(3).to("hpu"), torch.ones(3, device="hpu")
    close(graphed(y=y, x=x), (matrix(3) - 1) * 2)
    close(graphed(x, y=y), (matrix(3) - 1) * 2)
    with pytest.raises(TypeError, match="another structure"):
        graphed(x, y, scale=3)
    with pytest.raises(TypeError, match=r"float32 \[2\] in the place of torch.float32 \[3\]"):
        graphed(x, y[:2])


def test_an_unused_argument():
    def function(x, y):
        return x * 2

    samples = (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.hpu.make_graphed_callables(function, samples)
    graphed = torch.hpu.make_graphed_callables(function, samples, allow_unused_input=True)
    x, y = (matrix(3).to("hpu").requires_grad_() for _ in range(2))
    graphed(x, y).sum().backward()
    close(x.grad, torch.full((3,), 2.0))
    assert y.grad is None


def test_arguments_in_another_layout_are_copied():
    graphed = torch.hpu.make_graphed_callables(
        lambda x: x.square(), (torch.ones(3, 4, requires_grad=True),)
    )
    x = matrix(4, 3).to("hpu").requires_grad_()
    graphed(x.t()).sum().backward()
    close(x.grad, 2 * matrix(4, 3))


def test_a_backward_may_be_late():
    """A later call does not touch what an earlier one keeps for its backward."""
    graphed = torch.hpu.make_graphed_callables(
        lambda x: x.sin().exp(), (torch.ones(3, requires_grad=True),)
    )
    inputs = [(matrix(3) + shift).to("hpu").requires_grad_() for shift in (0.0, 1.0, 2.0)]
    results = [graphed(x) for x in inputs]
    for x, result in zip(reversed(inputs), reversed(results), strict=True):
        result.sum().backward()
        want = x.detach().cpu().requires_grad_()
        want.sin().exp().sum().backward()
        close(result, want.sin().exp())
        close(x.grad, want.grad)


def test_a_capture_of_a_type_without_recipes():
    x = matrix(3).double().to("hpu")
    torch.hpu.synchronize()
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        result = x * 2
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        close(result, torch.full((3,), 2 * value).double())
