"""The device's log and its CPU fallback: exact lines, masks, places, counters, policy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo.compile_backend import shared_layer

_torch = native.torch_module()
VARIABLES = (
    "PT_HPU_LOG_MOD_MASK",
    "PT_HPU_LOG_TYPE_MASK",
    "PT_HPU_PLACE_ON_CPU",
    "ENABLE_CONSOLE",
    "HABANA_LOGS",
    "HLS_ID",
    "ID",
    "OMPI_COMM_WORLD_RANK",
)


@pytest.fixture
def settings(monkeypatch):
    """settings(NAME=value, ...) sets exactly these variables and has the module read them."""

    def apply(**environment: str) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        _torch.reload_log_settings()

    yield apply
    monkeypatch.undo()
    _torch.reload_log_settings()


def two_ops() -> None:
    torch.i0(torch.zeros(3, 3, dtype=torch.half, device="hpu"))
    torch.ones(2, device="hpu").lgamma_()


FALLBACK = {"PT_HPU_LOG_MOD_MASK": "80", "PT_HPU_LOG_TYPE_MASK": "8"}
I0 = "CPU fallback i0 : self=HABANAHalfType"
LGAMMA = "CPU fallback lgamma_ : self=HABANAFloatType"


def test_fallback_lines_on_the_console(settings, capfd):  # FALL-3, FALL-4
    settings(ENABLE_CONSOLE="true", **FALLBACK)
    two_ops()
    assert capfd.readouterr().err.splitlines() == [I0, LGAMMA]


def test_operators_of_other_libraries(settings, capfd):
    library = torch.library.Library("fallback_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.define("nowhere(Tensor x) -> Tensor")
    settings(ENABLE_CONSOLE="true", **FALLBACK)
    x = torch.ones(2, device="hpu")
    twice = torch.ops.fallback_test.twice(x)
    assert capfd.readouterr().err.splitlines() == [
        "CPU fallback fallback_test::twice : x=HABANAFloatType"
    ]
    assert (twice.device.type, twice.tolist()) == ("hpu", [2.0, 2.0])
    with pytest.raises(NotImplementedError, match="nowhere' on hpu: it has a kernel neither for"):
        torch.ops.fallback_test.nowhere(x)


def test_one_type_per_tensor_argument(settings, capfd):
    settings(ENABLE_CONSOLE="TRUE", **FALLBACK)
    x = torch.ones(2, device="hpu")
    doubles = x.double()
    capfd.readouterr()
    edges = torch.arange(3.0).to("hpu")
    torch.histogramdd(torch.ones(2, 2).to("hpu"), [edges, edges])
    torch.igamma(x, doubles)
    assert capfd.readouterr().err.splitlines() == [
        "CPU fallback _histogramdd_from_bin_tensors : "
        "self=HABANAFloatType, bins=HABANAFloatType, bins=HABANAFloatType",
        "CPU fallback igamma : self=HABANAFloatType, other=HABANADoubleType",
    ]


@pytest.mark.parametrize(
    ("module", "kind", "shown"),
    [
        ("80", "8", True),
        ("0x80", "f", True),
        ("ff", "0x8", True),
        ("50", "8", False),  # decimal 80: masks are hexadecimal (FALL-6)
        ("7f", "8", False),
        ("80", "7", False),
        ("", "", False),  # the default kinds are FATAL and WARNING (FALL-7)
    ],
)
def test_both_masks_select(settings, capfd, module, kind, shown):
    settings(ENABLE_CONSOLE="1", PT_HPU_LOG_MOD_MASK=module, PT_HPU_LOG_TYPE_MASK=kind)
    assert _torch.log_enabled(_torch.LOG_FALLBACK, _torch.LOG_DEBUG) == shown
    two_ops()
    assert (I0 in capfd.readouterr().err) == shown


def test_python_lines_go_through_the_same_masks(settings, capfd):
    settings(ENABLE_CONSOLE="true", **FALLBACK)
    _torch.log_line(_torch.LOG_FALLBACK, _torch.LOG_DEBUG, "shown")
    _torch.log_line(_torch.LOG_BRIDGE, _torch.LOG_DEBUG, "hidden")
    assert capfd.readouterr().err == "shown\n"


def test_wrong_mask_is_named(settings, capfd):
    settings(PT_HPU_LOG_MOD_MASK="everything")
    assert "PT_HPU_LOG_MOD_MASK=everything is not a hexadecimal bit mask" in capfd.readouterr().err


def test_log_file_places(settings, capfd, monkeypatch, tmp_path: Path):  # LOG-1
    monkeypatch.setenv("HOME", str(tmp_path))
    settings(ENABLE_CONSOLE="False", **FALLBACK)
    two_ops()
    assert (tmp_path / ".habana_logs/pytorch_log.txt").read_text() == f"{I0}\n{LGAMMA}\n"
    settings(HABANA_LOGS=str(tmp_path / "logs"), HLS_ID="host", ID="3", **FALLBACK)
    two_ops()
    assert I0 in (tmp_path / "logs/host/3/pytorch_log.txt").read_text()
    assert capfd.readouterr().err == ""


def test_pinned_memory_is_logged(settings, capfd):  # MEM-4
    settings(ENABLE_CONSOLE="true", PT_HPU_LOG_MOD_MASK="40", PT_HPU_LOG_TYPE_MASK="8")
    torch.empty(3_000_000, pin_memory=True)
    assert "pinned alloc bytes=16777216" in capfd.readouterr().err


def test_counters():
    _torch.reset_op_counts()
    two_ops()
    two_ops()
    assert _torch.fallback_counts() == {"i0": 2, "lgamma_": 2}
    metric = dict(torch.hpu.metrics.metric_global("cpu_fallback").stats())
    assert "i0" in str(metric)


@pytest.mark.parametrize(
    ("policy", "refused"),
    [("", None), ("i0,lgamma_", None), ("none", "i0"), ("i0,add", "lgamma_")],
)
def test_policy(settings, policy, refused):
    settings(PT_HPU_PLACE_ON_CPU=policy)
    if refused is None:
        two_ops()
        return
    with pytest.raises(NotImplementedError, match=f"aten::{refused} has no hpu kernel.*{refused}"):
        two_ops()


def test_device_kernels_are_no_fallback(settings, capfd):
    settings(ENABLE_CONSOLE="true", **FALLBACK)
    x = torch.zeros(4, 4, device="hpu")
    x.t()[1:].copy_(torch.ones(3, 4))
    x.view(16).resize_(8).fill_(2).cpu()
    x.unfold(0, 2, 1)
    assert x.sum().device.type == "hpu"  # a recipe holds it, even if this call is direct
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("asked", [False, True])
def test_lines_of_compiled_graphs_follow_the_masks(settings, caplog, asked):  # FALL-3, FLAG-4
    """By default there is one line per step, with its reason; the lines of the bridge appear where
    the masks ask for them."""
    settings(**(FALLBACK if asked else {}))
    torch._dynamo.reset()
    shared_layer.logger.set_store_data(True)
    try:
        with caplog.at_level("WARNING", logger="habana_frameworks.torch"):
            compiled = torch.compile(lambda x: torch.lgamma(x) * (5 + asked), backend="hpu_backend")
            compiled(torch.ones(7, device="hpu"))
        decisions = list(shared_layer.logger.data)
    finally:
        shared_layer.logger.set_store_data(False)
    bridge = [line for line in caplog.messages if "Fallback required" in line]
    assert len(bridge) == (1 if asked else 0)
    # Readers of the bridge's logger get its lines in any case.
    assert any("Fallback required. Node: lgamma" in line for line in decisions)
