"""The functions of PyTorch that this package replaces.

Each row names the parameters that the replacement relies on. `original` fails with Mismatch where
the function of this PyTorch lacks one of them. `replace` also reaches Dynamo's modules that have
imported a function by its name; which ones do differs between versions of PyTorch.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .features import (
    AUTOMATIC_SIZES,
    CLIPPING,
    COMPILING,
    CONTEXT_PARALLEL,
    FAKE_RESULTS,
    MANUAL_SEED,
    MIGRATION,
    OPTIMIZERS,
    PRINTING,
    STARTS,
    STORAGES,
    Feature,
    Mismatch,
)


@dataclass(frozen=True)
class Replaced:
    feature: Feature
    module: str
    attribute: str  # of the module; "Class.name" for a method
    parameters: tuple[str, ...]


_DYNAMO = "torch._dynamo"
_VARIABLES = "torch._dynamo.variables"
_TRANSLATOR = "torch._dynamo.symbolic_convert"
_FAKE_IMPLS = "torch._subclasses.fake_impls"
_DECOMPOSITIONS = "torch._decomp.decompositions"
_TABLE = (
    Replaced(STARTS, f"{_DYNAMO}.convert_frame", "_compile", ("code", "compiler_fn", "skip")),
    Replaced(STARTS, f"{_DYNAMO}.convert_frame", "DynamoOutput.build_guards", ("self", "code")),
    Replaced(STARTS, f"{_DYNAMO}.convert_frame", "trace_frame", ()),
    Replaced(STARTS, f"{_DYNAMO}.guards", "install_object_aliasing_guard", ()),
    Replaced(STARTS, _TRANSLATOR, "InliningInstructionTranslator.inline_call_", ("self",)),
    Replaced(
        STARTS,
        _TRANSLATOR,
        "InstructionTranslatorBase.load_builtin_from_argval",
        ("self", "argval"),
    ),
    Replaced(STARTS, f"{_VARIABLES}.functions", "invoke_and_store_as_constant", ("tx", "fn")),
    Replaced(STARTS, f"{_VARIABLES}.builtin", "BuiltinVariable.call_id", ("self", "tx")),
    Replaced(STARTS, f"{_VARIABLES}.builtin", "BuiltinVariable.call_isinstance", ("self", "tx")),
    Replaced(
        STARTS, f"{_VARIABLES}.builtin", "BuiltinVariable.call_function", ("self", "tx", "args")
    ),
    Replaced(STARTS, f"{_VARIABLES}.builtin", "BuiltinVariable.call_sorted", ("self", "tx", "obj")),
    Replaced(STARTS, f"{_VARIABLES}", "ConstantVariable.__init__", ("self", "value")),
    Replaced(
        STARTS, f"{_VARIABLES}", "ConstantVariable.call_method", ("self", "tx", "name", "args")
    ),
    Replaced(STARTS, f"{_VARIABLES}.object_protocol", "generic_hash", ("tx",)),
    Replaced(STARTS, f"{_VARIABLES}.object_protocol", "generic_issubclass", ("tx",)),
    Replaced(STARTS, f"{_VARIABLES}.lists", "ListVariable.call_method", ("self", "tx", "name")),
    *(
        Replaced(STARTS, f"{_VARIABLES}.sets", f"{kind}.{method}", ("self", "tx"))
        # From 2.15 on, the second one is no longer derived from the first one.
        for kind in ("SetVariable", "FrozensetVariable")
        for method in ("unpack_var_sequence", "tp_iter_impl")
    ),
    Replaced(STARTS, f"{_VARIABLES}.hashable", "HashableTracker.__init__", ("self", "vt")),
    Replaced(
        AUTOMATIC_SIZES, f"{_DYNAMO}.pgo", "update_automatic_dynamic", ("tx", "name", "entry")
    ),
    Replaced(
        OPTIMIZERS, f"{_VARIABLES}.optimizer", "OptimizerVariable._set_capturable", ("self", "tx")
    ),
    Replaced(OPTIMIZERS, f"{_VARIABLES}.optimizer", "_is_static_for_cudagraphs", ("x",)),
    Replaced(OPTIMIZERS, "torch.optim.optimizer", "_get_foreach_kernels_supported_devices", ()),
    Replaced(FAKE_RESULTS, _FAKE_IMPLS, "is_noncontiguous_supported", ("device",)),
    Replaced(FAKE_RESULTS, "torch._refs", "is_noncontiguous_supported", ("device",)),
    Replaced(FAKE_RESULTS, _DECOMPOSITIONS, "native_batch_norm_helper", ("input", "training")),
    Replaced(COMPILING, "torch._ops", "OpOverload.py_impl", ("self", "k")),
    Replaced(MANUAL_SEED, "torch.random", "_seed_custom_device", ("seed",)),
    Replaced(STORAGES, "torch", "Tensor.data_ptr", ()),
    Replaced(STORAGES, "torch", "Tensor.untyped_storage", ()),
    Replaced(STORAGES, "torch", "UntypedStorage.resize_", ()),
    Replaced(MIGRATION, "torch.cuda", "_lazy_init", ()),
    Replaced(MIGRATION, "torch.utils._device", "DeviceContext.__init__", ("self", "device")),
    Replaced(
        MIGRATION, f"{_VARIABLES}.tensor", "TensorVariable.method_attr_is_cuda", ("self", "tx")
    ),
    Replaced(CLIPPING, "torch.nn.utils.clip_grad", "_device_has_foreach_support", ("device",)),
    Replaced(
        CONTEXT_PARALLEL,
        "torch.distributed.tensor.experimental._context_parallel._attention",
        "_ContextParallel.sdpa_input_fn",
        ("self", "module", "args", "kwargs", "mesh"),
    ),
    Replaced(PRINTING, "torch._tensor_str", "_tensor_str", ("self", "indent")),
)
ROWS = {f"{row.module}.{row.attribute}": row for row in _TABLE}


def _owner(row: Replaced) -> tuple[Any, str]:
    owner: Any = importlib.import_module(row.module)
    *classes, name = row.attribute.split(".")
    for cls in classes:
        owner = getattr(owner, cls)
    return owner, name


def original(path: str) -> Callable[..., Any]:
    """The function as it is now. path: a key of ROWS. Mismatch; AttributeError."""
    row = ROWS[path]
    owner, name = _owner(row)
    function: Callable[..., Any] = getattr(owner, name)
    missing = [p for p in row.parameters if p not in inspect.signature(function).parameters]
    if missing:
        raise Mismatch(f"{path} has no parameter {', '.join(missing)}")
    return function


@functools.lru_cache(maxsize=1)
def _modules_of_dynamo(count: int) -> list[types.ModuleType]:
    """count: of all modules, which tells whether more were imported. A start replaces thirty
    functions; going through all modules' names for each took 7 ms, and this takes 0.2 ms."""
    prefix = f"{_DYNAMO}."
    return [module for name, module in list(sys.modules.items()) if name.startswith(prefix)]


def replace(path: str, function: Callable[..., Any]) -> None:
    """From now on PyTorch calls `function`, which calls the original one."""
    owner, name = _owner(ROWS[path])
    before = getattr(owner, name)
    setattr(owner, name, function)
    if inspect.isclass(owner):
        return
    for module in _modules_of_dynamo(len(sys.modules)):
        if vars(module).get(name) is before:
            setattr(module, name, function)
