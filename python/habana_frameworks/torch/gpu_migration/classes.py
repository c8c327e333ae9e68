"""Classes and library functions that take a device, or that choose one themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..internal.after_import import after_import
from ..internal.notices import once
from . import log
from .devices import to_hccl, to_hpu, to_nccl
from .functions import takes_devices


def _replace_init(cls: type, change: Callable[[dict[str, Any]], None], *names: str) -> None:
    """Lets `change` change the arguments of cls(...). names: of the positional ones, in order."""
    original = cls.__init__  # type: ignore[misc]

    @functools.wraps(original)
    def migrated(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(names):
            original(self, *args, **kwargs)
            return
        given = dict(zip(names, args, strict=False)) | kwargs
        changed = dict(given)
        change(changed)
        if log.LEVEL and changed != given:
            label = f"torch.{cls.__name__}.__init__"
            before, after = log.arguments((), given), log.arguments((), changed)
            log.write("hpu_match", f"{label}({before}, )", f"{label}({after})")
        original(self, **changed)

    cls.__init__ = migrated  # type: ignore[misc]


def _autocast(given: dict[str, Any]) -> None:
    if given.get("device_type") == "cuda":
        given["device_type"] = "hpu"
        # A GPU's usual type is this one; on hpu it is the one that autocast takes by itself.
        if given.get("dtype") is torch.float16:
            given["dtype"] = None


def _scaler(given: dict[str, Any]) -> None:
    """Gradients of bf16 need no scale."""
    if to_hpu(given.get("device", "cuda")) == "hpu":
        given["device"] = "hpu"
        given["enabled"] = False


def _loader(given: dict[str, Any]) -> None:
    if "pin_memory_device" in given:
        given["pin_memory_device"] = to_hpu(given["pin_memory_device"])


def _profile(given: dict[str, Any]) -> None:
    activity = torch.profiler.ProfilerActivity
    asked = given.get("activities") or (activity.CPU, activity.CUDA)
    given["activities"] = [activity.HPU if a == activity.CUDA else a for a in asked]


def _without_devices(given: dict[str, Any]) -> None:
    given["device_ids"] = given["output_device"] = None


def _parallel(cls: Any) -> None:
    """torch.nn.DataParallel of the one device is the module itself."""
    original = cls.__init__

    @functools.wraps(original)
    def migrated(self: Any, module: Any, *_: Any, dim: int = 0, **__: Any) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.dim, self.device_ids = module.to("hpu"), dim, []

    cls.__init__ = migrated


class _GeneratorType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Generator)


_Generator = torch.Generator


class Generator(metaclass=_GeneratorType):
    """torch.Generator: makes one of hpu for cuda."""

    def __new__(cls, device: Any = "cpu") -> Any:
        if to_hpu(device) is not device:
            log.write("hpu_match", f"torch.Generator(device={device}, )", "torch.Generator('hpu')")
        return _Generator(to_hpu(device))


def _map_location(location: Any) -> Any:
    if isinstance(location, dict):
        return {to_hpu(key): to_hpu(value) for key, value in location.items()}
    return to_hpu(location)


def _replace_load() -> None:
    original: Callable[..., Any] = torch.load

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(f, _map_location(map_location), *args, **kwargs)

    torch.load = torch.serialization.load = load

    def restored(storage: Any, location: str) -> Any:
        """Storages that a GPU saved."""
        if location.partition(":")[0] != "cuda":
            return None
        return torch.serialization.default_restore_location(storage, to_hpu(location))

    # PyTorch's own row for cuda has the priority 20.
    torch.serialization.register_package(15, lambda storage: None, restored)


def _replace_compile() -> None:
    original: Callable[..., Any] = torch.compile

    @functools.wraps(original)
    def migrated(model: Any = None, **kwargs: Any) -> Any:
        backend = kwargs.get("backend", "inductor")
        if backend in ("inductor", "cudagraphs"):
            log.write("hpu_modified", f"torch.compile(backend={backend}, )", "backend hpu_backend")
            kwargs["backend"] = "hpu_backend"
            if kwargs.pop("options", None):
                once(f"torch.compile: options of {backend} have no effect on hpu")
        return original(model, **kwargs)

    torch.compile = migrated


def _replace_process_groups() -> None:
    import torch.distributed as dist

    def replace(name: str, keyword: str, position: int) -> None:
        original: Callable[..., Any] = getattr(dist, name)

        @functools.wraps(original)
        def migrated(*args: Any, **kwargs: Any) -> Any:
            changed = list(args)
            if len(args) > position:
                changed[position] = to_hccl(args[position])
            elif keyword in kwargs:
                kwargs[keyword] = to_hccl(kwargs[keyword])
            if kwargs.get("device_id") is not None:
                kwargs["device_id"] = to_hpu(kwargs["device_id"])
            log.write("hpu_match", f"torch.distributed.{name}()", "change backend to hccl")
            return original(*changed, **kwargs)

        setattr(dist, name, migrated)
        setattr(dist.distributed_c10d, name, migrated)

    if not dist.is_available():
        return
    replace("init_process_group", "backend", 0)
    replace("new_group", "backend", 2)
    get_backend: Callable[..., str] = dist.get_backend

    @functools.wraps(get_backend)
    def migrated_get_backend(*args: Any, **kwargs: Any) -> str:
        return to_nccl(get_backend(*args, **kwargs))

    setattr(dist, "get_backend", migrated_get_backend)  # noqa: B010  it returns a plain str
    dist.is_nccl_available = functools.partial(dist.is_backend_available, "hccl")
    after_import(
        "torch.distributed.device_mesh",
        lambda: takes_devices(
            torch.distributed.device_mesh, "init_device_mesh", "torch.distributed.init_device_mesh"
        ),
    )


def install() -> None:
    _replace_init(
        torch.amp.autocast_mode.autocast,
        _autocast,
        *("device_type", "dtype", "enabled", "cache_enabled"),
    )
    _replace_init(
        torch.amp.grad_scaler.GradScaler,
        _scaler,
        *("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    )
    _replace_init(torch.profiler.profile, _profile)
    _replace_init(torch.utils.data.DataLoader, _loader, "dataset", "batch_size", "shuffle")
    _replace_init(
        torch.nn.parallel.DistributedDataParallel,
        _without_devices,
        *("module", "device_ids", "output_device", "dim"),
    )
    _parallel(torch.nn.DataParallel)
    torch.Generator = Generator  # type: ignore[misc]
    _replace_load()
    _replace_compile()
    _replace_process_groups()
