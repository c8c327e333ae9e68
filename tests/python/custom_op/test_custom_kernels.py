"""Operators of the user's own (examples/custom_kernel) and the kernels that they name, in eager
mode, lazy mode, HPU graphs and compiled graphs. docs/custom_kernels.md is the guide."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from eager_case import ways
from helpers import fresh_process
from lazy_case import Counts, lazy_mode
from paths import ROOT
from training_case import assert_close, matrix, only_graph

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

_torch = native.torch_module()
EXAMPLE = ROOT / "examples/custom_kernel"
BUILT = ROOT / "build/release/examples/custom_kernel"
KERNELS = BUILT / "libsoft_clip_kernels.so"
LIMIT = 1.5

sys.path.insert(0, str(EXAMPLE))

import soft_clip  # noqa: E402

# The build tree has the operators for one version of PyTorch.
_BUILT_FOR = ROOT / "build/release/backend/torch/torch_version.txt"
_IS_BUILT = KERNELS.exists() and _BUILT_FOR.read_text(encoding="utf-8").strip() == torch.__version__
pytestmark = pytest.mark.skipif(not _IS_BUILT, reason="./dev test builds the example")
if _IS_BUILT:
    soft_clip.load_operators(BUILT)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setenv("GC_KERNEL_PATH", f"/usr/lib/habanalabs/libtpc_kernels.so:{KERNELS}")


def expected(x):
    return LIMIT * x / (LIMIT + x.abs())


def clipped(x):
    return soft_clip.SoftClip.apply(x, LIMIT)


def sorted_rows(x, k):
    """The device's node `topk` by its name, with a struct of k, axis and bottom."""
    params = struct.pack("<IIBxxx", k, 0, 0).hex()
    float_type, long_type = 6, 4
    results = [float_type, 2, x.shape[0], k, long_type, 2, x.shape[0], k]
    return torch.ops.hpu.custom_kernel([x], "topk", 0, params, results)


def test_eager_calls_are_recipes():
    _torch.reset_op_counts()
    x = matrix(5, 7)
    assert_close(torch.ops.example.soft_clip(x.to("hpu"), LIMIT), expected(x))
    assert ways("hpu::custom_kernel") == (1, 0, 0)


def test_views_need_no_copy():
    x = matrix(6, 8)
    for view in (
        lambda t: t.T,
        lambda t: t[1:, ::3],
        lambda t: t[0].expand(4, 8),
        lambda t: t[2, 2],
    ):
        assert_close(torch.ops.example.soft_clip(view(x.to("hpu")), LIMIT), expected(view(x)))


def test_lazy_mode_records_them():
    counts = Counts()
    x = matrix(3, 4)
    with lazy_mode():
        y = torch.ops.example.soft_clip(2 * x.to("hpu"), LIMIT) + 1
        result = y.cpu()
    assert (counts.runs, counts.runs_by_call) == (1, 0)
    assert_close(result, expected(2 * x) + 1)


def test_hpu_graphs_replay_them():
    x = matrix(4, 4).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = torch.ops.example.soft_clip(x, LIMIT) * 2
    x.copy_(torch.full((4, 4), 3.0))
    graph.replay()
    assert_close(y, torch.full((4, 4), 2.0))


def test_a_compiled_graph_is_one_recipe():
    fresh_process()
    x = matrix(4, 6)
    compiled = torch.compile(lambda t: clipped(t.sin()).exp(), backend="hpu_backend")
    assert_close(compiled(x.to("hpu")), expected(x.sin()).exp())
    assert only_graph().recipes == 1


@pytest.mark.parametrize("way", ["eager", "lazy", "compiled"])
def test_gradients(way):
    fresh_process()
    x = matrix(4, 6)
    reference = x.clone().requires_grad_()
    (expected(reference.sin()) ** 2).sum().backward()
    leaf = x.to("hpu").requires_grad_()

    def loss(t):
        return (clipped(t.sin()) ** 2).sum()

    if way == "lazy":
        with lazy_mode():
            loss(leaf).backward()
            gradient = leaf.grad.cpu()
    else:
        function = torch.compile(loss, backend="hpu_backend") if way == "compiled" else loss
        function(leaf).backward()
        gradient = leaf.grad.cpu()
    if way == "compiled":
        assert all(graph.origin != "eager" for graph in report().graphs)
        assert all(graph.eager_nodes == 0 for graph in report().graphs)
    assert_close(gradient, reference.grad)


def test_nodes_of_the_device_by_name():
    x = matrix(5, 9)
    values, places = sorted_rows(x.to("hpu"), 3)
    assert torch.equal(values.cpu(), x.topk(3).values)
    assert torch.equal(places.cpu(), x.topk(3).indices)


def test_without_library_the_error_says_so(monkeypatch):
    monkeypatch.setenv("GC_KERNEL_PATH", "")
    with pytest.raises(RuntimeError, match="custom kernel soft_clip_fwd_f32: .* is not known.*"
                       "No library of GC_KERNEL_PATH has this GUID"):  # fmt: skip
        torch.ops.example.soft_clip(matrix(2, 3, 2).to("hpu"), LIMIT)


