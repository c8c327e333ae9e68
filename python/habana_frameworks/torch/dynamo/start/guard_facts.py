"""Dynamo's guards as facts: what each guard found when it was made, in words that hold in any
process.

A guard is kept as its source (the path from the frame's locals and globals to a value), its kind
and a fact. In another process the values are looked up by the same sources; where every fact is the
same, Dynamo's own guards are built on the new values. So no guard is dropped: an ID_MATCH guards
the address of the new process's object, once the object has been recognised as the old one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from ...torch_compat.tracing import (
    AttrSource,
    ConstDictKeySource,
    DictGetItemSource,
    GlobalSource,
    Guard,
    LocalSource,
    ShapeEnvSource,
    Source,
    UnspecializedBuiltinNNModuleSource,
    UnspecializedNNModuleSource,
    UnspecializedParamBufferSource,
    get_closure_vars,
    normalize_range_iter,
    tuple_iterator_len,
)
from . import guard_tree
from .describe import Describer, Refused, Unknown, short_digest, tensor_text, type_name
from .guard_tree import StoredTree

# The place of a guard's value: a node of the guard tree, an attribute of a node's value, or, where
# there is no such node, the source that leads to it.
Place = int | tuple[int, str] | Source
# The place, the kind, the arguments of the guard's maker by name, and the fact.
StoredGuard = tuple[Place, str, dict[str, Any], str]

# Facts up to this length are stored as readable text, so that a miss can be explained by reading.
_READABLE = 64


@functools.lru_cache(maxsize=4096)
def _shown(text: str) -> str:
    return text if len(text) <= _READABLE else f"{text[:24]}... {short_digest(text)}"


class Values:
    """Looks up sources among the locals and globals of a frame, each once, and has the values of
    the guard tree's nodes once they have been followed.

    Most sources are attributes and items of modules. Their values are taken directly, which gives
    the same as evaluating Dynamo's text of them. Dynamo evaluates all others.
    """

    def __init__(self, local_scope: dict[str, Any], global_scope: dict[str, Any]) -> None:
        self._scope = {"L": local_scope, "G": global_scope}
        self._closure = get_closure_vars()
        self._evaluated: dict[Source, Any] = {}
        # By address. The source is kept so that its address is not reused.
        self._found: dict[int, tuple[Source, Any]] = {}
        self.tree: StoredTree | None = None
        self.nodes: list[Any] = []

    def follow(self, tree: StoredTree) -> None:
        """Follows the tree to the values of its nodes. Raises Absent."""
        self.tree, self.nodes = tree, guard_tree.follow(tree, self._scope["L"], self._scope["G"])

    def name(self, place: Place) -> str:
        if isinstance(place, Source):
            return place.name
        assert self.tree is not None
        index, *members = (place,) if isinstance(place, int) else place
        return ".".join([guard_tree.name_of(self.tree, index), *members])

    def at(self, place: Place) -> Any:
        if type(place) is int:
            return self.nodes[place]
        if type(place) is tuple:
            return getattr(self.nodes[place[0]], place[1])
        return self.get(cast(Source, place))

    def get(self, source: Source) -> Any:
        found = self._found.get(id(source))
        if found is not None:
            return found[1]
        value = self._look_up(source)
        self._found[id(source)] = (source, value)
        return value

    def _look_up(self, source: Any) -> Any:
        kind = type(source)
        if kind in ATTRIBUTES:
            return getattr(self.get(source.base), source.member)
        if kind in _SAME_AS_BASE:
            return self.get(source.base)
        if kind is DictGetItemSource and type(source.index) in (str, int):
            return self.get(source.base)[source.index]
        if kind is LocalSource:
            return self._scope["L"][source.local_name]
        if kind is GlobalSource:
            return self._scope["G"][source.global_name]
        return source.get_value(self._scope, self._closure, self._evaluated)


ATTRIBUTES = frozenset({AttrSource, UnspecializedParamBufferSource})
_SAME_AS_BASE = frozenset({UnspecializedNNModuleSource, UnspecializedBuiltinNNModuleSource})


class _Look:
    """Looks at one guard's value at a time in one process."""

    value: Any
    keywords: dict[str, Any]

    def __init__(self, values: Values, describer: Describer) -> None:
        self.values = values
        self.describer = describer

    def fact(self, kind: str, value: Any, keywords: dict[str, Any]) -> str:
        """The fact about a value. Raises Unknown."""
        self.value, self.keywords = value, keywords
        return _shown(_FACTS[kind](self))

    def constant(self) -> str:
        return self.describer.value(self.value)

    def identity(self) -> str:
        return self.describer.identity(self.value)

    def type(self) -> str:
        text = self.describer.class_text(type(self.value))
        if not isinstance(self.value, dict):
            return text
        # Dynamo has no guard for a key that was missing when it was looked up (os.environ).
        keys = sorted([self.describer.loosely(key) for key in self.value])
        return f"{text} of {len(keys)} keys {short_digest(chr(10).join(keys))}"

    def type_alone(self) -> str:
        return type_name(type(self.value))

    def tensor(self) -> str:
        return tensor_text(self.value)

    def length(self) -> str:
        return f"{type_name(type(self.value))} of {len(self.value)}"

    def tuple_iterator(self) -> str:
        return str(tuple_iterator_len(self.value))

    def range_iterator(self) -> str:
        return str(normalize_range_iter(self.value))

    def keys(self) -> str:
        return self.describer.value(tuple(self.value.keys()))

    def hooks(self) -> str:
        if not self.value:
            return "empty"
        raise Unknown("a module with hooks")

    def contains(self) -> str:
        return str(self.keywords["key"] in self.value)

    def has_attribute(self) -> str:
        return str(hasattr(self.value, self.keywords["attr"]))

    def is_in_dict(self) -> str:
        return str(self.keywords["attr"] in self.value.__dict__)

    def same_object(self) -> str:
        return str(self.value is self.values.get(self.keywords["source_b"]))


