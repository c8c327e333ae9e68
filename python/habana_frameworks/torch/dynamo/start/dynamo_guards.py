"""Dynamo's own guards on the values of a frame, built from stored ones.

Dynamo's builder looks every value up by text that it evaluates, and keeps for each guard what only
exports and its logs read. Here the values are those that the facts were compared with (Values), and
nothing is kept; which guards there are, and what each checks in C++, is Dynamo's alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._C._dynamo.eval_frame import _PyInterpreterFrame as DynamoFrameType
from torch._C._dynamo.guards import GlobalStateGuard
from torch._dynamo.guards import CheckFunctionManager, GuardBuilder, GuardManagerWrapper
from torch._dynamo.output_graph import OutputGraphCommon, OutputGraphGuardsState
from torch._guards import Guard, Source

from .describe import Refused
from .guard_facts import StoredGuard, Values


class _Builder(GuardBuilder):
    values: Values

    def get(self, guard_or_source: Guard | Source, closure_vars: Any = None) -> Any:
        if isinstance(guard_or_source, Source):
            return self.values.get(guard_or_source)
        return self.values.get(guard_or_source.originating_source)

    def requires_key_order_guarding(self, source: Source) -> bool:
        guarded = self.key_order_guarded_dict_ids
        return bool(guarded) and source.name != "" and id(self.get(source)) in guarded

    def _set_guard_export_info(self, *_: Any, **__: Any) -> None:
        """For exports, and for people who look at a trace's guards."""


class _Check(CheckFunctionManager):
    def __init__(self, frame: DynamoFrameType, state: OutputGraphGuardsState, values: Values):
        self._values = values
        super().__init__(frame.f_code, OutputGraphCommon(state))
        # The frame's code keeps this for as long as it lives; not the model and its first inputs.
        del self._values

    def build_guards(
        self,
        sorted_guards: list[Guard],
        existing_diff_guard_sources: Any,
        f_code: Any,
        output_graph: OutputGraphGuardsState,
        *_: Any,
        **__: Any,
    ) -> tuple[GuardBuilder, GuardManagerWrapper]:
        manager = GuardManagerWrapper()
        manager.diff_guard_sources = existing_diff_guard_sources
        builder = _Builder.__new__(_Builder)
        builder.values = self._values  # __init__ looks values up
        builder.__init__(  # type: ignore[misc]
            f_code,
            self.id_ref,
            lambda source: source.name,
            self.lookup_weakrefs,
            output_graph.local_scope,
            output_graph.global_scope,
            manager,
            self,
        )
        for guard in sorted_guards:
            guard.create(builder)
        del builder.values
        return builder, manager


def build(
    frame: DynamoFrameType,
    stored: list[StoredGuard],
    key_order: list[Source],
    builtins_name: str | None,
    values: Values,
) -> Any:
    """All of Dynamo's guards, on the values of this frame. Raises Refused: they do not hold."""
    guards: Any = _guards(stored)  # looked through once; a set of Dynamo's would hash each source
    state = OutputGraphGuardsState(
        local_scope=frame.f_locals,
        global_scope=frame.f_globals,
        torch_function_mode_stack=[],
        guard_on_key_order=set(key_order),
        input_source_to_sizes_strides=_tensor_sizes(stored, values),
        dual_level=torch.autograd.forward_ad._current_level,
        functorch_layers=[],
        current_device=torch.utils._device.CURRENT_DEVICE,
        global_state_guard=GlobalStateGuard(),
        _guards=guards,
        _aotautograd_guards=[],
        skip_guards_check=True,
        name_of_builtins_dict_key_in_fglobals=builtins_name,
    )
    made = _Check(frame, state, values)
    if not made.guard_manager.check(frame.f_locals):
        raise Refused("Dynamo's guards do not hold here")
    return made.guard_manager


def _guards(stored: list[StoredGuard]) -> list[Guard]:
    """Those on hooks of modules do nothing there (skip_nnmodule_hook_guards)."""
    skip_hooks = torch._dynamo.config.skip_nnmodule_hook_guards
    guards: list[Guard] = []
    for source, kind, keywords, _ in stored:
        if kind == "EMPTY_NN_MODULE_HOOKS_DICT" and skip_hooks:
            continue
        maker: Callable[..., Any] = getattr(GuardBuilder, kind)
        guards.append(Guard(source, functools.partial(maker, **keywords) if keywords else maker))
    return guards


def _tensor_sizes(stored: list[StoredGuard], values: Values) -> dict[Source, Any]:
    """What Dynamo keeps of each guarded tensor beside the guard."""
    sizes: dict[Source, Any] = {}
    for source, kind, _, _ in stored:
        if kind == "TENSOR_MATCH":
            tensor = values.get(source)
            sizes[source] = {"size": tensor.size(), "stride": tensor.stride()}
    return sizes
