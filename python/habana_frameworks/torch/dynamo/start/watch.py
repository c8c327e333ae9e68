"""Watches a trace of Dynamo for events that its guards do not cover and that a start has to know.

Dynamo guards what its final attempt at a frame relied on, in this process. It does not guard what
an abandoned attempt read (which decides where a graph breaks), which classes `isinstance` and
`issubclass` were asked about, what was looked up in a dictionary or set by a function or class, and
what was computed from an address or from this process's hash seed.
"""

from __future__ import annotations

import functools
import operator
import threading
import types
from dataclasses import dataclass, field
from typing import Any

from ...torch_compat.features import AUTOMATIC_SIZES, enable
from ...torch_compat.ops import import_module
from ...torch_compat.replaced import original, replace
from ...torch_compat.tracing import (
    BaseListVariable,
    ConstantVariable,
    FrozensetVariable,
    Guard,
    LazyVariableTracker,
    OutputGraph,
    RestartAnalysis,
    SetVariable,
    Source,
    compare_op_handlers,
    get_builtins_dict,
)
from . import guard_facts, guard_recorder
from .describe import Describer, Refused
from .guard_facts import StoredGuard, Values
from .subclasses import Question, questions_of

_VARIABLES = "torch._dynamo.variables"
_CALL_CONSTANT = f"{_VARIABLES}.functions.invoke_and_store_as_constant"
_ID = f"{_VARIABLES}.builtin.BuiltinVariable.call_id"
_ISINSTANCE = f"{_VARIABLES}.builtin.BuiltinVariable.call_isinstance"
_BUILTIN = f"{_VARIABLES}.builtin.BuiltinVariable.call_function"
_SORTED = f"{_VARIABLES}.builtin.BuiltinVariable.call_sorted"
_CONSTANT = f"{_VARIABLES}.ConstantVariable.__init__"
_CONSTANT_METHOD = f"{_VARIABLES}.ConstantVariable.call_method"
_HASH = f"{_VARIABLES}.object_protocol.generic_hash"
_ISSUBCLASS = f"{_VARIABLES}.object_protocol.generic_issubclass"
_LIST_METHOD = f"{_VARIABLES}.lists.ListVariable.call_method"
_TAKE_SET = tuple(
    f"{_VARIABLES}.sets.{kind}.{method}"
    for kind in ("SetVariable", "FrozensetVariable")
    for method in ("unpack_var_sequence", "tp_iter_impl")
)
_HASHABLE = f"{_VARIABLES}.hashable.HashableTracker.__init__"
_TRACE_FRAME = "torch._dynamo.convert_frame.trace_frame"
_INLINE_CALL = "torch._dynamo.symbolic_convert.InliningInstructionTranslator.inline_call_"
_BUILTIN_NAME = "torch._dynamo.symbolic_convert.InstructionTranslatorBase.load_builtin_from_argval"
_SAME_OBJECT = "torch._dynamo.guards.install_object_aliasing_guard"
_UPDATE_HISTORY = "torch._dynamo.pgo.update_automatic_dynamic"
# All but the last, which is a feature of its own.
_PATHS = (
    *(_CALL_CONSTANT, _ID, _ISINSTANCE, _BUILTIN, _SORTED, _CONSTANT, _CONSTANT_METHOD, _HASH),
    *(_ISSUBCLASS, _LIST_METHOD, *_TAKE_SET, _HASHABLE, _TRACE_FRAME, _INLINE_CALL),
    *(_BUILTIN_NAME, _SAME_OBJECT),
)

# Their hashes are the same in every process.
_NUMBERS = (bool, int, float, complex)
# The default text of an object has its address in it.
_ADDRESS = " at 0x"
ADDRESS_USED = "traced code uses what id() or hash() gave: that is another value in every process"
_TEXT_USED = "traced code makes a text with an address: that is another one in every process"
# Traced code may use an address in these ways: which places hold the same object is a fact of its
# own (identities.py).
_HARMLESS = frozenset(
    {operator.eq, operator.ne, operator.is_, operator.is_not, operator.contains, hash, isinstance}
    | {operator.getitem, operator.setitem, dict, set, frozenset, list, tuple, type, len, iter, next}
)


