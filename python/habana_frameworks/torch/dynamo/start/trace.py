"""From a finished trace of Dynamo to a stored start."""

from __future__ import annotations

import logging
import types
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...torch_compat.history import FrameStateSizeEntry
from ...torch_compat.tracing import Guard, OutputGraph, Source, bytecode_hooks, get_builtins_dict
from . import guard_facts, identities, pickles, subclasses
from .code_fingerprint import World, WorldRecorder
from .describe import Describer, Refused
from .dynamo_guards import write_tree
from .graphs import StoredGraph, take
from .guard_facts import StoredGuard, Values
from .guard_tree import Absent, StoredTree, Unwritable
from .identities import Identities
from .subclasses import StoredAnswer
from .watch import ADDRESS_USED, Trace

_log = logging.getLogger("habana_frameworks.torch.dynamo")


@dataclass(frozen=True)
class StoredFunction:
    """A function that continues after a graph break."""

    code: types.CodeType
    module: str  # the module whose globals it has, "" for those of the frame
    has_closure: bool  # the global is a function that takes the closure and makes this one


@dataclass(frozen=True)
class StoredModule:
    name: str


@dataclass(frozen=True)
class Builtins:
    """The dictionary of builtins, which guards look up by a global."""


@dataclass(frozen=True)
class WeakReference:
    """A weak reference to a value that a source leads to."""

    source: Source


# The entries that a trace adds to Dynamo's history of sizes: the source of a value, its sizes and
# strides.
MetSizes = list[tuple[str, FrameStateSizeEntry]]

Global = StoredGraph | StoredFunction | StoredModule | Builtins | WeakReference


@dataclass(frozen=True)
class Start:
    """All that a frame needs in place of a trace."""

    world: World
    guards: list[StoredGuard]
    # Facts for which Dynamo has no guard: those that abandoned attempts relied on, and functions
    # and classes that were used to look something up.
    beside: list[StoredGuard]
    identities: Identities
    answers: list[StoredAnswer]
    tree: StoredTree | None  # None: Dynamo's builder makes it from the guards
    key_order: list[Source]  # dictionaries whose order of keys is guarded
    code: types.CodeType  # the bytecode that Dynamo made of the frame
    globals: dict[str, Global]  # by their names, which Dynamo made up
    imports: dict[str, str]  # modules by name
    builtins_name: str | None
    met: MetSizes


def _function(name: str, value: Any, scope: dict[str, Any]) -> StoredFunction | None:
    if not isinstance(value, types.FunctionType):
        return None
    has_closure = value.__qualname__.endswith("install_resume_function_global.<locals>._make_fn")
    if has_closure:
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        code, owner = cells["code"].cell_contents, cells["f_globals"].cell_contents
    elif value.__name__ == name:
        code, owner = value.__code__, value.__globals__
    else:
        return None
    return StoredFunction(code, "" if owner is scope else owner["__name__"], has_closure)


def _global(
    name: str, value: Any, scope: dict[str, Any], guards: Sequence[StoredGuard], values: Values
) -> Global:
    if name.startswith("__compiled_fn_"):
        return take(name)
    function = _function(name, value, scope)
    if function is not None:
        return function
    if isinstance(value, types.ModuleType):
        return StoredModule(value.__name__)
    if value is get_builtins_dict(scope):
        return Builtins()
    if isinstance(value, weakref.ReferenceType):
        for place, *_ in guards:  # these are still sources, because there is no tree yet
            assert isinstance(place, Source)
            if name not in place.name and values.get(place) is value():
                return WeakReference(place)
    raise Refused(f"Dynamo keeps a {type(value).__name__} of this process in a global")


def _refuse_symbols(output: OutputGraph) -> None:
    if output.shape_env is not None and output.shape_env.backed_var_to_val:
        raise Refused("its shapes are dynamic: a start holds guards of one shape, not of ranges")
    if output.aotautograd_guards:
        raise Refused("it has guards of AOTAutograd")
    if output.export:
        raise Refused("it is an export")
    if bytecode_hooks:
        raise Refused("somebody else rewrites its bytecode")


def _with_tree(
    guards: list[StoredGuard], output: OutputGraph, frame_code: types.CodeType, values: Values
) -> tuple[list[StoredGuard], StoredTree | None]:
    scopes = output.local_scope, output.global_scope
    key_order = list(output.guard_on_key_order)
    names = output.installed_globals
    try:
        tree, guards = write_tree(frame_code, scopes, guards, key_order, values, names)
    except Unwritable as error:
        _log.debug("its guards are left to Dynamo's builder: %s", error)
        return guards, None
    return guards, tree


