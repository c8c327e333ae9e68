"""PT_COMPILE_ONLY_MODE: programs are compiled and stored, and nothing is launched.

The results of a run afterwards are compared with the CPU's. Launches are counted by the runtime.
"""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process
from lazy_case import Counts, lazy_mode, mark_step
from processes import output_of, run_python
from torch import nn

import habana_frameworks.torch as ht
from habana_frameworks.torch import dynamo, native
from habana_frameworks.torch.dynamo.programs.service import service
from habana_frameworks.torch.internal import bridge_config

_MODE = "PT_COMPILE_ONLY_MODE"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(bridge_config, "_set_values", {})
    fresh_process()
    yield
    native.torch_module().set_compile_only(False)


class Launches:
    """Recipe launches since this object was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def _now(self) -> int:
        return int(native.torch_module().launch_counters()["launches"])

    @property
    def count(self) -> int:
        return self._now() - self._before


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def test_a_graph_is_compiled_and_not_launched_and_runs_later():
    cpu, on_hpu = model(), model().to("hpu")
    compiled = torch.compile(on_hpu, backend="hpu_backend", dynamic=False)
    x = torch.randn(3, 8)
    launches = Launches()
    with torch.no_grad(), bridge_config.env_setting(_MODE, True):
        got = compiled(x.to("hpu"))
        assert launches.count == 0
        assert (got.shape, got.dtype, got.device.type) == ((3, 4), torch.float32, "hpu")
        assert dynamo.report().compilations == 1
        # New memory is cleared: code that reads a result gets zeros.
        assert torch.equal(got.cpu(), torch.zeros(3, 4))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x.to("hpu")).cpu(), cpu(x))
    assert launches.count == 1
    assert dynamo.report().compilations == 1
    assert len(dynamo.report().graphs) == 1


def test_the_program_is_in_the_store(private_cache, monkeypatch):
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))
    service.reset()

    def function(x):
        return torch.tanh(x) * 3 + 1

    with torch.no_grad(), bridge_config.env_setting(_MODE, True):
        torch.compile(function, backend="hpu_backend")(torch.ones(5, device="hpu"))
    fresh_process()
    service.forget_programs()
    launches = Launches()
    with torch.no_grad():
        got = torch.compile(function, backend="hpu_backend")(torch.ones(5, device="hpu"))
    torch.testing.assert_close(got.cpu(), function(torch.ones(5)))
    assert dynamo.report().graphs[-1].origin == "store"
    assert launches.count == 1
    service.reset()


def test_what_a_graph_would_write_stays_as_it_is():
    def step(cache, x, place):
        cache.index_copy_(0, place, x)
        return cache.sum(1)

    cache = torch.arange(12.0).reshape(4, 3)
    compiled = torch.compile(step, backend="hpu_backend", dynamic=False)
    on_hpu, place, x = cache.to("hpu"), torch.tensor([2]), torch.full((1, 3), 9.0)
    with torch.no_grad(), bridge_config.env_setting(_MODE, True):
        compiled(on_hpu, x.to("hpu"), place.to("hpu"))
    assert torch.equal(on_hpu.cpu(), cache)
    with torch.no_grad():
        got = compiled(on_hpu, x.to("hpu"), place.to("hpu"))
    assert torch.equal(got.cpu(), step(cache, x, place))
    assert torch.equal(on_hpu.cpu(), cache)


def test_forward_and_backward_of_training_are_compiled():
    cpu, on_hpu = model().train(), model().train().to("hpu")
    compiled = torch.compile(on_hpu, backend="hpu_backend", dynamic=False)
    x = torch.randn(3, 8)
    launches = Launches()
    with bridge_config.env_setting(_MODE, True):
        compiled(x.to("hpu")).square().mean().backward()
        assert launches.count == 0
    gradients = [parameter.grad for parameter in on_hpu.parameters()]
    assert all(torch.equal(g.cpu(), torch.zeros(g.shape)) for g in gradients)
    before = dynamo.report().compilations
    on_hpu.zero_grad()
    compiled(x.to("hpu")).square().mean().backward()
    cpu(x).square().mean().backward()
    for ours, theirs in zip(on_hpu.parameters(), cpu.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
    assert dynamo.report().compilations == before


def test_an_eager_call_is_compiled_at_once_and_not_launched():
    x = torch.randn(7, 11)
    on_hpu = x.to("hpu")
    launches = Launches()
    with bridge_config.env_setting(_MODE, True):
        got = torch.erf(on_hpu)
        assert torch.equal(got.cpu(), torch.zeros(7, 11))
        in_place = on_hpu.clone()
        in_place.mul_(2)
    assert launches.count == 0
    assert torch.equal(in_place.cpu(), x)  # copies run, and mul_ does not
    calls = {c.operator: c for c in dynamo.report().operators}
    assert calls["erf"].recipes == 1
    torch.testing.assert_close(torch.erf(on_hpu).cpu(), torch.erf(x))
    assert launches.count == 1


def test_copies_and_fills_run():
    x = torch.randn(4, 5)
    with bridge_config.env_setting(_MODE, True):
        on_hpu = x.to("hpu")
        assert torch.equal(on_hpu.cpu(), x)
        assert torch.equal(torch.full((3,), 2.5, device="hpu").cpu(), torch.full((3,), 2.5))
        # The device's own fills have patterns of at most four bytes; this one is a program.
        assert torch.full((3,), 7, device="hpu").tolist() == [0, 0, 0]


def test_numbers_of_results_are_zero():
    x = torch.arange(6.0, device="hpu")
    with bridge_config.env_setting(_MODE, True):
        assert x.sum().item() == 0.0
        assert bool(x.gt(2).any()) is False
        # A size that depends on elements is that of a run on what the memory holds.
        assert torch.nonzero(x.gt(2)).shape == (0, 1)
        assert x[x.gt(2)].shape == (0,)
        assert x[3].item() == 3.0  # a view of what a copy filled


def test_a_cpu_kernel_does_not_stop_at_elements_that_were_not_computed():
    x = torch.randn(4, 10, device="hpu")
    with bridge_config.env_setting(_MODE, True):
        probabilities = x.softmax(-1)
        drawn = torch.multinomial(probabilities, 3)
        assert (drawn.shape, drawn.dtype, drawn.device.type) == ((4, 3), torch.int64, "hpu")
        out = torch.full((4, 2), 7).to("hpu")
        assert torch.multinomial(probabilities, 2, out=out) is out
        square = torch.full((2, 2), 7.0, device="hpu")
        assert torch.linalg.cholesky(square - square, out=square) is square
        # Wrong shapes are told as ever.
        with pytest.raises(RuntimeError, match="must be batches of square matrices"):
            torch.linalg.cholesky(torch.ones(2, 3, device="hpu"))
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        torch.multinomial(torch.zeros(4, 10, device="hpu"), 3)


def test_the_generator_goes_on_as_in_a_run():
    def state_after(mode: bool) -> torch.Tensor:
        torch.hpu.manual_seed(5)
        compiled = torch.compile(torch.rand_like, backend="hpu_backend", dynamic=False)
        with torch.no_grad(), bridge_config.env_setting(_MODE, mode):
            compiled(torch.ones(16, device="hpu"))
        return torch.hpu.get_rng_state()

    assert torch.equal(state_after(True), state_after(False))


def test_a_recording_of_lazy_mode():
    x = torch.randn(6)
    launches, counts = Launches(), Counts()
    with lazy_mode():
        on_hpu = x.to("hpu")
        with bridge_config.env_setting(_MODE, True):
            got = (on_hpu * 2).exp() + 1
            mark_step()
            assert torch.equal(got.cpu(), torch.zeros(6))
        assert launches.count == 0
        assert counts.compilations == 1
        got = (on_hpu * 2).exp() + 1
        mark_step()
        torch.testing.assert_close(got.cpu(), (x * 2).exp() + 1)
    assert counts.compilations == 1
    assert launches.count == 1


def test_an_hpu_graph_is_captured_and_replayed_later():
    cpu, on_hpu = model(), model().to("hpu")
    wrapped = ht.hpu.wrap_in_hpu_graph(on_hpu)
    x = torch.randn(2, 8)
    launches = Launches()
    with torch.no_grad(), bridge_config.env_setting(_MODE, True):
        assert wrapped(x.to("hpu")).shape == (2, 4)
        assert wrapped(x.to("hpu")).shape == (2, 4)
    assert launches.count == 0
    with torch.no_grad():
        torch.testing.assert_close(wrapped(x.to("hpu")).cpu(), cpu(x))
    assert launches.count == 1


def test_the_setter_acts_until_it_is_taken_back():
    x = torch.ones(3, device="hpu")
    bridge_config.set_pt_compile_only_mode(True)
    assert torch.equal(torch.cosh(x).cpu(), torch.zeros(3))
    with bridge_config.env_setting(_MODE, False):
        torch.testing.assert_close(torch.cosh(x).cpu(), torch.cosh(torch.ones(3)))
    assert torch.equal(torch.cosh(x).cpu(), torch.zeros(3))
    bridge_config.set_pt_compile_only_mode(False)
    torch.testing.assert_close(torch.cosh(x).cpu(), torch.cosh(torch.ones(3)))


_PROGRAM = """
import torch, habana_frameworks.torch as ht
print(torch.cosh(torch.zeros(2, device="hpu")).tolist())
"""


def test_the_environment_decides_at_the_import():
    assert output_of(_PROGRAM, PT_COMPILE_ONLY_MODE="1").stdout == "[0.0, 0.0]\n"
    assert output_of(_PROGRAM, PT_COMPILE_ONLY_MODE="0").stdout == "[1.0, 1.0]\n"
    done = run_python(_PROGRAM, PT_COMPILE_ONLY_MODE="maybe", PT_HPU_AUTOLOAD="0")
    assert "ImportError: PT_COMPILE_ONLY_MODE='maybe': expected one of on/1" in done.stderr


_FAILS = """
import torch, habana_frameworks.torch
f = torch.compile(lambda x: torch.cosh(x) * 2, backend="hpu_backend")
x = torch.ones(3, device="hpu")
with torch.no_grad():
    try:
        y = f(x)
        print("returned")
        torch.hpu.synchronize()
    except RuntimeError as error:
        print("failed", "launch" in str(error))
"""


@pytest.mark.parametrize("waits", ["0", "1"])
def test_sync_launch_raises_where_the_failure_arose(waits):
    done = output_of(_FAILS, PT_HPU_SYNC_LAUNCH=waits, HPU_EMULATOR_FAULTS="execution:1=26")
    assert ("returned" in done.stdout) is (waits == "0"), done.stdout
    assert "failed" in done.stdout