@dataclass
class GivenUp:
    """The facts that abandoned attempts relied on, before Dynamo started over."""

    guards: dict[tuple[str, str, str], StoredGuard] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    made_up: set[str] = field(default_factory=set)  # names of globals
    builtins: set[str] = field(default_factory=set)  # names of the dictionary of builtins
    unknown: str = ""  # why the facts cannot be compared in another process

    def scope(self, globals_: dict[str, Any]) -> dict[str, Any]:
        """The globals with those that abandoned attempts made, which Dynamo may have removed (2.15
        does)."""
        made: dict[str, Any] = dict.fromkeys(self.builtins, get_builtins_dict(globals_))
        made |= {alias: import_module(name) for alias, name in self.imports.items()}
        return made | globals_

    def add(self, output: OutputGraph) -> None:
        scope = output.global_scope
        self.imports.update(output.import_sources)
        self.made_up.update(output.installed_globals)
        self.builtins.add(output.name_of_builtins_dict_key_in_fglobals)
        guards = [g for g in output.guards if g.create_fn_name() not in guard_facts.OF_STATE]
        try:
            stored = guard_facts.store(
                sorted(guards, key=Guard.sort_key), Values(output.local_scope, scope), Describer()
            )
        except Exception as error:
            text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
            self.unknown = f"the place of its graph break depends on {text}"
            return
        for guard in stored:
            place, kind, keywords, _ = guard
            assert isinstance(place, Source)
            self.guards.setdefault((place.name, kind, repr(keywords)), guard)


@dataclass
class Trace:
    """A frame that is being traced, and the start that was made of it."""

    code: types.CodeType
    met: list[tuple[str, Any]] = field(default_factory=list)  # see trace.MetSizes
    content: bytes | None = None
    refused: str = "Dynamo made no graph of it"
    local: str = ""  # what the trace contains that holds in this process alone
    # the codes that Dynamo looked into, by address
    codes: dict[int, types.CodeType] = field(default_factory=dict)
    given_up: GivenUp = field(default_factory=GivenUp)
    # values that were hashed without a guard, by name
    keys: dict[str, Source] = field(default_factory=dict)
    questions: dict[tuple[Any, ...], Question] = field(default_factory=dict)
    addresses: set[int] = field(default_factory=set)  # results of id() and hash()
    # Modules and names that traced code found neither in the module nor among the builtins.
    unbound: set[tuple[str, str]] = field(default_factory=set)

    def only_here(self, why: str) -> None:
        self.local = self.local or why


class _Traces(threading.local):
    """The frames that this thread traces; None stands for a frame that is not ours."""

    def __init__(self) -> None:
        self.stack: list[Trace | None] = []

    def innermost(self) -> Trace | None:
        return self.stack[-1] if self.stack else None


traces = _Traces()


def _note_address(made: Any) -> None:
    trace = traces.innermost()
    if trace is not None and isinstance(made, ConstantVariable) and type(made.value) is int:
        trace.addresses.add(made.value)


def _has_address(value: Any, trace: Trace) -> bool:
    if isinstance(value, ConstantVariable):
        return type(value.value) is int and value.value in trace.addresses
    return isinstance(value, BaseListVariable) and any(_has_address(v, trace) for v in value.items)


def _note_use(*values: Any) -> None:
    trace = traces.innermost()
    if trace is not None and trace.addresses and any(_has_address(v, trace) for v in values):
        trace.only_here(ADDRESS_USED)


