"""Lazy mode: what is recorded, when it runs, and that its results are those of the CPU (guide
MODE-17 to MODE-22)."""

from __future__ import annotations

import copy
import io
import threading

import pytest
import torch
from both_modes import close, matrix
from lazy_case import Counts, lazy_mode, mark_step, recorded
from processes import output_of
from torch import nn

from habana_frameworks.torch import dynamo, native

_torch = native.torch_module()


@pytest.fixture(autouse=True)
def _in_lazy_mode():
    with lazy_mode():
        yield


def test_nothing_runs_before_an_element_is_needed():
    counts = Counts()
    x = matrix(4, 4).to("hpu")
    y = (x @ x + 1).relu()
    assert (recorded(), counts.runs) == (3, 0)
    close(y, (matrix(4, 4) @ matrix(4, 4) + 1).relu())
    assert (recorded(), counts.runs, counts.calls, counts.runs_by_call) == (0, 1, 3, 0)


def test_tensors_on_the_cpu_are_copied_to_the_device():
    """Scripts for lazy mode compare results with labels that are on the CPU."""
    x, labels = matrix(2, 3), torch.tensor([2, 0])
    hits = x.to("hpu").max(1)[1].eq(labels)
    assert hits.tolist() == [True, False]
    close(labels + x.to("hpu").max(1)[1], labels + x.max(1)[1])
    close(torch.cat([x, x.to("hpu")]), torch.cat([x, x]))
    with pytest.raises(RuntimeError, match="same device"):
        x.add_(x.to("hpu"))  # nobody would see what is written to a copy


NEEDS = {
    "item": lambda t: t.sum().item(),
    "cpu": lambda t: t.cpu(),
    "tolist": lambda t: t.tolist(),
    "control flow": lambda t: bool(t.sum() > 0),
    "print": lambda t: str(t),
    "sizes that depend on data": lambda t: t.nonzero(),
    "an operator that no recipe holds": lambda t: torch.linalg.svdvals(t),
    "mark_step": lambda t: mark_step(),
    "synchronize": lambda t: torch.hpu.synchronize(),
    "an event": lambda t: torch.hpu.Event().record(),
    "the generator's state": lambda t: torch.hpu.get_rng_state(),
    "a copy to memory that a call reads": lambda t: t.copy_(torch.ones(3, 3)),
    "an address": lambda t: _torch.data_address(t),
}


@pytest.mark.parametrize("need", NEEDS.values(), ids=NEEDS)
def test_what_runs_a_recording(need):
    x = matrix(3, 3).to("hpu")
    x.add_(1)
    counts = Counts()
    need(x)
    assert counts.runs >= 1
    close(x, torch.ones(3, 3) if "copy_" in need.__code__.co_names else matrix(3, 3) + 1)


def test_the_same_calls_are_compiled_once():
    weight = matrix(4, 4).to("hpu")

    def step() -> torch.Tensor:
        result = (weight @ weight).softmax(-1)
        mark_step()
        return result

    first = step()
    counts = Counts()
    for _ in range(5):
        assert torch.equal(step().cpu(), first.cpu())
    assert (counts.runs, counts.compilations) == (5, 0)


def test_a_result_that_nobody_holds_gets_no_memory():
    x = torch.ones(1 << 20, device="hpu")
    mark_step()
    torch.hpu.reset_peak_memory_stats()
    before = torch.hpu.memory_allocated()
    y = x * 2
    for _ in range(20):
        y = y + 1
    kept = y * 3
    del y
    mark_step()
    torch.hpu.synchronize()
    assert torch.hpu.memory_allocated() - before == 4 << 20
    assert torch.hpu.max_memory_allocated() - before < 12 << 20
    close(kept[:3], torch.full((3,), 66.0))


def test_what_is_held_decides_on_the_program():
    x = matrix(8).to("hpu")
    a = x + 1
    b = a * 2
    close(b, (matrix(8) + 1) * 2)
    c = x + 1
    d = c * 2
    del c
    close(d, (matrix(8) + 1) * 2)
    close(a, matrix(8) + 1)


