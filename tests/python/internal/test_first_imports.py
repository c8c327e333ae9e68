"""The first imports of public programs (clients.md): names, arguments, answers, and the cost of an
import."""

from __future__ import annotations

import enum
import json

import pytest
import torch
from paths import ROOT
from processes import output_of

import habana_frameworks.torch as ht
from habana_frameworks.torch import hpu, native
from habana_frameworks.torch.internal import bridge_config
from habana_frameworks.torch.internal.flag_table import FLAGS, VARIABLES
from habana_frameworks.torch.utils import debug, experimental
from habana_frameworks.torch.utils.experimental import synDeviceType


@pytest.fixture(autouse=True)
def unset_flags(monkeypatch):
    monkeypatch.setattr(bridge_config, "_set_values", {})
    for flag in FLAGS:
        monkeypatch.delenv(flag.name, raising=False)


# ---- the bare import -----------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["attention", "recurrent", "softmax"])
def test_modules_of_operators_can_be_imported_first(module):
    code = (
        f"import torch, habana_frameworks.torch.ops.{module}\n"
        "print(torch.ops.hpu.rms_norm.default)\n"
    )
    assert output_of(code).stdout.strip() == "hpu.rms_norm.default"


def test_attributes_after_the_bare_import():
    code = (
        "import habana_frameworks.torch as ht\n"
        "ht.core.mark_step, ht.hpu.Stream, ht.utils.internal.is_lazy, ht.utils.debug.Logger\n"
        "ht.utils.experimental._get_device_type, ht.internal.bridge_config.env_setting\n"
        "here = ht.distributed.hccl.initialize_distributed_hpu\n"
        "assert ht.hccl.initialize_distributed_hpu is here  # guide DEV-7\n"
        "ht.dynamo.compile_backend.config.configuration_flags['inference']\n"
        "for module in (ht, ht.dynamo, ht.dynamo.compile_backend, ht.distributed):\n"
        "    assert not hasattr(module, 'no_such_name'), module\n"
    )
    output_of(code)


