"""PyTorch on Intel Gaudi: the device "hpu" and the torch.compile backend "hpu_backend".

    import torch, habana_frameworks.torch
    model = torch.compile(model.to("hpu"), backend="hpu_backend")

The import registers the device with stock PyTorch; nothing is acquired before the first use.
Without a card, the emulated device is used.

Every public submodule is an attribute after the import; most are imported when they are first used.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys

import torch

from . import native
from .internal import bridge_config, lazy_mode, vision
from .internal.after_import import after_import
from .internal.flag_table import COMPILE_ONLY, LAZY_COLLECTIVES, SYNC_LAUNCH
from .internal.notices import once
from .internal.submodules import on_demand
from .torch_compat import TESTED, features, minor_version
from .torch_compat.devices import register_device_module

_registered = False
# This PyTorch is PyTorch's own, and not Intel's fork of it.
is_torch_fork = False


def _check_version() -> None:
    """The native modules are built for one minor version of PyTorch."""
    version, built_for = minor_version(torch.__version__), minor_version(native.built_for())
    if version != built_for:
        raise ImportError(
            f"habana_frameworks.torch is built for PyTorch {built_for} and found "
            f"{torch.__version__}: build it with that one (docs/pytorch_versions.md)"
        )
    if version not in TESTED:
        logging.getLogger("habana_frameworks.torch").warning(
            "habana_frameworks.torch was not tested with PyTorch %s (tested: %s)",
            version,
            ", ".join(TESTED),
        )


def _watch_registrations() -> None:
    from .internal import registrations

    registrations.watch()


def _register_artifacts() -> None:
    from .dynamo.programs import cache_artifacts

    cache_artifacts.register()


def _connect_eager_ops() -> None:
    from .lazy import front_end

    front_end.connect()


def _define_operators() -> None:
    from .ops import all  # noqa: F401


def _defines_operators() -> bool:
    definition = sys.modules.get(f"{__name__}.ops.definition")
    return definition is not None and bool(definition.is_defining())


def _widen_products() -> None:
    from .internal import wide_products

    wide_products.register()


def _offer_operators() -> None:
    from .torch_compat.namespaces import define_on_demand

    # torch.library looks for these when the capture's modules define them.
    captures = frozenset({"int4_matmul", "recurrent_layer", "recurrent_layer_backward"})
    define_on_demand("hpu", _define_operators, captures, _defines_operators)


def _register_process_group() -> None:
    from .distributed import process_group

    process_group.register()


def _start_lazy_mode() -> None:
    if lazy_mode.is_on():
        from . import lazy

        lazy.start()


def _register_with_dynamo() -> None:
    """Registers the backend with Dynamo. Entry points announce it otherwise, but a source tree that
    is not installed has none."""
    if "torch._dynamo" not in sys.modules:
        return
    from .torch_compat.registry import list_backends, register_backend

    if "hpu_backend" not in list_backends(exclude_tags=()):
        from .dynamo.compile_backend.backends import hpu_backend

        register_backend(name="hpu_backend", compiler_fn=hpu_backend)


def _register_device_interface() -> None:
    from .hpu import device_interface

    device_interface.register()


def _set_launch_modes() -> None:
    module = native.torch_module()
    bridge_config.listen(COMPILE_ONLY, module.set_compile_only)
    bridge_config.listen(SYNC_LAUNCH, module.set_sync_launch)
    bridge_config.listen(LAZY_COLLECTIVES, module.set_lazy_collectives)


def _check_settings() -> None:
    """Raises ImportError for a setting that makes no sense. Nothing is registered by then, so that
    a second import says the same."""
    if lazy_mode.is_on():
        lazy_mode.most_calls()
    try:
        for flag in (COMPILE_ONLY, SYNC_LAUNCH, LAZY_COLLECTIVES):
            bridge_config.get(flag)
    except ValueError as error:
        raise ImportError(str(error)) from None


def _run_uncompiled() -> None:
    """Lets torch.compile run functions as they are, because only single operators check indices."""
    once("PT_HPU_CHECK_INDICES is set: torch.compile runs functions as they are, uncompiled")
    torch.compiler.set_stance("force_eager")


def _announce_backend() -> None:
    """Makes `backend="hpu_backend"` known by name, without importing torch._dynamo early."""
    import importlib.metadata

    if importlib.metadata.entry_points(group="torch_dynamo_backends", name="hpu_backend"):
        return
    from .torch_compat import registry  # noqa: F401

    _register_with_dynamo()


def autoload() -> None:
    """Registers the device and the backend; harmless when repeated. The import does it."""
    global _registered
    if _registered:
        return
    _check_settings()
    bridge_config.tell_environment()
    _check_version()
    features.enable(features.COMPILING, _watch_registrations)
    # Inductor's helper processes are of no use here and slow down start-up.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # With this the device's library traces only when it is asked to.
    os.environ.setdefault("HABANA_PROFILE", "profile_api_light")
    atexit.register(native.torch_module().await_autograd_thread)
    atexit.register(native.torch_module().stop_recording)
    atexit.register(native.torch_module().stop_watching_backends)
    from . import hpu

    register_device_module("hpu", hpu)
    hpu.autocast_lists.register()
    features.enable(features.MANUAL_SEED, hpu.random.join_manual_seed)
    features.enable(features.PRINTING, hpu.printing.copy_before_printing)
    features.enable(features.CLIPPING, hpu.clipping.allow_foreach)
    hpu.torch_profiler.complete()
    hpu.sharing.register()
    features.enable(features.ARTIFACTS, _register_artifacts)
    features.enable(features.COMPILING, _connect_eager_ops)
    features.enable(features.OPERATORS, _offer_operators)
    features.enable(features.WIDE_PRODUCTS, _widen_products)
    features.enable(features.DISTRIBUTED, _register_process_group)
    _start_lazy_mode()
    _set_launch_modes()
    _registered = True
    hpu.metrics.install_dump()
    after_import(
        "torch._dynamo.device_interface",
        lambda: features.enable(features.DEVICE_INTERFACE, _register_device_interface),
    )
    vision.watch()
    if native.torch_module().wants_index_checks():
        after_import("torch._dynamo", _run_uncompiled)
    _announce_backend()
    if bridge_config.get("PT_HPU_GPU_MIGRATION"):
        from . import gpu_migration  # noqa: F401


autoload()

# Older programs use these names on the package.
from .hpu import disable_dynamic_shape as disable_dynamic_shape  # noqa: E402
from .hpu import enable_dynamic_shape as enable_dynamic_shape  # noqa: E402

# Modules that programs use as attributes after the bare import, beside those that the import itself
# brings.
__getattr__ = on_demand(
    __name__, "core", "distributed", "gpu_migration", "hccl", "hpex", "utils", "warmup"
)