def _wrap_builtins() -> None:
    call_id, call_hash = original(_ID), original(_HASH)
    call_isinstance, is_subclass = original(_ISINSTANCE), original(_ISSUBCLASS)
    make_constant, call_method = original(_CONSTANT), original(_CONSTANT_METHOD)
    call_builtin = original(_BUILTIN)

    @functools.wraps(call_id)
    def _id(self: Any, tx: Any, *args: Any) -> Any:
        made = call_id(self, tx, *args)
        _note_address(made)
        return made

    @functools.wraps(call_hash)
    def _hash(tx: Any, arg: Any) -> Any:
        made = call_hash(tx, arg)
        if arg.python_type() not in _NUMBERS:
            _note_address(made)
        return made

    @functools.wraps(call_isinstance)
    def _isinstance(self: Any, tx: Any, arg: Any, classes: Any) -> Any:
        made = call_isinstance(self, tx, arg, classes)
        if (trace := traces.innermost()) is not None:
            source = None if arg.is_tensor() else arg.source
            asked = questions_of(arg.python_type(), classes.as_python_constant(), source)
            trace.questions.update(asked)
        return made

    @functools.wraps(is_subclass)
    def _issubclass(tx: Any, derived: Any, cls: Any) -> Any:
        made = is_subclass(tx, derived, cls)
        if (trace := traces.innermost()) is not None:
            one, other = (v.get_real_python_backed_value() for v in (derived, cls))
            trace.questions.update(questions_of(one, other, None))
        return made

    @functools.wraps(make_constant)
    def _constant(self: Any, value: Any, **kwargs: Any) -> None:
        make_constant(self, value, **kwargs)
        if type(value) is str and _ADDRESS in value and (trace := traces.innermost()) is not None:
            trace.only_here(_TEXT_USED)

    @functools.wraps(call_builtin)
    def _call(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if self.fn not in _HARMLESS:
            _note_use(*args, *kwargs.values())
        return call_builtin(self, tx, args, kwargs)

    @functools.wraps(call_method)
    def _method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        made = call_method(self, tx, name, args, kwargs)
        if name == "__hash__" and type(self.value) not in _NUMBERS:
            _note_address(made)
        elif name not in ("__eq__", "__ne__"):
            _note_use(self, *args)
        return made

    def noting(compare: Any) -> Any:
        def _compare(tx: Any, values: Any, kwargs: Any) -> Any:
            _note_use(*values)
            return compare(tx, values, kwargs)

        return _compare

    for text in ("<", ">", "<=", ">="):  # these were bound when Dynamo was imported
        compare_op_handlers[text] = noting(compare_op_handlers[text])
    replace(_BUILTIN, _call)
    replace(_CONSTANT_METHOD, _method)
    replace(_ID, _id)
    replace(_ISINSTANCE, _isinstance)
    replace(_CONSTANT, _constant)
    replace(_HASH, _hash)
    replace(_ISSUBCLASS, _issubclass)


_ORDER = "traced code goes through a set: its order is another one in every process"


def _wrap_sets() -> None:
    """Watches iteration over sets. Only numbers lie in a set in the same order in every process."""

    def note_order(taken: Any) -> None:
        trace = traces.innermost()
        if trace is None or len(taken.items) < 2 or taken.python_type() not in (set, frozenset):
            return
        kinds = {key.vt.python_type() for key in taken.items}
        has_address = any(_has_address(key.vt, trace) for key in taken.items)
        if has_address or not kinds.issubset(_NUMBERS):
            trace.only_here(_ORDER)

    def noting(take: Any) -> Any:
        @functools.wraps(take)
        def _take(self: Any, tx: Any) -> Any:
            note_order(self)
            return take(self, tx)

        return _take

    call_sorted, call_list = original(_SORTED), original(_LIST_METHOD)

    @functools.wraps(call_list)
    def _call_list(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name == "extend" and args and isinstance(args[0], (SetVariable, FrozensetVariable)):
            note_order(args[0])
        trace = traces.innermost() if name == "sort" else None
        before = len(trace.addresses) if trace is not None else 0
        made = call_list(self, tx, name, args, kwargs)
        if trace is not None and (len(trace.addresses) != before or _has_address(self, trace)):
            trace.only_here(ADDRESS_USED)
        return made

    @functools.wraps(call_sorted)
    def _sorted(self: Any, tx: Any, obj: Any, **kwargs: Any) -> Any:
        trace = traces.innermost()
        before = trace.local if trace is not None else ""
        made = call_sorted(self, tx, obj, **kwargs)
        if trace is not None and not before and trace.local == _ORDER and not kwargs:
            trace.local = ""
        return made

    for path in _TAKE_SET:
        replace(path, noting(original(path)))
    replace(_LIST_METHOD, _call_list)
    replace(_SORTED, _sorted)


def _wrap_keys() -> None:
    make = original(_HASHABLE)

    @functools.wraps(make)
    def _init(self: Any, vt: Any) -> None:
        make(self, vt)
        if isinstance(vt, LazyVariableTracker) and not vt.is_realized():
            trace = traces.innermost()
            if trace is not None and (source := vt.original_source()) is not None:
                trace.keys[source.name] = source

    replace(_HASHABLE, _init)


def _wrap_attempts() -> None:
    trace_frame, inline = original(_TRACE_FRAME), original(_INLINE_CALL)

    @functools.wraps(trace_frame)
    def _trace_frame(*args: Any, **kwargs: Any) -> Any:
        try:
            return trace_frame(*args, **kwargs)
        except RestartAnalysis as error:
            trace = traces.innermost()
            output = getattr(error, "_torch_dynamo_tracer_output", None)
            if trace is not None and output is not None:
                trace.given_up.add(output.output_graph_for_cleanup)
            raise

    @functools.wraps(inline)
    def _inline(self: Any) -> Any:
        trace = traces.innermost()
        if trace is not None:
            trace.codes[id(self.f_code)] = self.f_code
        return inline(self)

    replace(_TRACE_FRAME, _trace_frame)
    replace(_INLINE_CALL, _inline)


def _wrap_history() -> None:
    update_history = original(_UPDATE_HISTORY)

    @functools.wraps(update_history)
    def _update(tx: Any, name: str, entry: Any, **kwargs: Any) -> Any:
        trace = traces.innermost()
        if trace is not None and tx.f_code is trace.code:
            trace.met.append((name, entry))
        return update_history(tx, name, entry, **kwargs)

    replace(_UPDATE_HISTORY, _update)


def _wrap_constants() -> None:
    call_constant = original(_CALL_CONSTANT)

    @functools.wraps(call_constant)
    def _invoke(tx: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        trace = traces.innermost()
        if trace is not None and isinstance(fn, (types.FunctionType, types.MethodType)):
            trace.only_here(f"{fn.__qualname__} promises a constant for this process alone")
        return call_constant(tx, fn, *args, **kwargs)

    replace(_CALL_CONSTANT, _invoke)


def _wrap_names() -> None:
    load = original(_BUILTIN_NAME)

    @functools.wraps(load)
    def _load(self: Any, argval: str) -> Any:
        trace = traces.innermost()
        if trace is not None and argval not in self.f_builtins:
            trace.unbound.add((self.f_globals["__name__"], argval))
        return load(self, argval)

    replace(_BUILTIN_NAME, _load)


def register() -> None:
    """Wraps what Dynamo calls while it traces. To be called once. Mismatch or AttributeError, and
    nothing wrapped, where Dynamo has other functions."""
    for path in _PATHS:
        original(path)
    _wrap_constants()
    _wrap_builtins()
    _wrap_keys()
    _wrap_sets()
    _wrap_attempts()
    _wrap_names()
    replace(_SAME_OBJECT, guard_recorder.add_same_object)
    enable(AUTOMATIC_SIZES, _wrap_history)
