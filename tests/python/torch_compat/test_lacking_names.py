"""A PyTorch that lacks a private name turns off the feature that needs it, says so, and the rest
works: each module of torch_compat/ and each replaced function in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from paths import ROOT, TESTS

from habana_frameworks.torch.torch_compat import features, replaced

sys.path.insert(0, str(ROOT / "tools"))

import private_names

DRIVER = str(TESTS / "lacking_process.py")
COMPAT = ROOT / "python/habana_frameworks/torch/torch_compat"
TIMEOUT_S = 400

_CAPTURE = {features.COMPILING, features.STARTS}
# The features that are off without a module. With None the import of the package fails, and the
# error names the module.
OFF = {
    "aot": set(),  # needed once a graph is partitioned
    "artifacts": {features.ARTIFACTS},
    "compile_context": {features.COMPILING},
    "compiled_autograd": set(),  # needed once it is asked for
    "config_module": _CAPTURE,
    "constants": None,
    "decomposition_table": {features.FAKE_RESULTS},
    "default_device": set(),  # needed by GPU migration
    "default_partition": set(),  # needed by partition_fn alone
    "device_interface": {features.DEVICE_INTERFACE},
    "devices": None,
    "distributed_tensors": set(),  # needed by process groups
    "dispatcher": {*_CAPTURE, features.RECURRENT_LAYERS, features.WIDE_PRODUCTS},
    "dynamo_settings": {features.STARTS, features.RECURRENT_LAYERS},
    "fake_rules": {features.FAKE_RESULTS},
    "fakes": _CAPTURE,
    "functional_collectives": set(),  # needed once a collective is recorded
    "functionalization": {features.COMPILING},
    "graph_calls": _CAPTURE,
    "graph_code": {features.STARTS},
    "graph_task": set(),  # needed by layers in fp8
    "history": {features.STARTS},
    "metrics": set(),  # needed by reports
    "modes": _CAPTURE,
    "namespaces": {features.OPERATORS},
    "process_groups": {features.DISTRIBUTED},
    "ops": _CAPTURE,
    "registry": set(),  # entry points do without
    "scripting": set(),  # needed by GPU migration
    "stream_calls": _CAPTURE,
    "timing": set(),  # needed while TORCH_TRACE is on
    "trace_log": {features.TRACE_LOG},
    "trace_rules": {features.RANDOM_STATE},
    "tracing": {features.STARTS},
    "transforms": {*_CAPTURE, features.RECURRENT_LAYERS},
    "translator": set(),  # names a graph's source
    "trees": {*_CAPTURE, features.FAKE_RESULTS},
}


def answers(lines, cache):
    done = subprocess.run(
        [sys.executable, DRIVER],
        input="".join(f"{line}\n" for line in lines),
        env={**os.environ, "HPU_CACHE_DIR": str(cache), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(lines)
    return dict(zip(lines, told, strict=True))


def difference(answer, off):
    """Describes how the answer differs from what is expected; "" if it does not."""
    if off is None:
        named = "cannot import name 'something'" in answer.get("error", "")
        return "" if named else f"no error: {answer}"
    if "error" in answer:
        return answer["error"]
    names = sorted(feature.name for feature in off)
    if answer["off"] != names or answer["right"] != [True, True, True]:
        return f"{answer['off']} is off, not {names}; right: {answer['right']}"
    for feature in off:
        if sum(text.startswith(f"{feature.name} is off") for text in answer["told"]) != 1:
            return f"{feature.name}: not one warning in {answer['told']}"
    compiled = features.COMPILING not in off
    if compiled and answer["origins"] != ["compiled", "compiled"]:
        return f"not compiled: {answer['origins']}"
    return ""


def test_the_table_names_every_module():
    modules = {path.stem for path in COMPAT.glob("*.py")}
    assert set(OFF) == modules - {"__init__", "features", "replaced"}


def test_each_module_can_be_missing(private_cache):
    found = answers([f"module {name}" for name in OFF], private_cache)
    wrong = {
        line: text
        for line, answer in found.items()
        if (text := difference(answer, OFF[line.split()[1]]))
    }
    assert not wrong


def functions_fail(names, cache):
    found = answers([f"function {name}" for name in names], cache)
    off = {
        name: {replaced.ROWS[name].feature} if replaced.ROWS[name].parameters else set()
        for name in names
    }
    for name in names:
        if replaced.ROWS[name].feature is features.COMPILING:
            off[name] = {features.COMPILING}
        if replaced.ROWS[name].feature is features.MIGRATION:  # needed once it is imported
            off[name] = set()
    return {
        line: text
        for line, answer in found.items()
        if (text := difference(answer, off[line.split()[1]]))
    }


SHORT = (
    "torch._dynamo.convert_frame._compile",
    "torch._dynamo.pgo.update_automatic_dynamic",
    "torch._dynamo.variables.optimizer.OptimizerVariable._set_capturable",
    "torch._refs.is_noncontiguous_supported",
    "torch.random._seed_custom_device",
)


def test_a_replaced_function_may_have_other_parameters(private_cache):
    assert not functions_fail(SHORT, private_cache)


@pytest.mark.slow
def test_each_replaced_function_may_have_other_parameters(private_cache):
    assert not functions_fail([name for name in replaced.ROWS if name not in SHORT], private_cache)


def test_a_private_name_elsewhere_is_found():
    text = (
        "import torch\n"
        "from torch._dynamo import guards as g\n"
        "from torch.nn import Linear\n"
        "def f(x):\n"
        "    from torch.utils import _pytree\n"
        "    torch._C._dispatch_dump('x'), torch.ones(2), Linear.__init__, g.GuardBuilder\n"
    )
    assert sorted(set(private_names.private_names(text))) == [
        (2, "torch._dynamo.guards"),
        (5, "torch.utils._pytree"),
        (6, "torch._C._dispatch_dump"),
        (6, "torch._dynamo.guards.GuardBuilder"),
    ]
    assert private_names.violations({"a.py": "import torch._dynamo\n"}) == [
        "a.py:1: torch._dynamo is private: take it from torch_compat/"
    ]
