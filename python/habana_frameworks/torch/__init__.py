"""PyTorch on Intel Gaudi: the device "hpu" and the torch.compile backend "hpu_backend".

    import torch, habana_frameworks.torch
    model = torch.compile(model.to("hpu"), backend="hpu_backend")

The import registers the device with stock PyTorch; nothing is acquired before the first use. With
no card, the emulated device is used. With PT_HPU_LAZY_MODE=1 lazy mode runs as eager mode.

Every public submodule is an attribute after the import; most come when they are asked for.
"""

from __future__ import annotations

import atexit
import os
import sys

import torch

from . import native
from .dynamo.programs import cache_artifacts
from .internal import bridge_config, lazy_mode, registrations
from .internal.after_import import after_import
from .internal.submodules import on_demand

_registered = False


def _check_version() -> None:
    """The native modules are built for one minor version of PyTorch."""
    version = torch.__version__.split("+")[0].split(".")[:2]
    if version != ["2", "13"]:
        raise ImportError(
            f"habana_frameworks.torch is built for PyTorch 2.13 and found {torch.__version__}"
        )


def _register_with_dynamo() -> None:
    """Entry points announce the backend; a source tree that is not installed has none."""
    if "torch._dynamo" not in sys.modules:
        return
    from torch._dynamo.backends import registry

    if "hpu_backend" not in registry.list_backends(exclude_tags=()):
        from .dynamo.compile_backend.backends import hpu_backend

        registry.register_backend(name="hpu_backend", compiler_fn=hpu_backend)


def _register_device_interface() -> None:
    from .hpu import device_interface

    device_interface.register()


def _announce_backend() -> None:
    """Makes `backend="hpu_backend"` known by name, without importing torch._dynamo early."""
    import importlib.metadata

    if importlib.metadata.entry_points(group="torch_dynamo_backends", name="hpu_backend"):
        return
    import torch._dynamo  # noqa: F401

    _register_with_dynamo()


def autoload() -> None:
    """Registers the device and the backend; harmless when repeated. The import does it."""
    global _registered
    if _registered:
        return
    lazy_mode.asked_for()
    bridge_config.tell_environment()
    _check_version()
    registrations.watch()
    # Inductor's helper processes are of no use here and slow down start-up.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # The device's library then traces when it is asked to, and only then.
    os.environ.setdefault("HABANA_PROFILE", "profile_api_light")
    atexit.register(native.torch_module().await_autograd_thread)
    from . import hpu

    torch._register_device_module("hpu", hpu)
    hpu.random.join_manual_seed()
    hpu.streams.join_tensor_record_stream()
    hpu.torch_profiler.complete()
    cache_artifacts.register()
    _registered = True
    hpu.metrics.install_dump()
    after_import("torch._dynamo.device_interface", _register_device_interface)
    _announce_backend()


autoload()

# What programs reach as attributes after the bare import, beside what that imports itself.
__getattr__ = on_demand(__name__, "core", "distributed", "hccl", "hpex", "utils", "warmup")