WRITES = {
    "in place": lambda t: t.mul_(2).add_(1),
    "a row": lambda t: t[1].fill_(7),
    "a column of a transpose": lambda t: t.t()[2].mul_(3),
    "a block": lambda t: t[1:3, 2:].copy_(torch.ones(2, 4, device=t.device)),
    "two views of one memory": lambda t: (t[0].add_(1), t[:, 0].mul_(2)),
    "every other column": lambda t: t[:, ::2].zero_(),
    "a view of a view": lambda t: t.view(4, 2, 3)[:, 1].t()[0].fill_(5),
    "a diagonal": lambda t: t.diagonal().fill_(9),
    "out=": lambda t: torch.add(t, t, out=t),
    "out= of another size": lambda t: t.copy_(torch.add(t, 1, out=torch.empty(0, device=t.device))),
    "by indices": lambda t: t.index_put_((torch.tensor([0, 2], device=t.device),), t[0] + 1),
    "by a mask": lambda t: t.masked_fill_(t > 0, -1),
    "scatter": lambda t: t.scatter_(1, torch.tensor([[0], [3]], device=t.device), 4.0),
    "overlapping": lambda t: t.view(-1)[1:].copy_(t.view(-1)[:-1].clone()),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes(write):
    ours, theirs = matrix(4, 6).to("hpu"), matrix(4, 6)
    made = ours + 0  # a result of a recorded call, beside memory that was there before
    made_theirs = theirs + 0
    version = ours._version
    for tensor in (ours, made, theirs, made_theirs):
        write(tensor)
    close(ours, theirs)
    close(made, made_theirs)
    assert ours._version - version == theirs._version


def test_the_caller_may_change_a_number_on_the_cpu_before_the_call_runs():
    number = torch.tensor(2.0)
    x = matrix(3).to("hpu") * number
    number.fill_(5)
    close(x, matrix(3) * 2)


def test_random_numbers_are_those_of_eager_mode():
    def draw() -> list[torch.Tensor]:
        torch.manual_seed(3)
        first = torch.rand(5, device="hpu")
        second = nn.functional.dropout(torch.ones(64, device="hpu"), 0.5)
        state = torch.hpu.get_rng_state()
        third = torch.randn(4, device="hpu")
        torch.hpu.set_rng_state(state)
        return [first.cpu(), second.cpu(), third.cpu(), torch.randn(4, device="hpu").cpu()]

    lazily = draw()
    assert torch.equal(lazily[2], lazily[3])
    _torch.stop_recording()
    for ours, theirs in zip(lazily, draw(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_numbers_that_vary_become_inputs():
    """A schedule of learning rates, as in SGD, and Adam's corrections."""
    counts = Counts()
    ours, theirs = matrix(6).to("hpu"), matrix(6)
    for step in range(1, 9):
        rate = 0.1 / step
        for p in (ours, theirs):
            p.add_(torch.ones(6, device=p.device), alpha=-rate)
            p.addcdiv_(p, p.abs() + 1, value=rate)
            p.mul_(1 - rate)
        mark_step()
    close(ours, theirs)
    assert counts.compilations == 2


def test_numbers_that_cannot_be_inputs_are_part_of_the_program():
    for slope in (0.1, 0.2, 0.3):
        close(
            nn.functional.leaky_relu(matrix(6).to("hpu"), slope),
            nn.functional.leaky_relu(matrix(6), slope),
        )


def test_sequences_that_never_come_again_are_not_compiled_for_ever():
    counts = Counts()
    x = torch.zeros(1, device="hpu")
    for _ in range(30):
        x = torch.cat([x, x[:1] + 1])
        mark_step()
    close(x, torch.tensor([0.0] + [1.0] * 30))
    assert (counts.runs, counts.compilations) == (30, 6)
    assert counts.runs_by_call == 24


def test_writes_to_parts_of_a_large_tensor_cost_no_copy_of_the_rest():
    """As those to a flat buffer of gradients; some of the parts overlap."""
    large = torch.zeros(1 << 22, device="hpu")
    mark_step()
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    torch.hpu.reset_peak_memory_stats()
    large[1000:6000].view(50, 100).add_(matrix(50, 100).to("hpu"))
    large[1500:1600].mul_(2)
    large[9000:9010].add_(1)
    large[100:200].copy_(large[9005:9105])
    mark_step()
    torch.hpu.synchronize()
    assert torch.hpu.max_memory_allocated() - before < large.nbytes / 2
    wanted = torch.zeros(1 << 22)
    wanted[1000:6000].view(50, 100).add_(matrix(50, 100))
    wanted[1500:1600].mul_(2)
    wanted[9000:9010].add_(1)
    wanted[100:200].copy_(wanted[9005:9105])
    close(large, wanted)


def test_threads_and_streams():
    """Each thread works on a stream of its own, and reads what another one has recorded."""
    shared = matrix(16).to("hpu") * 2
    first = torch.hpu.current_stream()
    results: dict[int, torch.Tensor] = {}

    def work(seed: int) -> None:
        with torch.hpu.stream(torch.hpu.Stream()) as stream:
            stream.wait_stream(first)
            value = shared + seed
            for _ in range(20):
                value = value * 0.5 + 1
            results[seed] = value.cpu()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, result in results.items():
        value = matrix(16) * 2 + seed
        for _ in range(20):
            value = value * 0.5 + 1
        torch.testing.assert_close(result, value)
    assert len(results) == 6


def test_tensors_are_copied_and_saved():
    x = matrix(4).to("hpu") * 3
    stream = io.BytesIO()
    torch.save({"x": x, "half": (x * 2).half()}, stream)
    stream.seek(0)
    loaded = torch.load(stream)
    close(loaded["x"], matrix(4) * 3)
    close(loaded["half"], (matrix(4) * 6).half())
    close(copy.deepcopy(x + 1), matrix(4) * 3 + 1)


def test_a_compiled_function_reads_and_writes_what_is_recorded():
    function = torch.compile(lambda a, b: a.add_(b).relu(), backend="hpu_backend")
    a, b = matrix(6).to("hpu") * 2, matrix(6).to("hpu") + 1
    result = function(a, b) * 3
    wanted = (matrix(6) * 3 + 1).relu() * 3
    close(result, wanted)
    close(a, matrix(6) * 3 + 1)


def test_a_long_loop_without_steps_runs_in_pieces():
    """It says so once. The results are on their way while a piece runs."""
    code = (
        "import torch, habana_frameworks.torch as ht\n"
        "x = torch.zeros(3, device='hpu')\n"
        "for _ in range(100): x = x + 1\n"
        "print(x.tolist(), ht.native.torch_module().recorder_counts()['runs'])\n"
    )
    done = output_of(code, PT_HPU_LAZY_MODE="1", PT_HPU_MAX_COMPOUND_OP_SIZE="25")
    assert done.stdout.split("] ") == ["[100.0, 100.0, 100.0", "5\n"]
    assert done.stderr.count("without mark_step()") == 1


def test_the_report_has_recordings_with_the_line_that_needed_them():
    dynamo.reset()
    x = matrix(4).to("hpu")
    ours = (x * 2.25 + 1).cpu()
    close(ours, matrix(4) * 2.25 + 1)
    (graph,) = dynamo.report().graphs
    assert graph.name.startswith("recording_") and graph.nodes == 2
    assert graph.origin in ("compiled", "store") and not graph.eager_nodes
    assert graph.source.rpartition(":")[0] == __file__


def test_a_process_ends_with_work_that_nobody_needs():
    code = "import torch, habana_frameworks.torch\nx = torch.ones(3, device='hpu') * 2\n"
    done = output_of(code, PT_HPU_LAZY_MODE="1")
    assert done.stderr == ""


def test_data_ptr_gives_memory():
    code = (
        "import torch, habana_frameworks.torch\n"
        "x = torch.ones(3, device='hpu') * 2\n"
        "assert x.data_ptr() == x.untyped_storage().data_ptr() != 0\n"
        "y = torch.empty(4, device='hpu'); assert y.untyped_storage().data_ptr() != 0\n"
        "print(x.tolist())\n"
    )
    assert output_of(code, PT_HPU_LAZY_MODE="1").stdout == "[2.0, 2.0, 2.0]\n"


def test_a_recording_runs_on_its_own_stream():
    """Whoever needs it, on whatever stream."""
    code = (
        "import torch, habana_frameworks.torch\n"
        "x = torch.ones(1 << 16, device='hpu')\n"
        "side = torch.hpu.Stream()\n"
        "for _ in range(20):\n"
        "    y = x * 2 + 1\n"
        "    with torch.hpu.stream(side):\n"
        "        side.wait_stream(torch.hpu.default_stream())\n"
        "        z = y * 3\n"
        "    torch.hpu.default_stream().wait_stream(side)\n"
        "    x = z - 8\n"
        "print(x.unique().tolist())\n"
    )
    assert output_of(code, PT_HPU_LAZY_MODE="1", EMULATOR_STRICT="1").stdout == "[1.0]\n"


def test_storages_change_their_size():
    """As programs do that free the memory of parameters and restore it."""
    x = torch.arange(1.0, 5.0).to("hpu") + 1
    view = x[:2]
    twice = view * 2
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(16)
    x.fill_(2)
    close(x, torch.full((4,), 2.0))
    close(view, torch.full((2,), 2.0))
    close(twice, torch.tensor([4.0, 6.0]))
    x.untyped_storage().resize_(32)
    close(x * 1, torch.full((4,), 2.0))


def test_programs_are_forgotten():
    def step() -> None:
        close(matrix(5).to("hpu") * 1.1875 - 2, matrix(5) * 1.1875 - 2)

    step()
    counts = Counts()
    step()
    assert counts.compilations == 0
    _torch.forget_call_programs()
    step()
    assert counts.compilations == 1
