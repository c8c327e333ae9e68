"""The device interface that Dynamo, Inductor and libraries ask for, method by method, on hpu."""

from __future__ import annotations

import inspect
import os
import pickle

import pytest
import torch
from processes import output_of
from torch._dynamo import device_interface as registry
from torch._dynamo.device_interface import DeviceGuard, DeviceInterface, get_interface_for_device

from habana_frameworks.torch.hpu.device_interface import HpuInterface

hpu = HpuInterface


def test_every_spelling_of_the_device_has_it():
    for device in ("hpu", "hpu:0", torch.device("hpu"), torch.device("hpu", 0)):
        assert get_interface_for_device(device) is HpuInterface
    assert dict(registry.get_registered_device_interfaces())["hpu"] is HpuInterface


@pytest.mark.parametrize("base", [DeviceInterface, DeviceInterface.Worker])
def test_nothing_of_the_base_class_is_left_out(base):
    own = HpuInterface if base is DeviceInterface else HpuInterface.Worker
    for name, value in vars(base).items():
        asks_the_worker = name == "get_device_properties" and base is DeviceInterface
        if name.startswith("__") or asks_the_worker:
            continue
        assert getattr(own, name) is not value and name in vars(own), name


@pytest.mark.parametrize("order", ["import habana_frameworks.torch", "import torch._dynamo"])
def test_it_is_there_whatever_is_imported_first(order):
    other = "import torch._dynamo, habana_frameworks.torch"
    code = f"""
import sys, torch
{order}
known = "torch._dynamo.device_interface" in sys.modules
{other}
import inspect
module = sys.modules["torch._dynamo.device_interface"]
count = module.get_interface_for_device("hpu").device_count()
print(known, count, len(inspect.getsource(module)) > 9)
watched = [getattr(finder, "_name", "") for finder in sys.meta_path]
print(module.__spec__.loader.__class__.__name__, watched.count(module.__name__))
"""
    # Entry points announce the backend of an installed package; nothing else imports Dynamo.
    done = output_of(code, fresh=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.splitlines()
    assert done[0].endswith(" 1 True") and done[1] == "SourceFileLoader 0"


def test_devices():
    assert hpu.is_available() and hpu.device_count() == 1 and hpu.current_device() == 0
    assert hpu.exchange_device(0) == 0 and hpu.maybe_exchange_device(-1) == 0
    hpu.set_device(0)
    hpu.set_device("hpu")
    with hpu.device(0), DeviceGuard(hpu, 0), DeviceGuard(hpu, None):
        assert hpu.current_device() == 0
    for refused in (5000, -2):
        with pytest.raises(ValueError, match="this host has"):
            hpu.set_device(refused)
    for wrong in (1.5, 0.0, [0]):
        with pytest.raises(TypeError, match=r"expected a device.*(float|list)"):
            hpu.set_device(wrong)
    with pytest.raises(ValueError, match="expected an hpu device"):
        hpu.synchronize("cpu")


def test_streams():
    before = hpu.current_stream()
    assert isinstance(before, torch.Stream) and before.device.type == "hpu"
    made = hpu.Stream()
    assert isinstance(made, torch.Stream) and made.device_index == 0
    assert made.stream_id != before.stream_id == torch.hpu.current_stream().stream_id
    handles = [hpu.get_raw_stream(0)]
    with hpu.stream(made):
        assert hpu.current_stream() == made
        handles.append(hpu.get_raw_stream(0))
        y = torch.ones(3, device="hpu") + 1
    assert hpu.current_stream() == before and len(set(handles)) == 2 and all(handles)
    made.synchronize()
    assert made.query() and y.tolist() == [2, 2, 2]
    hpu.set_stream(made)
    assert torch.hpu.current_stream().stream_id == made.stream_id
    hpu._set_stream_by_id(before.stream_id, before.device_index, before.device_type)
    assert hpu.current_stream() == before
    with hpu.stream(torch.hpu.Stream()) as other, hpu.stream(None):
        assert hpu.current_stream().stream_id == other.stream_id
    assert hpu.current_stream() == before


def test_events():
    first, second = hpu.Event(enable_timing=True), hpu.Event(enable_timing=True)
    assert isinstance(first, torch.Event) and first.device.type == "hpu"
    stream = hpu.Stream()
    first.record(stream)
    with hpu.stream(stream):
        torch.ones(100, device="hpu").add_(1)
    second.record(stream)
    second.synchronize()
    assert first.query() and second.query() and first.elapsed_time(second) >= 0
    hpu.current_stream().wait_event(second)
    hpu.current_stream().wait_stream(stream)
    hpu.synchronize()
    hpu.synchronize(0)


def test_properties():
    found = hpu.get_device_properties()
    assert found == hpu.get_device_properties("hpu:0") == hpu.Worker.get_device_properties(0)
    assert found.name == torch.hpu.get_device_name() and found.type == "hpu"
    assert found.total_memory == torch.hpu.mem_get_info()[1]
    assert found.multi_processor_count > 0 and found.sram_size > 0 and found.driver_version
    assert pickle.loads(pickle.dumps(found)) == found
    assert hpu.get_compute_capability() == hpu.get_compute_capability("hpu") == "gaudi2"


def test_what_inductor_asks():
    """PyTorch 2.15 asks for these."""
    assert hpu.exposes_streams() and not hpu.is_gpu()
    assert hpu.get_multi_processor_count() == hpu.get_multi_processor_count("hpu:0")
    assert hpu.get_multi_processor_count() == hpu.get_device_properties().multi_processor_count
    assert hpu.get_cpp_device_options(aot_mode=False, compile_only=False) is None
    assert hpu.get_cache_system_info() is None


def test_types():
    assert hpu.is_bf16_supported() and hpu.is_bf16_supported(including_emulation=True)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.bool):
        assert hpu.is_dtype_supported(dtype)
    assert not hpu.is_dtype_supported(torch.bits16)


def test_memory():
    before = hpu.memory_allocated()
    x = torch.ones(1 << 20, device="hpu")
    assert hpu.memory_allocated(0) - before >= x.nbytes


def test_there_is_no_triton():
    assert not hpu.is_triton_capable() and not hpu.is_triton_capable("hpu")
    with pytest.raises(RuntimeError, match="no code generator for hpu"):
        hpu.raise_if_triton_unavailable()


def test_a_worker_knows_what_its_parent_noted(monkeypatch):
    monkeypatch.setattr(registry, "caching_worker_current_devices", {})
    found = hpu.get_device_properties()
    hpu.Worker.set_device(0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        same = hpu.Worker.get_device_properties() == found and hpu.Worker.current_device() == 0
        os.write(write, b"1" if same else b"0")
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"1"
    os.close(read)


def test_signatures_are_those_of_the_base_class():
    """Callers pass arguments by position, and omit them, as they do for other devices."""
    for name, value in vars(DeviceInterface).items():
        if isinstance(value, (staticmethod, classmethod)) and not name.startswith("__"):
            ours = inspect.signature(getattr(HpuInterface, name)).parameters.values()
            theirs = inspect.signature(getattr(DeviceInterface, name)).parameters.values()
            assert [p.name for p in ours][: len(theirs)] == [p.name for p in theirs], name


def test_its_classes_are_those_of_torch_hpu():
    assert hpu.Stream is torch.hpu.Stream and hpu.Event is torch.hpu.Event
