"""Small names that public programs for Gaudi import, by what their callers expect of them."""

from __future__ import annotations

import logging

import pytest
import torch
from lazy_case import Counts, lazy_mode, recorded
from processes import output_of

import habana_frameworks.torch as ht
from habana_frameworks.torch import core, hpu
from habana_frameworks.torch.core.weight_sharing import HabanaParameterWrapper
from habana_frameworks.torch.internal import bridge_config
from habana_frameworks.torch.utils import debug, experimental, library_loader, version_checker


@pytest.fixture(autouse=True)
def unset_flags(monkeypatch):
    monkeypatch.setattr(bridge_config, "_set_values", {})


def test_the_peak_of_memory_begins_anew():
    kept = torch.zeros(1 << 20, device="hpu")
    torch.zeros(1 << 22, device="hpu")
    assert hpu.max_memory_allocated() >= hpu.memory_allocated() + (4 << 22)
    hpu.reset_max_memory_allocated()
    assert hpu.max_memory_allocated() == hpu.memory_allocated() >= kept.nbytes
    assert hpu.hpu.memory_stats() == hpu.memory_stats()  # lightning-habana's spelling


def test_there_is_a_device_or_not():
    assert library_loader.is_habana_available() is True
    code = (
        "from habana_frameworks.torch.utils.library_loader import is_habana_available\n"
        "print(is_habana_available())"
    )
    assert output_of(code, HPU_SYNAPSE_LIBRARY="/nowhere.so").stdout == "False\n"


def test_a_step_is_marked_in_lazy_mode_alone(monkeypatch, caplog):
    core.step_closure._mark_step_if_lazy()  # the warning of mark_step does not appear
    assert not caplog.records
    assert core.is_lazy() is hpu.is_lazy() is False
    monkeypatch.setattr(core.step_closure.lazy_mode, "is_on", lambda: True)
    counts = Counts()
    with lazy_mode():
        total = torch.ones(3, device="hpu") + 1
        assert recorded() > 0
        core.step_closure._mark_step_if_lazy()
        assert recorded() == 0
    assert counts.runs == 1
    assert total.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("version", "least", "older", "same"),
    [
        ("2.6", True, False, False),
        ("2.13.0a1", True, False, True),
        ("2.13.1", False, True, False),
        ("2.13", True, False, True),
        ("10.0", False, True, False),
    ],
)
def test_versions_of_pytorch(monkeypatch, version, least, older, same):
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    assert version_checker.is_pytorch_at_least(version) is least
    assert version_checker.is_pytorch_older_than(version) is older
    assert version_checker.is_pytorch_exactly(version) is same


def test_a_text_that_is_no_version():
    with pytest.raises(ValueError, match="'newest' is not the number of a release"):
        version_checker.is_pytorch_at_least("newest")


def test_no_parameter_is_shared_by_a_wrapper():
    module = torch.nn.Linear(2, 2).to("hpu")
    assert not any(type(p) is HabanaParameterWrapper for p in module.parameters())


def test_inference_set_up_without_and_with_a_model(told):
    core.hpu_inference_set_env()
    core.hpu_inference_initialize(torch.nn.Linear(2, 2), mark_non_scales=False)
    marked = [line for line in told() if line.startswith("marking parameters as constants")]
    assert len(marked) == 1
    assert any(line.startswith("PT_HPU_INFERENCE_MODE=True has no effect") for line in told())


def test_nothing_is_marked_where_nothing_is_asked_for(told):
    core.hpu_inference_initialize(torch.nn.Linear(2, 2), mark_scales=False, mark_non_scales=False)
    assert not any("constants" in line for line in told())


def test_attributes_of_scales_say_once_that_they_change_nothing(told):
    for _ in range(2):
        experimental._set_scale_attributes(True, 3)
        experimental._set_is_dynamic_quantization(False)
        experimental._set_is_dynamic_quantization(True)
    assert [line.partition(" has no effect: ")[0] for line in told()] == [
        "_set_scale_attributes()",
        "_set_is_dynamic_quantization(True)",
    ]


def test_dynamic_shapes_on_the_package(told):
    ht.enable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is True
    ht.disable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is False


def test_every_switch_of_a_pass_says_once_why_it_does_nothing(told):
    for name in [*debug.switches.ACCEPTED]:
        for _ in range(2):
            getattr(debug, name)(True)
    assert [line.partition("() has no effect: ")[0] for line in told()] == [
        *debug.switches.ACCEPTED
    ]


def test_lines_for_the_log(caplog):
    with caplog.at_level(logging.DEBUG, logger="habana_frameworks.torch"):
        debug._hg_print("a graph {} of 3 %")
        debug._hb_print("a line")
        assert debug._mem_log("after loading") is True
        debug._memstat_devmem_start_collect("begin", show_cs=False)
        debug._memstat_devmem_stop_collect("end")
        debug._memstat_livealloc("now")
        debug._dump_memory_reporter()
    assert caplog.messages[0] == "[PT_HPUGRAPH] a graph {} of 3 %"
    assert caplog.messages[1] == "[PT_BRIDGE] a line"
    heads = [message.splitlines()[0] for message in caplog.messages[2:]]
    assert heads == [
        "[PT_MEMLOG] after loading",
        "[PT_MEMLOG] begin",
        "[PT_MEMLOG] end",
        "[PT_MEMLOG] now",
        "[PT_MEMLOG] memory",
    ]
    assert all("MaxInUse" in message for message in caplog.messages[2:])


def test_answers_about_what_does_not_exist():
    assert debug._get_shape_agnostic_unsupported_ops() == set()
    assert debug._get_eager_compiler_unsupported_op_prefixes() == set()
    assert debug._is_enabled_weight_permute_pass() is False
    assert debug._is_enabled_synapse_layout_handling() is True
    assert debug._is_enabled_lazy_collectives() is False
    assert debug._flush_disk_cache() is None
    assert ht.is_torch_fork is False
