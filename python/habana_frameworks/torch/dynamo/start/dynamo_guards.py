"""Dynamo's own guards on the values of a frame, built from stored ones.

The tree of guards is made by the calls that are stored (guard_tree.py). Where these could not be
written down, Dynamo's builder makes the tree. That builder looks every value up by text that it
evaluates, and keeps data for each guard that only exports and its logs read. Here the values are
those that the facts were compared with (Values), and no such data is kept. Either way Dynamo alone
decides which guards there are, and what each checks in C++.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection
from typing import Any

from ...torch_compat.dynamo_settings import dynamo_config
from ...torch_compat.tracing import (
    CheckFunctionManager,
    GlobalStateGuard,
    Guard,
    GuardBuilder,
    GuardManagerWrapper,
    OutputGraphCommon,
    OutputGraphGuardsState,
    PyInterpreterFrame,
    Source,
    build_guard_function,
    current_device,
    get_closure_vars,
)
from ...torch_compat.transforms import dual_level
from . import guard_tree
from .describe import Refused
from .guard_facts import ATTRIBUTES, OF_ROOT, Place, StoredGuard, Values
from .guard_recorder import Recorder
from .guard_tree import StoredTree, Unwritable


class _Builder(GuardBuilder):
    values: Values

    def get(self, guard_or_source: Guard | Source, closure_vars: Any = None) -> Any:
        if isinstance(guard_or_source, Source):
            return self.values.get(guard_or_source)
        return self.values.get(guard_or_source.originating_source)

    def requires_key_order_guarding(self, source: Source) -> bool:
        guarded = self.key_order_guarded_dict_ids
        return bool(guarded) and source.name != "" and id(self.get(source)) in guarded

    def add_python_lambda_leaf_guard_to_root(
        self, code_parts: list[str], verbose_code_parts: list[str], *_: Any, **__: Any
    ) -> None:
        """Whether objects are the same. The function's text takes long to make."""
        tree, variables = self.values.tree, get_closure_vars()
        text = guard_tree.text_of(tree.same_objects_function) if tree else _function_of(code_parts)
        made: dict[str, Any] = {}
        exec(text, {"G": self.scope["G"]}, made)
        function = made["___make_guard_fn"](*variables.values())
        self.guard_manager.root.add_epilogue_lambda_guard(function, verbose_code_parts, None)

    def _set_guard_export_info(self, *_: Any, **__: Any) -> None:
        """Keeps nothing: the data is for exports, and for people who look at a trace's guards."""


def _function_of(code_parts: list[str]) -> str:
    variables = ", ".join(get_closure_vars())
    return build_guard_function(code_parts, variables)[1]


class _Manager(GuardManagerWrapper):
    """A guard manager. For a stored tree it is known which nodes lead to tensors; in other trees
    Dynamo searches for them."""

    def __init__(self, searched: bool) -> None:
        super().__init__()
        self._searched = searched

    def collect_diff_guard_sources(self) -> Any:
        if self._searched:
            # a later trace asks again, because of guards that have failed meanwhile
            self._searched = False
            return self.diff_guard_sources
        return super().collect_diff_guard_sources()


class _Check(CheckFunctionManager):
    def __init__(self, frame: PyInterpreterFrame, state: OutputGraphGuardsState, values: Values):
        self._values = values
        super().__init__(frame.f_code, OutputGraphCommon(state))
        # The frame's code keeps this object for as long as it lives; the model and its first inputs
        # must not live as long.
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
        tree = self._values.tree
        manager = _Manager(searched=tree is not None)
        manager.diff_guard_sources = existing_diff_guard_sources
        builder = _builder(self._values, f_code, output_graph, manager, self)
        for guard in sorted_guards:
            guard.create(builder)
        if tree is not None:
            guard_tree.grow(tree, self._values.nodes, output_graph.global_scope, builder)
        return builder, manager

    def compile_check_fn(self, builder: Any, *args: Any, **kwargs: Any) -> None:
        super().compile_check_fn(builder, *args, **kwargs)
        del builder.values


def _builder(
    values: Values, f_code: Any, state: OutputGraphGuardsState, manager: Any, check: Any
) -> _Builder:
    """check: the CheckFunctionManager that the builder refers to."""
    builder = _Builder.__new__(_Builder)
    builder.values = values  # set first, because __init__ looks values up
    builder.__init__(  # type: ignore[misc]
        f_code,
        check.id_ref,
        lambda source: source.name,
        check.lookup_weakrefs,
        state.local_scope,
        state.global_scope,
        manager,
        check,
    )
    return builder