# The functions that give a fact, by kind of guard; another kind is refused.
_FACTS: dict[str, Callable[[_Look], str]] = {
    "BOOL_MATCH": _Look.constant,
    "BUILTIN_MATCH": _Look.identity,
    "CLASS_MATCH": _Look.identity,
    "CLOSURE_MATCH": _Look.identity,
    "CONSTANT_MATCH": _Look.constant,
    "DICT_CONTAINS": _Look.contains,
    "DICT_KEYS_MATCH": _Look.keys,
    "DICT_NOT_CONTAINS": _Look.contains,
    "DUPLICATE_INPUT": _Look.same_object,
    "EMPTY_NN_MODULE_HOOKS_DICT": _Look.hooks,
    "EQUALS_MATCH": _Look.constant,
    "FUNCTION_MATCH": _Look.identity,
    "HASATTR": _Look.has_attribute,
    "ID_MATCH": _Look.identity,
    "MAPPING_KEYS_CHECK": _Look.keys,
    "MODULE_MATCH": _Look.identity,
    "NONE_MATCH": _Look.constant,
    "NOT_NONE_MATCH": _Look.type_alone,
    "NOT_PRESENT_IN_GENERIC_DICT": _Look.is_in_dict,
    "RANGE_ITERATOR_MATCH": _Look.range_iterator,
    "SEQUENCE_LENGTH": _Look.length,
    "SET_CONTAINS": _Look.contains,
    "SET_NOT_CONTAINS": _Look.contains,
    "TENSOR_MATCH": _Look.tensor,
    "TUPLE_ITERATOR_LEN": _Look.tuple_iterator,
    "TYPE_MATCH": _Look.type,
    "WEAKREF_ALIVE": _Look.type_alone,
}
# Guards on the process's state, which is part of a start's key. They are on the tree's root alone,
# and they are all its guards.
OF_ROOT = frozenset(
    {
        "AUTOGRAD_SAVED_TENSORS_HOOKS",
        "DETERMINISTIC_ALGORITHMS",
        "DUAL_LEVEL",
        "FSDP_TRAINING_STATE",
        "FUNCTORCH_STACK_MATCH",
        "GLOBAL_STATE",
        "GRAD_MODE",
        "TORCH_FUNCTION_STATE",
    }
)
OF_STATE = OF_ROOT | {"DEFAULT_DEVICE"}


