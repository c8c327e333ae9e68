"""PT_HPU_LAZY_MODE and the functions of lazy mode: guide section 2, bridge.md section 3."""

from __future__ import annotations

import pytest
from processes import output_of, run_python


@pytest.mark.parametrize("value", ["0", "", "0x0"])
def test_eager_mode_is_the_default(value):
    code = (
        "import torch, habana_frameworks.torch as h\n"
        "from habana_frameworks.torch.utils.internal import is_lazy\n"
        "from habana_frameworks.torch.utils import load_habana_module\n"
        "load_habana_module(); assert torch.hpu is h.hpu and not is_lazy()\n"
    )
    assert "LAZY" not in output_of(code, PT_HPU_LAZY_MODE=value).stderr


def test_lazy_mode():
    """MODE-3: read at the import. MODE-18: the program is the same."""
    code = (
        "import torch, habana_frameworks.torch as ht, habana_frameworks.torch.core as htcore\n"
        "runs = lambda: ht.native.torch_module().recorder_counts()['runs']\n"
        "x = torch.ones(3, device='hpu').add_(1); before = runs(); htcore.mark_step()\n"
        "print(before, runs(), x.sum().item(), ht.utils.internal.is_lazy())\n"
        "done = []; ht.utils.internal.lazy_only(done.append)(1); assert done == [1]\n"
    )
    done = output_of(code, PT_HPU_LAZY_MODE="1")
    assert done.stdout.split() == ["0", "1", "6.0", "True"]
    assert done.stderr == ""


_TWICE = """
import torch
for _ in range(2):
    try:
        import habana_frameworks.torch
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("limit", ["0", "-3", "x"])
def test_limit_of_calls_that_makes_no_sense(limit):
    """PyTorch imports the package first and says nothing."""
    told = output_of(_TWICE, PT_HPU_LAZY_MODE="1", PT_HPU_MAX_COMPOUND_OP_SIZE=limit).stdout
    first, second = told.splitlines()
    assert first == second
    assert first.startswith("PT_HPU_MAX_COMPOUND_OP_SIZE=")


@pytest.mark.parametrize(
    "flag", ["PT_COMPILE_ONLY_MODE", "PT_HPU_SYNC_LAUNCH", "PT_HPU_ENABLE_LAZY_COLLECTIVES"]
)
def test_switches_that_make_no_sense(flag):
    first, second = output_of(_TWICE, **{flag: "perhaps"}).stdout.splitlines()
    assert first == second and first.startswith(f"{flag}='perhaps': expected one of on/1/")


@pytest.mark.parametrize(("value", "text"), [("2", "PT_HPU_LAZY_MODE=2"), ("x", "'x': expected a")])
def test_mode_that_does_not_exist(value, text):
    done = run_python("import habana_frameworks.torch", PT_HPU_LAZY_MODE=value)
    assert done.returncode != 0 and text in done.stderr
    assert "0 (eager and torch.compile) or 1" in done.stderr


def test_mark_step_warns_once_and_does_nothing():
    code = (
        "import habana_frameworks.torch.core as htcore\n"
        "htcore.mark_step(); htcore.mark_step('hpu', sync=True); htcore.iter_mark_step()\n"
        "done = []; htcore.add_step_closure(done.append, (1,)); assert done == [1]\n"
    )
    assert output_of(code).stderr.count("do nothing in eager mode") == 1


def test_step_closures_run_in_order_at_the_step():
    """OUT-4, bridge.md section 3; closures that a closure adds wait for the next step."""
    code = (
        "import habana_frameworks.torch.core as htcore\n"
        "done = []\n"
        "htcore.add_step_closure(done.append, (1,))\n"
        "htcore.add_step_closure(lambda: htcore.add_step_closure(done.append, (3,)))\n"
        "htcore.add_step_closure(done.append, [2])\n"
        "assert done == []; htcore.mark_step(); assert done == [1, 2], done\n"
        "htcore.iter_mark_step(); assert done == [1, 2, 3], done\n"
        "htcore.mark_step(); assert done == [1, 2, 3], done\n"
    )
    output_of(code, PT_HPU_LAZY_MODE="1")


def test_mark_step_with_sync_waits(monkeypatch):
    from habana_frameworks.torch import core, hpu

    waits = []
    monkeypatch.setattr(hpu, "synchronize", lambda: waits.append(1))
    core.mark_step()
    assert waits == []
    core.mark_step("hpu", True)
    assert waits == [1]


def test_mark_step_dumps_metrics(tmp_path):
    path = tmp_path / "metrics.json"
    output_of(
        "import habana_frameworks.torch.core as htcore\nhtcore.mark_step()\n",
        PT_HPU_METRICS_FILE=str(path),
        PT_HPU_METRICS_DUMP_TRIGGERS="mark_step",
    )
    assert '"triggered_by": "mark_step"' in path.read_text()


@pytest.mark.parametrize("mode", ["0", "1"])
def test_steps_inside_a_compiled_function_do_not_break_its_graph(mode):
    """Most public models call mark_step in forward()."""
    code = (
        "import torch, habana_frameworks.torch as ht, habana_frameworks.torch.core as htcore\n"
        "def function(x):\n"
        "    y = x + 1; htcore.mark_step(); htcore.iter_mark_step()\n"
        "    with ht.hpu.sdp_kernel(enable_recompute=False):\n"
        "        z = torch.relu(y) * 2\n"
        "    htcore.mark_step(sync=True)\n"
        "    return z + y\n"
        "with torch.no_grad():\n"
        "    compiled = torch.compile(function, backend='hpu_backend', fullgraph=True)\n"
        "    print(compiled(torch.ones(3, device='hpu')).tolist())\n"
        "names = [graph.name for graph in ht.dynamo.report().graphs]\n"
        "names = [name for name in names if name.startswith('graph_')]\n"
        "print(len(names), ht.hpu.recompute_sdp_enabled())\n"
    )
    done = output_of(code, PT_HPU_LAZY_MODE=mode)
    assert done.stdout.splitlines() == ["[6.0, 6.0, 6.0]", "1 True"]
    assert "Dynamo detected" not in done.stderr


def test_lazy_only_function_does_nothing_and_says_so(told):
    from habana_frameworks.torch.utils.internal import lazy_only

    calls = []

    @lazy_only
    def flush(x):
        calls.append(x)

    assert flush(1) is None and flush(2) is None and calls == []
    assert told() == ["flush() has no effect: it exists in lazy mode only"]


def test_timer():
    from habana_frameworks.torch.utils.internal import Timer

    with Timer() as timer:
        sum(range(1000))
    assert 0 < timer.elapsed == timer.end_t - timer.start_t