def test_import_is_cheap(tmp_path):
    """The import uses no device, no Dynamo and no daemon, and does not change the environment of a
    distributed run. Importing the backend's config starts no daemon either."""
    code = (
        "import os, sys, habana_frameworks.torch as ht\n"
        "from importlib.metadata import entry_points\n"
        "installed = entry_points(group='torch_dynamo_backends', name='hpu_backend')\n"
        "assert not installed or 'torch._dynamo' not in sys.modules\n"
        "assert not ht.hpu.is_initialized() and 'MASTER_PORT' not in os.environ\n"
        "import habana_frameworks.torch.dynamo.compile_backend.config\n"
        "assert 'habana_frameworks.torch.dynamo.compile_backend.backends' not in sys.modules\n"
    )
    output_of(code, fresh=True, HPU_CACHE_DIR=str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert list(tmp_path.iterdir()) == []


def test_import_brings_nothing_but_our_own_modules():
    """PyTorch's own import is the baseline. Our modules that compile are imported by the first
    compilation."""
    code = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import habana_frameworks.torch\n"
        "from importlib.metadata import entry_points\n"
        "if entry_points(group='torch_dynamo_backends', name='hpu_backend'):\n"
        "    new = set(sys.modules) - before - {'torch.hpu'}\n"
        "    assert not [name for name in new if name.split('.')[0] != 'habana_frameworks'], new\n"
        "    ours = 'habana_frameworks.torch.'\n"
        "    for name in ('_native._client', 'cli', 'core', 'distributed.hccl', 'dynamo.keys',\n"
        "                 'dynamo.compile_backend', 'dynamo.patches', 'dynamo.programs.binding',\n"
        "                 'dynamo.hook', 'dynamo.start', 'report', 'utils'):\n"
        "        assert ours + name not in new, name\n"
    )
    output_of(code, fresh=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_a_start_imports_what_a_start_needs(private_cache):
    """The baseline is what torch.compile imports for any backend. A process that starts without
    tracing imports neither the modules that trace nor those that capture."""
    code = (
        "import sys, torch, habana_frameworks.torch\n"
        "torch.compile(torch.nn.Linear(4, 4), backend='eager')\n"
        "before = set(sys.modules)\n"
        "model = torch.nn.Linear(8, 8).to('hpu')\n"
        "with torch.no_grad():\n"
        "    compiled = torch.compile(model, backend='hpu_backend')\n"
        "    compiled(torch.ones(2, 8, device='hpu')).cpu()\n"
        "new = set(sys.modules) - before\n"
        "from habana_frameworks.torch.dynamo.start import journal\n"
        "traced = bool(journal.outcomes()[0].reason)\n"
        "others = sorted(n for n in new if n.split('.')[0] != 'habana_frameworks')\n"
        "start = 'habana_frameworks.torch.'\n"
        "ours = sorted(n.removeprefix(start) for n in new if n.startswith(start))\n"
        "import json; print(json.dumps([traced, others, ours]))\n"
    )
    environment = {"HPU_CACHE_DIR": str(private_cache), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    for traces in (True, False):
        traced, others, ours = json.loads(output_of(code, fresh=True, **environment).stdout)
        assert traced == traces
        captures = {
            "dynamo.capture.capture",
            "dynamo.capture.recorder",
            "dynamo.hook",
        }
        assert captures & set(ours) == (captures if traces else set())
    assert set(others) <= {
        "torch._subclasses.schema_check_mode",
        "torch.fx.experimental.validator",
        "torch.profiler._cupti_monitor",
    }
    rooms = ("dynamo", "torch_compat", "_native")
    rest = [name for name in ours if name.split(".")[0] not in rooms]
    known = {"internal.collector", "internal.regular_file", "ops", "ops.recurrent"}
    assert set(rest) <= known, rest


# ---- utils.experimental --------------------------------------------------------------------------


def test_device_type():
    assert issubclass(synDeviceType, enum.IntEnum)
    assert [(t.name, int(t)) for t in synDeviceType] == [
        ("synDeviceGaudi", 2),
        ("synDeviceGaudi2", 4),
        ("synDeviceGaudi3", 5),
    ]
    number = experimental._get_device_type()
    torch.ones(1, device="hpu")
    assert number == native.torch_module().device_type_number() == synDeviceType.synDeviceGaudi2
    assert number != synDeviceType.synDeviceGaudi and experimental._is_fp16_supported()


@pytest.mark.parametrize(
    ("kind", "number", "fp16"), [("gaudi", 2, False), ("gaudi3", 5, True), ("device6", 6, True)]
)
def test_device_type_follows_the_library(monkeypatch, kind, number, fp16):
    module = native.torch_module()
    monkeypatch.setattr(module, "device_kind", lambda: kind)
    assert experimental._get_device_type() == number
    assert experimental._is_fp16_supported() is fp16


def test_device_type_acquires_no_device():
    output_of(
        "import habana_frameworks.torch as ht\n"
        "assert ht.utils.experimental._get_device_type() == 4\n"
        "assert not ht.hpu.is_initialized()\n"
    )


def test_data_pointer():
    x = torch.arange(4.0, device="hpu")
    assert experimental._data_ptr(x) == native.torch_module().data_address(x) != 0
    assert experimental._data_ptr(x[2:]) == experimental._data_ptr(x) + 8
    assert experimental._data_ptr(torch.empty(0, device="hpu")) == 0
    assert experimental._data_ptr(torch.ones(2)) == 0


def test_compute_stream_is_the_handle_of_the_default_stream():
    module = native.torch_module()
    with hpu.stream(hpu.Stream()):
        handle = experimental._compute_stream()
    assert handle == module.stream_handle(module.default_stream()) != 0


def test_reset_device_memory_gives_cached_blocks_back():
    experimental._reset_device_memory()
    before = hpu.memory_reserved()  # what other tests of this process hold
    x = torch.zeros(1 << 22, device="hpu")
    assert hpu.memory_reserved() >= before + (16 << 20)
    del x
    experimental._reset_device_memory()
    assert hpu.memory_reserved() <= before


def test_what_records_nothing_says_so_once(told):
    for _ in range(2):
        experimental._record_param("w", 0, 4, is_param=True)
        experimental._record_params(torch.nn.Linear(1, 1), force_model_update=True)
        assert experimental._set_profiler_tracer_memory(0) == 0
    assert [line.split(" has no effect: ")[0] for line in told()] == [
        "_record_param()",
        "_record_params()",
        "_set_profiler_tracer_memory()",
    ]


# ---- utils.debug ---------------------------------------------------------------------------------


def test_program_cache_is_counted_and_cleared():
    def function(x):
        return torch.relu(x) * 3

    def compile_again() -> str:
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(function, backend="hpu_backend")(torch.ones(7, device="hpu"))
        return ht.dynamo.report().graphs[-1].origin

    debug._clear_jit_cache()
    assert debug._get_jit_cache_size() == 0
    compile_again()
    assert debug._get_jit_cache_size() == 1
    assert compile_again() == "memory"
    debug._clear_jit_cache()
    assert debug._get_jit_cache_size() == 0
    assert compile_again() == "store"
    debug._bridge_cleanup()
    assert debug._get_jit_cache_size() == 0


def test_tensor_info():
    x = torch.zeros(3, 5, device="hpu")[1:]
    assert debug.get_tensor_info(x) == (x.untyped_storage().data_ptr(), 60)
    assert debug.get_tensor_info(torch.zeros(2)) is None


# ---- internal.bridge_config ----------------------------------------------------------------------


def test_flag_getters(monkeypatch):
    assert bridge_config.get_pt_hpu_gpu_migration() is False
    assert bridge_config.get_pt_compile_only_mode() is False
    assert bridge_config.get_pt_hpu_lazy_mode() == 0
    monkeypatch.setenv("PT_COMPILE_ONLY_MODE", "1")
    monkeypatch.setenv("PT_HPU_MAX_COMPOUND_OP_SIZE", "0x10")
    monkeypatch.setenv("PT_HPU_PLACE_ON_CPU", "none")
    assert bridge_config.get_pt_compile_only_mode() is True
    assert bridge_config.get_pt_hpu_max_compound_op_size() == 16
    assert bridge_config.get_pt_hpu_place_on_cpu() == "none"
    monkeypatch.setenv("PT_COMPILE_ONLY_MODE", "maybe")
    with pytest.raises(ValueError, match="PT_COMPILE_ONLY_MODE='maybe'"):
        bridge_config.get_pt_compile_only_mode()
    with pytest.raises(AttributeError, match="no flag 'pt_no_such'; there are: "):
        bridge_config.get_pt_no_such()


def test_flag_setters_say_once_what_changes_nothing(told):
    for _ in range(2):
        bridge_config.set_pt_enable_int64_support(False)
        assert bridge_config.get_pt_enable_int64_support() is False
        bridge_config.set_pt_enable_int64_support(True)
    assert told() == ["PT_ENABLE_INT64_SUPPORT=False has no effect: int64 is always native"]
    with pytest.raises(AttributeError, match="PT_HPU_LAZY_MODE cannot be set while"):
        bridge_config.set_pt_hpu_lazy_mode  # noqa: B018  the look-up raises


def test_env_setting_restores_after_an_error():
    seen = []
    with pytest.raises(IndexError), bridge_config.env_setting("pt_compile_only_mode", True):
        seen[bridge_config.get_pt_compile_only_mode()]
    assert bridge_config.get_pt_compile_only_mode() is False
    bridge_config.set_pt_compile_only_mode(True)
    with bridge_config.env_setting("PT_COMPILE_ONLY_MODE", False):
        assert bridge_config.get_pt_compile_only_mode() is False
    assert bridge_config.get_pt_compile_only_mode() is True
    bridge_config.set_pt_compile_only_mode(False)


def test_flags_are_listed_and_documented():

    page = (ROOT / "docs/modules.md").read_text()
    names = dir(bridge_config)
    for flag in FLAGS:
        assert f"get_{flag.name.lower()}" in names
        assert (f"set_{flag.name.lower()}" in names) is flag.settable
        settable = "yes" if flag.settable else "no"
        row = f"| `{flag.name}` | {flag.default!r} | {settable} | {flag.effect} |"
        assert row in page, row
    for variable in VARIABLES:
        assert f"get_{variable.name.lower()}" not in names
        row = f"| `{variable.name}` | {variable.default!r} | {variable.effect} |"
        assert row in page, row


def test_environment_without_effect_is_told_at_the_import():
    done = output_of(
        "import habana_frameworks.torch",
        PT_HPU_INFERENCE_MODE="1",
        PT_CACHE_FOLDER_SIZE_MB="many",
        PT_HPU_GPU_MIGRATION="0",
        PT_HPU_PLACE_ON_CPU="none",
        HABANA_VISIBLE_DEVICES="all",
        HABANA_VISIBLE_MODULES="0,1",
        EXPERIMENTAL_WEIGHT_SHARING="0",
    )
    told = [line.partition(" has no effect: ")[0] for line in done.stderr.splitlines()]
    assert told == [
        "PT_HPU_INFERENCE_MODE=True",
        "PT_CACHE_FOLDER_SIZE_MB=many",
        "EXPERIMENTAL_WEIGHT_SHARING=0",
    ]


# ---- torch.hpu's switches ------------------------------------------------------------------------


def test_dynamic_shape_status_is_what_was_asked_for(monkeypatch, told):
    assert hpu.get_dynamic_shape_status() is False
    hpu.enable_dynamic_shape()
    hpu.enable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is True
    (line,) = told()
    assert line.startswith("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES=True has no effect: every shape is")
    hpu.disable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is False
    monkeypatch.setattr(bridge_config, "_set_values", {})
    monkeypatch.setenv("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", "true")
    assert hpu.get_dynamic_shape_status() is True


@pytest.mark.parametrize(
    ("name", "flag", "on"),
    [
        ("inference_mode", "PT_HPU_INFERENCE_MODE", True),
        ("matmul3d_2d_reshape", "PT_HPU_MATMUL3D_2D_RESHAPE", True),
        ("optim_output_sif", "PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF", False),
    ],
)
def test_switches_move_their_flag(told, name, flag, on):
    getattr(hpu, f"enable_{name}")()
    assert bridge_config.get(flag) is True
    getattr(hpu, f"disable_{name}")()
    assert bridge_config.get(flag) is False
    (line,) = told()
    assert line.startswith(f"{flag}={on} has no effect: ")


def test_switches_without_a_flag(told, tmp_path):
    hpu.enable_quantization()
    hpu.disable_quantization()
    hpu.enable_const_section_serialization(str(tmp_path / "sections"), True, False)
    hpu.disable_const_section_serialization()
    assert not (tmp_path / "sections").exists()
    assert [line.partition(" has")[0] for line in told()] == [
        "enable_quantization()",
        "enable_const_section_serialization()",
    ]


def test_sdp_kernel_restores_the_state(told):
    assert hpu.recompute_sdp_enabled() is True
    with hpu.sdp_kernel(enable_recompute=False) as nothing:
        assert nothing == {} and hpu.recompute_sdp_enabled() is False
        with hpu.sdp_kernel():
            assert hpu.recompute_sdp_enabled() is True
        assert hpu.recompute_sdp_enabled() is False
    with pytest.raises(KeyError), hpu.sdp_kernel(False):
        raise KeyError
    assert hpu.recompute_sdp_enabled() is True
    assert len(told()) == 1 and "the compiler decides" in told()[0]
