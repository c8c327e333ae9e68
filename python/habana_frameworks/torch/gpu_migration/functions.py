"""Functions and methods that take a device: cuda is hpu in their arguments.

A replacement has the name of the original. Dynamo takes it into graphs like the original: it calls
it with fake tensors when it traces, and the capture sees the call on hpu.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import hpu
from ..internal.after_import import after_import
from ..torch_compat import features
from ..torch_compat.default_device import device_constructors
from ..torch_compat.replaced import original, replace
from ..torch_compat.scripting import find_builtin, register_builtin
from . import log
from .devices import all_to_hpu, to_hpu

_MAKERS = (
    *("arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty"),
    *("empty_like", "empty_permuted", "empty_quantized", "empty_strided", "eye", "frombuffer"),
    *("full", "full_like", "hamming_window", "hann_window", "kaiser_window", "linspace"),
    *("logspace", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like"),
    *("randn", "randn_like", "randperm", "range", "scalar_tensor", "sparse_bsc_tensor"),
    *("sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor"),
    *("sparse_csr_tensor", "tensor", "tril_indices", "triu_indices", "zeros", "zeros_like"),
)
# Functions of torch that ask for a type of device, or set one.
_QUESTIONS = (
    *("get_autocast_dtype", "set_autocast_dtype", "set_autocast_enabled", "set_default_device"),
)
_METHODS = (
    *("is_pinned", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor"),
    *("new_zeros", "pin_memory", "to"),
)


_TENSORS_OF_DYNAMO = "torch._dynamo.variables.tensor"


def _tell_dynamo(function: Callable[..., Any], migrated: Callable[..., Any]) -> None:
    from ..torch_compat.trace_rules import treat_alike

    treat_alike(function, migrated)


def takes_devices(owner: Any, name: str, label: str) -> None:
    """Replaces owner.<name> by a function that maps its devices."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def migrated(*args: Any, **kwargs: Any) -> Any:
        mapped = all_to_hpu(args, kwargs)
        if mapped is None:
            return function(*args, **kwargs)
        if log.LEVEL:
            before, after = log.arguments(args, kwargs), log.arguments(*mapped)
            log.write("hpu_match", f"{label}({before}, )", f"{label}({after})")
        return function(*mapped[0], **mapped[1])

    # Those of a built-in function name no place where pickle and torch.fx find it.
    migrated.__module__ = "torch" if isinstance(owner, type) else owner.__name__
    migrated.__qualname__ = f"{owner.__name__}.{name}" if isinstance(owner, type) else name
    known_to_scripts = find_builtin(function)
    if known_to_scripts is not None:
        register_builtin(migrated, known_to_scripts)
    if function in device_constructors():
        device_constructors().add(migrated)
    if "torch._dynamo.trace_rules" in sys.modules:
        features.enable(features.MIGRATION, lambda: _tell_dynamo(function, migrated))
    setattr(owner, name, migrated)


