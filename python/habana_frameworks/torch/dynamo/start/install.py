"""From a stored start to the code that Dynamo's frame evaluation runs."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from ...torch_compat.dynamo_settings import dynamo_config
from ...torch_compat.history import CodeId, get_code_state
from ...torch_compat.ops import import_module
from ...torch_compat.tracing import (
    CleanupHook,
    CleanupManager,
    CompileId,
    GuardedCode,
    PyInterpreterFrame,
    disable,
    get_builtins_dict,
    input_codes,
    orig_code_map,
    output_codes,
    unique_id,
)
from . import dynamo_guards, guard_facts, pickles, subclasses
from .code_fingerprint import difference as world_difference
from .describe import Describer, Refused
from .graphs import StoredGraph
from .guard_facts import Values
from .guard_tree import Absent
from .trace import Builtins, Global, Start, StoredFunction, StoredModule, WeakReference

BindGraph = Callable[[StoredGraph], Callable[..., Any]]


class Candidate:
    """A start that was read for a frame. Its made-up names become new names of this process."""

    def __init__(self, content: bytes, frame: PyInterpreterFrame) -> None:
        renamed: dict[str, str] = {}

        def rename(name: str) -> str:
            if name not in renamed:
                renamed[name] = unique_id(name)
            return renamed[name]

        start = pickles.load(content, rename)
        if not isinstance(start, Start):
            raise Refused("it is not a start")
        self.start: Start = start
        self._frame = frame
        self._scope = {**frame.f_globals, **self._scope_of_guards(frame.f_globals)}
        self._values = Values(frame.f_locals, self._scope)

    def difference(self, describer: Describer) -> str:
        """Why the start does not fit this frame of this process, for people; "" if it does."""
        for name, made in self.start.globals.items():
            if isinstance(made, WeakReference):
                self._scope[name] = weakref.ref(self._values.get(made.source))
        if self.start.tree is not None:
            try:
                self._values.follow(self.start.tree)
            except Absent as error:
                return str(error)
        for facts in (self.start.guards, self.start.beside):
            if text := guard_facts.difference(facts, self._values, describer):
                return text
        if not self.start.identities.hold(self._values):
            return "other values are one object, or no longer one, than in the traced frame"
        text = subclasses.difference(self.start.answers, self._values)
        return text or world_difference(self.start.world, describer)

    def _scope_of_guards(self, scope: dict[str, Any]) -> dict[str, Any]:
        """The globals of the start by which guards look values up."""
        found: dict[str, Any] = {}
        for alias, module in self.start.imports.items():
            found[alias] = import_module(module)
        for name, made in self.start.globals.items():
            if isinstance(made, StoredModule):
                found[name] = import_module(made.name)
            elif isinstance(made, Builtins):
                found[name] = get_builtins_dict(scope)
        return found

    def install(self, compile_id: CompileId, bind: BindGraph) -> GuardedCode:
        """Installs the start. Raises Refused, and leaves nothing behind then; bind may raise
        Refused too."""
        frame, values, scope = self._frame, self._values, self._frame.f_globals
        for alias, module in self.start.imports.items():
            if vars(scope.setdefault(alias, import_module(module)))["__name__"] != module:
                raise Refused(f"{alias} is another module here")
        cleanups: list[CleanupHook] = []
        try:
            for name, made in self.start.globals.items():
                value = self._scope[name] = self._value(name, made, scope, values, bind)
                cleanups.append(CleanupHook.create(scope, name, value))
            manager = dynamo_guards.build(
                frame, self.start.guards, self.start.key_order, self.start.builtins_name, values
            )
        except BaseException:
            for cleanup in cleanups:
                cleanup()
            raise
        code = self.start.code
        CleanupManager.instance[code] = cleanups
        orig_code_map[code] = frame.f_code
        input_codes.add(frame.f_code)
        output_codes.add(code)
        return GuardedCode(code, manager, compile_id, f"Torch-Compiled Region: {compile_id}")

    def tell_sizes(self, code: types.CodeType, closure: tuple[types.CellType, ...]) -> None:
        """Dynamo takes a size for dynamic once it has met two values of it: it has met these."""
        if not dynamo_config.automatic_dynamic_shapes:
            return
        history = get_code_state()[CodeId.make(code, closure)].automatic_dynamic
        for name, entry in self.start.met:
            history[name] |= entry

    def _value(
        self, name: str, made: Global, scope: dict[str, Any], values: Values, bind: BindGraph
    ) -> Any:
        if isinstance(made, StoredGraph):
            return disable(bind(made), reason="do not trace a compiled graph")
        if isinstance(made, StoredModule):
            return import_module(made.name)
        if isinstance(made, Builtins):
            return get_builtins_dict(scope)
        if isinstance(made, WeakReference):
            return weakref.ref(values.get(made.source))
        return _resume_function(name, made, scope)


def _resume_function(name: str, made: StoredFunction, scope: dict[str, Any]) -> Any:
    owner = vars(import_module(made.module)) if made.module else scope
    if not made.has_closure:
        return types.FunctionType(made.code, owner, name)

    def with_closure(closure: tuple[types.CellType, ...]) -> types.FunctionType:
        return types.FunctionType(made.code, owner, name, None, closure)

    return with_closure
