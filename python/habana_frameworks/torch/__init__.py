"""PyTorch on Intel Gaudi: the device "hpu" and the torch.compile backend "hpu_backend".

    import torch, habana_frameworks.torch
    model = torch.compile(model.to("hpu"), backend="hpu_backend")

The import registers the device with stock PyTorch; nothing is acquired before the first use. With
no card, the emulated device is used. PT_HPU_LAZY_MODE=1 is refused: lazy mode needs the fork.
"""

from __future__ import annotations

import os
import sys

import torch

from . import native

_registered = False


def _check_mode() -> None:
    """PT_HPU_LAZY_MODE unset or 0: eager and torch.compile. Guide MODE-3, ABI-5."""
    mode = os.environ.get("PT_HPU_LAZY_MODE", "0").strip() or "0"
    try:
        lazy = int(mode, 0)
    except ValueError:
        raise ImportError(
            f"PT_HPU_LAZY_MODE={mode!r}: expected 0 (eager and torch.compile)"
        ) from None
    if lazy == 1:
        raise ImportError(
            "PT_HPU_LAZY_MODE=1: lazy mode exists only with the Gaudi fork of PyTorch, and this is "
            f"public PyTorch {torch.__version__}. Unset it or set it to 0, and use "
            'torch.compile(model, backend="hpu_backend") instead of mark_step().'
        )
    if lazy != 0:
        raise ImportError(f"PT_HPU_LAZY_MODE={mode}: expected 0 (eager and torch.compile)")


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
        from .dynamo.compile_backend import hpu_backend

        registry.register_backend(name="hpu_backend", compiler_fn=hpu_backend)


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
    _check_mode()
    _check_version()
    # Inductor's helper processes are of no use here and slow down start-up.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # The device's library then traces when it is asked to, and only then.
    os.environ.setdefault("HABANA_PROFILE", "profile_api_light")
    native.torch_module()
    from . import hpu

    torch._register_device_module("hpu", hpu)
    hpu.random.join_manual_seed()
    hpu.streams.join_tensor_record_stream()
    hpu.torch_profiler.complete()
    _registered = True
    hpu.metrics.install_dump()
    _announce_backend()


autoload()