def _cuda(self: torch.Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Tensor.cuda: a copy on hpu."""
    device = to_hpu(device)
    if isinstance(device, int):
        device = torch.device("hpu", device)
    log.write("hpu_match", f"torch.Tensor.cuda(device={device}, )", "torch.Tensor.to('hpu')")
    return self.to("hpu" if device is None else device, non_blocking=non_blocking, **kwargs)


def _module_cuda(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """Module.cuda: moves the module to hpu."""
    device = to_hpu(device)
    log.write("hpu_match", f"torch.nn.Module.cuda(device={device}, )", "torch.nn.Module.to('hpu')")
    if isinstance(device, int):
        device = torch.device("hpu", device)
    return self.to("hpu" if device is None else device)


def _replace_type() -> None:
    """Tensor.type reads and writes names such as "torch.cuda.FloatTensor"."""
    convert: Callable[..., Any] = torch.Tensor.type

    @functools.wraps(convert)
    def migrated(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            return convert(self).replace("torch.hpu.", "torch.cuda.")
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            dtype = getattr(hpu, dtype.rpartition(".")[2])
        kind = getattr(dtype, "element_type", None)  # of the constructors of torch.hpu
        if kind is not None:
            log.write("hpu_match", f"torch.Tensor.type(dtype={dtype}, )", f"to hpu and {kind}")
            return self.to("hpu", kind)
        return convert(self, dtype, *args, **kwargs)

    torch.Tensor.type = migrated  # type: ignore[method-assign, assignment]


def _replace_is_cuda() -> None:
    def is_cuda(self: torch.Tensor) -> bool:
        return self.device.type == "hpu"

    torch.Tensor.is_cuda = property(is_cuda)  # type: ignore[assignment]
    after_import(_TENSORS_OF_DYNAMO, lambda: features.enable(features.MIGRATION, _in_dynamo))


def _in_dynamo() -> None:
    """Dynamo answers by the type of the device that it knows."""
    path = f"{_TENSORS_OF_DYNAMO}.TensorVariable.method_attr_is_cuda"
    answer = original(path)

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        device = self.device
        if device is not None and device.type == "hpu":
            device = torch.device("cuda")
        return answer(types.SimpleNamespace(device=device), tx)

    replace(path, method_attr_is_cuda)


def _replace_default_devices() -> None:
    """`with torch.device("cuda"):` and torch.set_default_tensor_type."""

    def contexts() -> None:
        path = "torch.utils._device.DeviceContext.__init__"
        init = original(path)

        @functools.wraps(init)
        def migrated(self: Any, device: Any) -> None:
            init(self, to_hpu(device))

        replace(path, migrated)

    features.enable(features.MIGRATION, contexts)
    set_type: Callable[..., None] = torch.set_default_tensor_type

    @functools.wraps(set_type)
    def set_default_tensor_type(t: Any) -> None:
        if isinstance(t, str) and t.startswith("torch.cuda."):
            t = getattr(hpu, t.rpartition(".")[2])
        kind = getattr(t, "element_type", None)
        if kind is None:
            set_type(t)
            torch.set_default_device("cpu")
        else:
            log.write("hpu_match", f"torch.set_default_tensor_type({t})", f"hpu and {kind}")
            torch.set_default_dtype(kind)
            torch.set_default_device("hpu")

    torch.set_default_tensor_type = set_default_tensor_type


def _replace_autocast_state() -> None:
    """torch.is_autocast_enabled() without a type asks for cuda's."""
    enabled: Callable[..., bool] = torch.is_autocast_enabled

    @functools.wraps(enabled)
    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        return enabled(to_hpu(device_type))

    torch.is_autocast_enabled = is_autocast_enabled
    dtype: Callable[..., torch.dtype] = torch.get_autocast_dtype
    torch.get_autocast_gpu_dtype = lambda: dtype("hpu")
    set_dtype: Callable[..., None] = torch.set_autocast_dtype
    torch.set_autocast_gpu_dtype = functools.partial(set_dtype, "hpu")


def install() -> None:
    for name in _MAKERS:
        takes_devices(torch, name, f"torch.{name}")
    for name in _QUESTIONS:
        takes_devices(torch, name, f"torch.{name}")
    for name in ("fftfreq", "rfftfreq"):
        takes_devices(torch.fft, name, f"torch.fft.{name}")
    for name in ("as_nested_tensor", "nested_tensor"):
        takes_devices(torch.nested, name, f"torch.nested.{name}")
    for name in _METHODS:
        takes_devices(torch.Tensor, name, f"torch.Tensor.{name}")
    torch.Tensor.cuda = _cuda  # type: ignore[method-assign, assignment]
    torch.nn.Module.cuda = _module_cuda  # type: ignore[method-assign, assignment]
    _replace_type()
    _replace_is_cuda()
    _replace_default_devices()
    _replace_autocast_state()