def _arguments(guard: Guard, kind: str) -> dict[str, Any]:
    """The arguments of the guard's maker. A TENSOR_MATCH finds its tensor by its source."""
    if kind == "TENSOR_MATCH" or not isinstance(guard.create_fn, functools.partial):
        return {}
    if guard.create_fn.args:
        raise Refused(f"a guard of kind {kind} with arguments without a name")
    return guard.create_fn.keywords


def store(guards: Sequence[Guard], values: Values, describer: Describer) -> list[StoredGuard]:
    """The guards as facts. Raises Refused for a guard of a kind, or on a value, that has no
    fact."""
    stored: list[StoredGuard] = []
    look = _Look(values, describer)
    for guard in guards:
        source = guard.originating_source
        kind = guard.create_fn_name()
        if isinstance(source, ShapeEnvSource):
            continue  # with static shapes it checks nothing
        keywords = _arguments(guard, kind)
        text = ""
        if kind not in OF_STATE:
            if kind not in _FACTS:
                raise Refused(f"a guard of kind {kind} on {guard.name}")
            try:
                text = look.fact(kind, values.get(source), keywords)
            except Unknown as error:
                raise Refused(f"the guard {kind} on {guard.name} is about {error}") from error
        stored.append((source, kind, keywords, text))
    return stored


def store_keys(
    sources: Sequence[Source], values: Values, describer: Describer
) -> list[StoredGuard]:
    """Guards on the values that were used as keys, and on all keys of the dictionaries in which
    they were looked up, because Dynamo has no guard that another key was missing. Raises
    Refused."""
    look = _Look(values, describer)
    kinds: dict[str, tuple[Source, str]] = {}
    for source in sources:
        looked_at, kind = source, "CONSTANT_MATCH"
        if isinstance(source, ConstDictKeySource):
            looked_at, kind = source.base, "TYPE_MATCH"
        kinds[looked_at.name] = (looked_at, kind)
    stored: list[StoredGuard] = []
    for source, kind in kinds.values():
        try:
            stored.append((source, kind, {}, look.fact(kind, values.get(source), {})))
        except Unknown as error:
            raise Refused(f"something is looked up by {source.name}, {error}") from error
    return stored


def name_of(guard: StoredGuard) -> str:
    """The name of a guard that has not been given its place in a tree."""
    assert isinstance(guard[0], Source)
    return guard[0].name


def difference(stored: Sequence[StoredGuard], values: Values, describer: Describer) -> str:
    """The first fact that differs here, for people; "" if there is none."""
    look = _Look(values, describer)
    for place, kind, keywords, there in stored:
        if kind in OF_STATE:
            continue
        try:
            here = look.fact(kind, values.at(place), keywords)
        except Unknown as error:
            return f"{values.name(place)} is {error}"
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            return f"{values.name(place)} is not there: {error}"
        if here != there:
            return f"{values.name(place)} is {here}, not {there}"
    return ""


def described(stored: Sequence[StoredGuard], values: Values) -> list[Any]:
    """The functions and classes whose content is in the facts."""
    found: list[Any] = []
    for place, kind, _, _ in stored:
        fact = _FACTS.get(kind)
        if fact is _Look.identity:
            found.append(values.at(place))
        elif fact is _Look.type:
            found.append(type(values.at(place)))
    return found