def build(
    frame: PyInterpreterFrame,
    stored: list[StoredGuard],
    key_order: list[Source],
    builtins_name: str | None,
    values: Values,
) -> Any:
    """Builds all of Dynamo's guards on the values of this frame. Raises Refused if they do not
    hold."""
    if values.tree is not None:
        key_order, stored = [], [guard for guard in stored if guard[1] in OF_ROOT]
    scopes = frame.f_locals, frame.f_globals
    made = _Check(frame, _state(scopes, stored, key_order, builtins_name, values), values)
    if not made.guard_manager.check(frame.f_locals):
        raise Refused("Dynamo's guards do not hold here")
    return made.guard_manager


def write_tree(
    f_code: types.CodeType,
    scopes: tuple[dict[str, Any], dict[str, Any]],
    stored: list[StoredGuard],
    key_order: list[Source],
    values: Values,
    made_up: Collection[str],
) -> tuple[StoredTree, list[StoredGuard]]:
    """Returns the tree as calls, and the guards with their places: nodes of the tree where there is
    one.

    scopes: locals and globals of the frame; made_up: names of globals that Dynamo made up.
    Raises Unwritable.
    """
    taped = [guard for guard in stored if guard[1] not in OF_ROOT]
    recorder = Recorder(scopes[0], made_up)
    state = _state(scopes, taped, key_order, None, values)
    check = types.SimpleNamespace(
        output_graph=state, id_ref=recorder.id_ref, lookup_weakrefs=recorder.lookup_weakrefs
    )
    try:
        builder = _builder(values, f_code, state, recorder, check)
        for guard in _guards(taped):
            guard.create_fn(builder, guard)
        tree = recorder.finish(builder, _function_of)
        places = _places(taped, builder._cached_guard_managers, values)
    except Exception as error:
        raise Unwritable(f"{type(error).__name__}: {error}") from error
    finally:
        recorder.forget()
    return tree, [
        (places.get(id(place), place), kind, recorder.shared(keywords), recorder.shared(fact))
        for place, kind, keywords, fact in stored
    ]


def _places(stored: list[StoredGuard], nodes: dict[str, Any], values: Values) -> dict[int, Place]:
    """The place of each guard's value by the address of the guard's source: a node of the tree, or
    the source itself where the tree has no such node."""

    def place_of(source: Any) -> Place:
        node = nodes.get(source.name)
        if node is not None and guard_tree.same(node.value, values.get(source)):
            index: int = node.index
            return index
        if type(source) in ATTRIBUTES and isinstance(base := place_of(source.base), int):
            return base, source.member
        left: Source = source
        return left

    return {id(source): place_of(source) for source, *_ in stored}


def _state(
    scopes: tuple[dict[str, Any], dict[str, Any]],
    stored: list[StoredGuard],
    key_order: list[Source],
    builtins_name: str | None,
    values: Values,
) -> OutputGraphGuardsState:
    # Dynamo goes through it once; a set as in Dynamo's own state would hash each source
    guards: Any = _guards(stored)
    return OutputGraphGuardsState(
        local_scope=scopes[0],
        global_scope=scopes[1],
        torch_function_mode_stack=[],
        guard_on_key_order=set(key_order),
        input_source_to_sizes_strides=_tensor_sizes(stored, values),
        dual_level=dual_level(),
        functorch_layers=[],
        current_device=current_device(),
        global_state_guard=GlobalStateGuard(),
        _guards=guards,
        _aotautograd_guards=[],
        skip_guards_check=True,
        name_of_builtins_dict_key_in_fglobals=builtins_name,
    )


def _guards(stored: list[StoredGuard]) -> list[Guard]:
    """Those on hooks of modules do nothing there (skip_nnmodule_hook_guards)."""
    skip_hooks = dynamo_config.skip_nnmodule_hook_guards
    guards: list[Guard] = []
    for source, kind, keywords, _ in stored:
        if kind == "EMPTY_NN_MODULE_HOOKS_DICT" and skip_hooks:
            continue
        maker: Callable[..., Any] = getattr(GuardBuilder, kind)
        create = functools.partial(maker, **keywords) if keywords else maker
        assert isinstance(source, Source)  # guards with other places are made by the tree's calls
        guards.append(Guard(source, create))
    return guards


def _tensor_sizes(stored: list[StoredGuard], values: Values) -> dict[Source, Any]:
    """The sizes that Dynamo keeps for each guarded tensor beside the guard."""
    sizes: dict[Source, Any] = {}
    for source, kind, _, _ in stored:
        if kind == "TENSOR_MATCH" and isinstance(source, Source):
            tensor = values.get(source)
            sizes[source] = {"size": tensor.size(), "stride": tensor.stride()}
    return sizes
