"""The key of a stored start: what is compared before any stored content is read.

One start belongs to one frame that Dynamo would trace: a function's code, its module, the classes
and shapes of its arguments, the options, the process's state, and all builds. What tracing read
beyond that is in the start itself, as facts (guard_facts.py) and as the code fingerprint
(code_fingerprint.py).
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from typing import Any

import torch

from ... import native
from ...torch_compat.dynamo_settings import dynamo_config, functorch_config, symbol_config
from ...torch_compat.modes import get_current_dispatch_mode, get_current_function_mode_stack
from ...torch_compat.tracing import (
    GlobalStateGuard,
    PyInterpreterFrame,
    current_device,
    get_cublas_allow_tf32,
)
from ...torch_compat.transforms import dual_level, peek_interpreter_stack
from ..keys.code_digest import code_digest
from ..keys.graph_key import ambient_factors
from ..programs.request import Settings
from ..programs.service import service
from .describe import Describer, Refused, short_digest, tensor_text, type_name

Factors = list[tuple[str, str]]

# Locals that are containers are described to this depth.
_DEPTH = 3


def _setting_text(value: Any, describer: Describer) -> str:
    """The text of any setting. Sets have another order in every process, and functions another
    address."""
    if isinstance(value, (set, frozenset, list, tuple)):
        return f"({', '.join(sorted(_setting_text(v, describer) for v in value))})"
    if isinstance(value, dict):
        return f"({', '.join(f'{k}: {_setting_text(v, describer)}' for k, v in value.items())})"
    return describer.loosely(value)


# The limits on how often a function is traced decide nothing about one trace, and warm-ups raise
# them.
_LIMITS = ("recompile_limit", "accumulated_recompile_limit")
# Longer values are replaced by a digest in factors, which the journal keeps, because they are
# people's data.
_LONGEST_TEXT = 64


def _config_text(describer: Describer) -> str:
    """Digest of PyTorch's settings that decide what is traced."""

    modules = (dynamo_config, functorch_config, symbol_config)
    texts = [
        f"{module.__name__}.{name} = {_setting_text(value, describer)}"
        for module in modules
        for name, value in sorted(module.get_config_copy().items())
        if not name.startswith("_") and name not in _LIMITS
    ]
    return short_digest("\n".join(texts))


def _refuse_modes() -> None:
    from ...torch_compat.tracing import top_saved_tensors_hooks

    if get_current_function_mode_stack():
        raise Refused("a torch function mode is active")
    if get_current_dispatch_mode() is not None:
        raise Refused("a torch dispatch mode is active")
    if peek_interpreter_stack() is not None:
        raise Refused("a functorch transform is active")
    if dual_level() >= 0:
        raise Refused("forward-mode differentiation is active")
    if top_saved_tensors_hooks() is not None:
        raise Refused("hooks of saved tensors are active")
    modules = torch.nn.modules.module
    for name in vars(modules):
        if name.startswith("_global_") and name.endswith("_hooks") and vars(modules)[name]:
            raise Refused("a hook of all modules is registered")


def _global_state() -> dict[str, Any]:
    """The values that Dynamo's guard of the global state compares, by name."""
    state: dict[str, Any] = json.loads(str(GlobalStateGuard().__getstate__()))
    return state


def _folded_text() -> str:
    """The values that Dynamo asks the process for while it traces, and builds in without a
    guard."""
    distributed = torch.distributed
    texts = ["no group"]
    if distributed.is_available() and distributed.is_initialized():
        from ...torch_compat.process_groups import describe_groups

        texts = [f"rank {distributed.get_rank()} of {distributed.get_world_size()}"]
        texts += [f"group {group}" for group in describe_groups()]
        # Programs call groups by their places among these.
        texts += [f"joined {name}" for name in native.torch_module().joined_groups()]
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        texts.append(f"{name} {getattr(torch.backends.cuda, f'{name}_sdp_enabled')()}")
    texts.append(f"overwrite {torch.__future__.get_overwrite_module_params_on_conversion()}")
    texts.append(f"tf32 {get_cublas_allow_tf32()}")
    texts.append(f"recursions {sys.getrecursionlimit()}")
    for kind in ("cpu", "hpu", "cuda"):
        texts.append(f"autocast of {kind} {torch.get_autocast_dtype(kind)}")
    return ", ".join(texts)


def state_factors() -> Factors:
    """The factors of the process's state. Raises Refused in a state for which no start is kept."""
    _refuse_modes()
    describer = Describer()
    return [
        *ambient_factors(),
        ("python build", platform.python_version()),
        ("torch build", f"{torch.__version__} {torch.version.git_version}"),
        # Another front end may keep starts of another form.
        ("front end", code_digest("dynamo", "torch_compat")),
        ("torch config", _config_text(describer)),
        *((f"state {name}", json.dumps(value)) for name, value in _global_state().items()),
        # Operators look their functions up on the class, so nothing in the traced code names them.
        ("methods of tensors", describer.class_text(torch.Tensor)),
        ("folded state", _folded_text()),
        ("default device", str(current_device())),
    ]


def _module_lines(module: torch.nn.Module) -> Iterator[str]:
    for path, part in module.named_modules(remove_duplicate=False):
        yield f"{path}: {type_name(type(part))} {part.training}"
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                yield f" {name}: {'None' if tensor is None else tensor_text(tensor)}"


def _local_text(value: Any, describer: Describer, depth: int) -> str:
    text = _whole_text(value, describer, depth)
    return text if len(text) <= _LONGEST_TEXT else f"{type_name(type(value))} {short_digest(text)}"


def _whole_text(value: Any, describer: Describer, depth: int) -> str:
    if isinstance(value, torch.nn.Module):
        content = "\n".join(_module_lines(value))
        return f"{type_name(type(value))} {hashlib.sha256(content.encode()).hexdigest()[:16]}"
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if depth and type(value) in (tuple, list):
        return f"({', '.join(_local_text(v, describer, depth - 1) for v in value)})"
    if depth and type(value) is dict:
        items = [f"{k!r}: {_local_text(v, describer, depth - 1)}" for k, v in value.items()]
        return "{" + ", ".join(items) + "}"
    if type(value) in (bool, int, float, str, bytes, type(None), torch.dtype, torch.device):
        return describer.value(value)
    return f"a {type_name(type(value))}"


def frame_factors(frame: PyInterpreterFrame, settings: Settings, how: str) -> Factors:
    """how: what the caller of torch.compile chose beside options. Raises Refused."""
    describer = Describer()
    device = native.torch_module()
    code = frame.f_code
    code_text = describer.identity(code)
    return [
        ("compiler", service.build_id),
        ("device", device.device_kind()),
        ("isa_level", device.isa_level()),
        *((f"option {name}", str(value)) for name, value in sorted(settings.items())),
        ("torch.compile", how),
        ("function", f"{frame.f_globals.get('__name__')}.{code.co_qualname} {code_text}"),
        *(
            (f"local {name}", _local_text(frame.f_locals[name], describer, _DEPTH))
            for name in sorted(frame.f_locals)
        ),
        *state_factors(),
    ]


def key_of(factors: Factors) -> str:
    return hashlib.sha256(json.dumps(["hpu-start-1", factors]).encode()).hexdigest()