def test_the_kernel_refuses_arguments():
    with pytest.raises(RuntimeError, match="soft_clip_fwd_f32 of version 1: prepare.. failed with "
                       "code 1: the limit must be above 0"):  # fmt: skip
        torch.ops.example.soft_clip(matrix(2, 2).to("hpu"), -1.0)


def test_arguments_are_checked():
    x = matrix(2, 2).to("hpu")
    with pytest.raises(ValueError, match="`results` ends within a result"):
        torch.ops.hpu.custom_kernel([x], "topk", 0, "", [6, 2, 2])
    with pytest.raises(RuntimeError, match=r"custom_c2.*params are 'xyz'"):
        torch.ops.hpu.custom_kernel([x], "topk", 0, "xyz", [6, 1, 2])
    with pytest.raises(RuntimeError, match="more than 5 dimensions"):
        torch.ops.example.soft_clip(matrix(1, 1, 1, 1, 2, 2).to("hpu"), LIMIT)


def test_no_server_opens_the_library():
    torch.ops.example.soft_clip(matrix(3, 9).to("hpu"), LIMIT)
    module = native.client_module()
    pid, *_ = module.server_process(module.server_paths(os.environ["HPU_CACHE_DIR"])["socket"])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    for process in (pid, *children):
        assert KERNELS.name not in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
    assert KERNELS.name in Path("/proc/self/maps").read_text(encoding="utf-8")


def _library_of_version(folder: Path, version: int) -> Path:
    """The example's kernels with another version of the forward one, which doubles its result."""
    source = (EXAMPLE / "soft_clip_kernels.c").read_text(encoding="utf-8")
    for old, new in (
        (
            ".version = 1, .prepare = PrepareForward",
            f".version = {version}, .prepare = PrepareForward",
        ),
        ("= limit * value /", "= 2 * limit * value /"),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    changed = folder / "kernels.c"
    changed.write_text(source, encoding="utf-8")
    library = folder / f"libkernels{version}.so"
    include = ["-I", get_include_dir(), "-I", str(EXAMPLE)]
    command = ["cc", "-shared", "-fPIC", *include, str(changed), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return library


def test_another_version_is_another_program(tmp_path, monkeypatch):
    x = matrix(7, 3)
    compiled = torch.compile(lambda t: clipped(t + 1), backend="hpu_backend")
    fresh_process()
    assert_close(compiled(x.to("hpu")), expected(x + 1))
    first = only_graph()
    monkeypatch.setenv("GC_KERNEL_PATH", str(_library_of_version(tmp_path, 2)))
    fresh_process()
    assert_close(compiled(x.to("hpu")), 2 * expected(x + 1))
    second = only_graph()
    assert dict(first.factors)["extensions"] == dict(second.factors)["extensions"]
    assert dict(first.factors)["custom_kernels"] != dict(second.factors)["custom_kernels"]
    assert_close(torch.ops.example.soft_clip(x.to("hpu"), LIMIT), 2 * expected(x))


def test_the_example_runs():
    command = [sys.executable, str(EXAMPLE / "soft_clip.py"), str(BUILT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["eager", "compiled"]
    assert all(line.endswith("as PyTorch's own operators") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["habana_pytorch2_plugin", "habana_pytorch_plugin"])
def test_the_example_builds_with_setuptools(tmp_path, plugin):
    for name in (
        "setup.py",
        "soft_clip.h",
        "soft_clip.py",
        "soft_clip_kernels.c",
        "soft_clip_ops.cc",
    ):
        text = (EXAMPLE / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(
            text.replace("habana_pytorch2_plugin", plugin), encoding="utf-8"
        )
    subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=tmp_path, check=True)
    kernels = {**os.environ, "GC_KERNEL_PATH": str(tmp_path / "libsoft_clip_kernels.so")}
    subprocess.run([sys.executable, "soft_clip.py"], cwd=tmp_path, env=kernels, check=True)


def test_headers_and_libraries_are_installed():
    headers = {path.name for path in Path(get_include_dir()).glob("*")}
    assert headers >= {
        "hpu_custom_kernel.h",
        "hpu_custom_op.h",
        "hpu_custom_op_pt2.h",
        "perf_lib_layer_params.h",
        "synapse_common_types.h",
        "synapse_common_types.hpp",
    }
    assert (Path(get_lib_dir()) / "libhabana_pytorch2_plugin.so").exists()
    assert (
        "habana_pytorch2_plugin"
        in (Path(get_lib_dir()) / "libhabana_pytorch_plugin.so").read_text()
    )


def test_every_parameter_struct_has_its_name_for_cpp():
    include = ROOT / "synapse/include"
    names = include / "perf_lib_layer_params.h"
    text = names.read_text(encoding="utf-8")
    for header in (include / "kernel_params").iterdir():
        for line in header.read_text(encoding="utf-8").splitlines():
            name = line.removeprefix("} ns_").removesuffix(";")
            kernel, _, params = name.rpartition("_")
            if line.startswith("} ns_") and "Params" in params:
                assert f"HPU_KERNEL_PARAMS({kernel}, {params})\n" in text