def _root(source: Source) -> Source:
    while isinstance(base := getattr(source, "base", None), Source):
        source = base
    return source


def _beside(
    trace: Trace,
    guards: Sequence[StoredGuard],
    names: dict[str, Global],
    values: Values,
    describer: Describer,
) -> tuple[list[StoredGuard], dict[str, str]]:
    """Returns Start.beside, and the modules at whose made-up names its sources begin. names: the
    globals of the start; those that the sources begin at are added."""
    if trace.given_up.unknown:
        raise Refused(trace.given_up.unknown)
    known = {(guard_facts.name_of(g), g[1], repr(g[2])) for g in guards}
    found = [guard for key, guard in trace.given_up.guards.items() if key not in known]
    guarded = {name for name, *_ in known}
    keys = [source for name, source in trace.keys.items() if name not in guarded]
    found += guard_facts.store_keys(keys, values, describer)
    imports: dict[str, str] = {}
    for source, *_ in found:
        assert isinstance(source, Source)
        name = getattr(_root(source), "global_name", "")
        if name in trace.given_up.imports:
            imports[name] = trace.given_up.imports[name]
        elif name in trace.given_up.builtins:
            names[name] = Builtins()
        elif name in trace.given_up.made_up and name not in names:
            raise Refused(
                f"the place of its graph break depends on {name}, which no other process has"
            )
    return found, imports


def _refuse_addresses(trace: Trace, output: OutputGraph, made_code: types.CodeType) -> None:
    """Refuses a start that holds a value which may have come from id() or hash()."""
    if trace.addresses.isdisjoint(made_code.co_consts):
        given: set[Any] = set()
        for node in output.graph.nodes:
            torch.fx.node.map_aggregate((node.args, node.kwargs), lambda value: _note(value, given))
        if trace.addresses.isdisjoint(given):
            return
    raise Refused(ADDRESS_USED)


def _note(value: Any, given: set[Any]) -> None:
    if type(value) is int:
        given.add(value)


def _unguarded(
    trace: Trace,
    guards: Sequence[StoredGuard],
    tree: StoredTree | None,
    output: OutputGraph,
    codes: Sequence[types.CodeType],
) -> tuple[Identities, list[StoredAnswer]]:
    """Identities and answers, for which Dynamo has no guards. guards: all facts of the start."""
    scopes = output.local_scope, trace.given_up.scope(output.global_scope)
    values, again = Values(*scopes), Values(*scopes)
    if tree is not None:
        try:
            values.follow(tree)
            again.follow(tree)
        except Absent as error:
            raise Refused(f"what it looked at is no longer there: {error}") from error
    of_values = [guard for guard in guards if guard[1] not in guard_facts.OF_STATE]
    places = [*(place for place, *_ in of_values), *trace.keys.values()]
    same = identities.record(values, again, places, identities.compares_values(codes))
    return same, subclasses.store(list(trace.questions.values()), of_values, values)


def make_start(
    output: OutputGraph, frame_code: types.CodeType, made_code: types.CodeType, trace: Trace
) -> bytes:
    """The start of a frame that was traced just now. Raises Refused."""
    if trace.local:
        raise Refused(trace.local)
    _refuse_symbols(output)
    describer = Describer()
    scope = output.global_scope
    values = Values(output.local_scope, trace.given_up.scope(scope))
    guards = guard_facts.store(sorted(output.guards, key=Guard.sort_key), values, describer)
    names = {
        name: _global(name, scope[name], scope, guards, values)
        for name in sorted(output.installed_globals)
    }
    beside, imports = _beside(trace, guards, names, values, describer)
    codes = [frame_code, *output.traced_code, *trace.codes.values()]
    _refuse_addresses(trace, output, made_code)
    world = WorldRecorder(describer)
    world.add_codes(codes, guard_facts.described([*guards, *beside], values))
    world.add_unbound(trace.unbound)
    if world.missing:
        raise Refused(f"traced code cannot be found by its name: {world.missing[0]}")
    guards, tree = _with_tree(guards, output, frame_code, values)
    start = Start(
        world.places,
        guards,
        beside,
        *_unguarded(trace, [*guards, *beside], tree, output, codes),
        tree,
        list(output.guard_on_key_order),
        made_code,
        names,
        imports | output.import_sources,
        output.name_of_builtins_dict_key_in_fglobals,
        trace.met,
    )
    try:
        return pickles.dump(start, names.keys())
    except Exception as error:
        raise Refused(f"it cannot be written: {type(error).__name__}: {error}") from error
