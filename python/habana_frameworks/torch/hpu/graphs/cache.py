"""The captures of one function or module, by what its calls are given."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from ... import native
from ...internal import notices
from ...internal.asked_errors import AskedForError
from .calls import CapturedCall, OtherTensors
from .module_state import ModuleState, Replaced
from .values import NotCapturable, read

_Key = tuple[Hashable, ...]


class GraphCache:
    """Calls a function, and captures and replays its calls where that is possible.

    A call is replayed that is given tensors of the same sizes, strides and types, and else the same
    values, in the same modes (training, gradients, autocast, default type) as a captured one. Where
    a call cannot be captured, the function runs as without graphs, and one warning says why.

    module: what the function is the forward of. max_graphs: the most captures; further calls run as
    without graphs. admit: says of a call without a capture, by its key, whether it may have one.
    with_backward: the backward is captured with the forward, and not when it is first wanted.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        module: nn.Module | None,
        max_graphs: int | None,
        *,
        admit: Callable[[_Key], bool] = lambda _: True,
        with_backward: bool = False,
    ) -> None:
        self.function = function
        self.max_graphs = max_graphs
        self._module = module
        self._state = ModuleState(module)
        self._admit = admit
        self._with_backward = with_backward
        # None for calls that cannot be captured.
        self._calls: dict[_Key, CapturedCall | None] = {}
        self._tried: set[_Key] = set()
        self.captures = 0
        self.replays = 0
        self.others = 0  # calls without a graph

    def clear(self) -> None:
        """Drops all captures."""
        self._calls.clear()
        self._tried.clear()

    def __len__(self) -> int:
        return sum(call is not None for call in self._calls.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A call in another capture or in a compiled graph becomes part of that.
        if torch.compiler.is_compiling() or native.torch_module().is_capturing():
            return self.function(*args, **kwargs)
        tensors: dict[int, torch.Tensor] = {}
        words: list[Hashable] = []
        try:
            read((args, kwargs), tensors, words)
        except NotCapturable as reason:
            return self._run(args, kwargs, reason)
        given = list(tensors.values())
        key = (*self._modes(given), *words)
        for _ in range(2):
            call = self._find(key, given, args, kwargs)
            if call is None:
                break
            try:
                result = call(given, self._state.tensors())
            except OtherTensors:
                del self._calls[key]  # the module has got a tensor of another form
            except native.torch_module().AliasedInputs as reason:
                return self._run(args, kwargs, reason)
            else:
                self.replays += 1
                return result
        return self._run(args, kwargs)

    def _modes(self, tensors: list[torch.Tensor]) -> _Key:
        state = self._state.tensors()
        gradients = None
        if torch.is_grad_enabled():
            gradients = tuple([tensor.requires_grad for tensor in (*tensors, *state)])
            if self._module is not None and not any(gradients):
                gradients = None
        autocast = torch.get_autocast_dtype("hpu") if torch.is_autocast_enabled("hpu") else None
        return gradients, autocast, torch.get_default_dtype(), self._state.modes()

    def _find(
        self, key: _Key, tensors: list[torch.Tensor], args: Any, kwargs: Any
    ) -> CapturedCall | None:
        if key in self._calls:
            return self._calls[key]
        if not self._admit(key) or (self.max_graphs is not None and len(self) >= self.max_graphs):
            return None
        self._state.look()
        try:
            call = CapturedCall(
                self.function,
                (args, kwargs),
                tensors,
                self._state,
                differentiable=key[0] is not None,
            )
            if self._with_backward:
                call.capture_backward()
            else:
                call.check_backward()
        except AskedForError:
            raise
        except Exception as reason:
            if isinstance(reason, Replaced) and key not in self._tried:
                self._tried.add(key)  # a module may make a tensor at its first call only
                return None
            self._tell(reason)
            self._calls[key] = None
            return None
        self.captures += 1
        self._calls[key] = call
        return call

    def _run(self, args: Any, kwargs: Any, reason: Exception | None = None) -> Any:
        if reason is not None:
            self._tell(reason)
        self.others += 1
        return self.function(*args, **kwargs)

    def _tell(self, reason: Exception) -> None:
        if self._module is not None:
            name = type(self._module).__name__
        else:
            name = getattr(self.function, "__qualname__", type(self.function).__name__)
        text = str(reason).partition("\n")[0] or type(reason).__name__
        notices.once(f"{name} runs without an HPU graph: {text}")
