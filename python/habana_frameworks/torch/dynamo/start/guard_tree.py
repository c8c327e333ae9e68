"""Dynamo's guard tree as the calls that make it.

While a start is made, Dynamo's builder runs on stand-ins for its C++ managers, which write down
what it asks for: nodes, each of which is reached from another one by one accessor, and guards on
them. The next process follows the same accessors from its own frame, compares the facts with what
it finds, and makes the same calls with its own values. It does without the builder's Python in
between, which is most of the cost of building. Where something cannot be written down like this (a
call with a function in it, a value that no accessor leads to), Dynamo's builder makes the guards.
"""

from __future__ import annotations

import contextlib
import operator
import re
import types
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...torch_compat.dispatcher import dispatch_keys
from ...torch_compat.dynamo_settings import dynamo_config
from ...torch_compat.tracing import (
    DictGuardManager,
    GuardManager,
    GuardManagerType,
    Source,
    guard_same_object,
)

# A text. It is split into pieces where it contains names that Dynamo made up, so that these can get
# new names.
Text = str | tuple[str, ...]
# The accessor, the parent, the accessor's key, whether the order of keys is guarded, the node whose
# name is the beginning of this node's name, and the rest of the name.
StoredNode = tuple[str, int, Any, bool, int, Text]
# The maker, the node, the maker's arguments, and its texts for people. In these _NAME stands for
# the node's name and _ID for the address that is compared.
StoredLeaf = tuple[str, int, tuple[Any, ...], tuple[Text, ...]]

_NAME, _ID = "\x00", "\x01"
ROOT, LOCALS, GLOBALS = 0, "framelocals_manager", "globals_dict_manager"
_TYPE_DICT, _DICT_ITEM = "type_dict_manager", "dict_getitem_manager"
_DICTIONARY = "get_generic_dict_manager"


class Unwritable(Exception):
    """The tree of a trace cannot be kept as calls; the text says why."""


@dataclass(frozen=True)
class StoredTree:
    nodes: list[StoredNode]  # from the second one on; the first one is the root
    leaves: list[StoredLeaf]
    arguments: list[str]
    # Names and nodes of tensors that must be different objects, and, where Dynamo keeps them (since
    # 2.15), the sources.
    unaliased: list[tuple[Text, int, Source | None]]
    same_objects: list[tuple[Text, Text]]  # the check, and the same for people
    same_objects_function: Text  # Dynamo's Python text of all these checks
    # nodes with tensors that are not parameters, and all nodes that lead to them
    tensors: list[int]
    # by name: nodes of modules that are locals and are recognised by address
    identified: dict[str, int]
    # Modules and names of their parameters, buffers and submodules. An attribute of that name hides
    # these from the traced code, but not from the tree.
    hidden_by: list[tuple[int, str]]


def _item(value: Any, key: Any) -> Any:
    return dict.__getitem__(value, key) if isinstance(value, dict) else value[key]


_KEY = "get_key_manager"

# By the maker of a node: leads from the parent's value and the key to the node's own value. A node
# with another maker is not written down.
_FOLLOW: dict[str, Callable[[Any, Any], Any]] = {
    LOCALS: lambda value, key: value[key[0]],
    _DICT_ITEM: _item,
    "list_getitem_manager": operator.getitem,
    "tuple_getitem_manager": operator.getitem,
    "getitem_manager": operator.getitem,
    "getattr_manager": getattr,
    _DICTIONARY: lambda value, _: value.__dict__,
    _KEY: lambda value, key: list(dict.keys(value))[key],
    "get_value_manager": lambda value, key: list(dict.values(value))[key],
    "global_weakref_manager": lambda value, key: value[key](),
    "weakref_call_manager": lambda value, _: value(),
    "code_manager": lambda value, _: value.__code__,
    "closure_manager": lambda value, _: value.__closure__,
    "func_defaults_manager": lambda value, _: value.__defaults__,
    "func_kwdefaults_manager": lambda value, _: value.__kwdefaults__,
    "type_manager": lambda value, _: type(value),
    # a copy, because Dynamo looks it up like that
    _TYPE_DICT: lambda value, _: dict(value.__dict__),
    "type_mro_manager": lambda value, _: value.__mro__,
}
_MEMBERS = frozenset({"_parameters", "_buffers", "_modules"})
_KEYLESS = frozenset(
    {GLOBALS, _DICTIONARY, "weakref_call_manager", "code_manager"}
    | {"closure_manager", "func_defaults_manager", "func_kwdefaults_manager"}
    | {"type_manager", _TYPE_DICT, "type_mro_manager"}
)
# These guards are made again with an address or a value of the new process.
_ID_MATCH, _TYPE_MATCH = "add_id_match_guard", "add_type_match_guard"
_EQUALS_MATCH, _TENSOR_MATCH = "add_equals_match_guard", "add_tensor_match_guard"
_MAPPING_KEYS = "add_mapping_keys_guard"
# This guard is made again with another node, whose value is the same object.
_SAME_OBJECT = "guard_same_object"
# These guards are made again with the same arguments.
_CONSTANT = frozenset(
    {"add_true_match_guard", "add_false_match_guard", "add_none_match_guard"}
    | {"add_not_none_guard", "add_dict_contains_guard", "add_set_contains_guard"}
    | {"add_length_check_guard", "add_dict_length_check_guard", "add_no_hasattr_guard"}
    | {"add_dimension_marking_guard", "add_default_device_guard"}
    | {"add_float_is_nan_guard", "add_complex_is_nan_guard"}
)

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, list, set, frozenset, torch.Size):
        return all(map(_is_constant, value))
    if type(value) is dict:
        return all(_is_constant(k) and _is_constant(v) for k, v in value.items())
    return type(value) in _PLAIN


def same(one: Any, other: Any) -> bool:
    """Whether two look-ups found the same object, or equal values where each look-up makes a new
    one."""
    if one is other:
        return True
    anew = (*_PLAIN, types.MethodType, types.MappingProxyType)
    return type(one) is type(other) and type(one) in anew and bool(one == other)


class _Node:
    """Stands in for a GuardManager."""

    def __init__(self, tree: Recorder, index: int, value: Any, name: str, ordered: bool) -> None:
        self.tree, self.index, self.value, self.name = tree, index, value, name
        self.ordered = ordered

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return DictGuardManager if self.ordered else GuardManager

    def __getattr__(self, maker: str) -> Callable[..., Any]:
        if maker in _FOLLOW or maker == GLOBALS:
            return lambda **given: self.tree.add_node(self, maker, **given)
        return lambda *given: self.tree.add_leaf(self, maker, given)


def add_same_object(one: Any, other: Any, texts: list[str], stack: Any) -> None:
    """Guards that the values of two managers, or of two that stand in for them, are one object."""
    if type(one) is _Node:
        one.tree.add_leaf(one, _SAME_OBJECT, (other, texts, stack))
    else:
        guard_same_object(one, other, texts, stack)


class Recorder:
    """Stands in for the GuardManagerWrapper that GuardBuilder takes; afterwards it holds the
    tree."""

    def __init__(self, locals_: dict[str, Any], made_up: Collection[str]) -> None:
        self._nodes: list[StoredNode] = []
        self._leaves: list[StoredLeaf] = []
        self._hidden_by: list[tuple[int, str]] = []
        self._known: dict[tuple[Any, ...], _Node] = {}
        self._shared: dict[tuple[type, str], Any] = {}
        names = "|".join(re.escape(name) for name in sorted(made_up, key=len, reverse=True))
        self._made_up = re.compile(rf"(?<!\w)(?:{names})(?!\w)") if names else None
        self._identified: dict[int, Any] = {}
        self.root = _Node(self, ROOT, locals_, "", False)
        self._all = [self.root]
        self.diff_guard_sources: set[str] = set()

    def id_ref(self, value: object, _: str) -> int:
        self._identified[id(value)] = value
        return id(value)

    def lookup_weakrefs(self, value: object) -> weakref.ref[object] | None:
        return weakref.ref(value) if id(value) in self._identified else None

    def _text(self, text: str) -> Text:
        kept: Text = text
        if self._made_up is not None and self._made_up.search(text):
            kept, end = (), 0
            for found in self._made_up.finditer(text):
                kept += (text[end : found.start()], found.group())
                end = found.end()
            kept += (text[end:],)
        shared: Text = self.shared(kept)
        return shared

    def add_node(
        self,
        parent: _Node,
        maker: str,
        *,
        source: str,
        example_value: Any,
        guard_manager_enum: Any,
        **keys: Any,
    ) -> _Node:
        key = None if maker in _KEYLESS else next(iter(keys.values()))
        if not _is_constant(key):
            raise Unwritable(f"{source} has a key that is a {type(key).__name__}")
        place = (parent.index, maker, key, source)
        if place in self._known:
            return self._known[place]
        value = example_value
        if maker != GLOBALS:
            value = _FOLLOW[maker](parent.value, key)
        if maker != _TYPE_DICT and not same(value, example_value):
            raise Unwritable(f"{source} is not what {maker} leads to")
        first = parent
        while not source.startswith(first.name):
            first = self._all[self._nodes[first.index - 1][1]]
        ordered = guard_manager_enum is GuardManagerType.DICT_GUARD_MANAGER
        rest = self._text(source[len(first.name) :])
        self._nodes.append((maker, parent.index, key, ordered, first.index, rest))
        node = self._known[place] = _Node(self, len(self._all), value, source, ordered)
        self._all.append(node)
        if maker == _DICT_ITEM and parent.index != ROOT:
            self._note_member(parent.index, key)
        return node

    def _note_member(self, parent: int, key: Any) -> None:
        maker, dictionary, member, *_ = self._nodes[parent - 1]
        if maker != _DICT_ITEM or member not in _MEMBERS or dictionary == ROOT:
            return
        maker, module, *_ = self._nodes[dictionary - 1]
        if maker == _DICTIONARY and key not in vars(self._all[module].value):
            self._hidden_by.append((module, key))

    def _is_key(self, node: _Node) -> bool:
        return node.index != ROOT and self._nodes[node.index - 1][0] == _KEY

    def add_leaf(self, node: _Node, maker: str, given: tuple[Any, ...]) -> None:
        id_text = ""
        if maker in (_ID_MATCH, _TYPE_MATCH):
            address, *kept = given
            if maker == _ID_MATCH and self._is_key(node):
                raise Unwritable(f"{node.name} is a key that is not a constant")
            value = node.value if maker == _ID_MATCH else type(node.value)
            if self._identified.get(address) is not value:
                raise Unwritable(f"the address of something else than {node.name} is compared")
            id_text = str(address)
        elif maker in (_EQUALS_MATCH, _MAPPING_KEYS):
            value, *kept = given
            # A key is found by its position: compared with the key that is there, any order would
            # pass.
            if self._is_key(node) or not same(value, node.value):
                if not _is_constant(value):
                    raise Unwritable(f"{node.name} is compared with another value")
                kept.insert(0, value)
        elif maker == _TENSOR_MATCH:
            value, size, stride, name, texts, stack, kind, _, *more = given  # more since 2.15
            if value is not node.value or kind is not type(value) or name != node.name:
                raise Unwritable(f"{node.name} is compared with another tensor")
            kept = [size, stride, *more, texts, stack]
        elif maker == _SAME_OBJECT:
            other, *kept = given
            if other.value is not node.value:
                raise Unwritable(f"{node.name} and {other.name} are no longer one object")
            kept.insert(0, other.index)
        elif maker in _CONSTANT:
            kept = list(given)
        else:
            raise Unwritable(f"{maker} is made from values of its process")
        *arguments, texts, _ = kept
        if not _is_constant(arguments):
            raise Unwritable(f"{maker} of {node.name} has arguments that are not constants")
        parts = [text.replace(node.name, _NAME) if node.name else text for text in texts]
        if id_text:
            parts = [text.replace(id_text, _ID) for text in parts]
        written = tuple(self._text(text) for text in parts)
        self._leaves.append(
            (maker, node.index, self.shared(tuple(arguments)), self.shared(written))
        )

    def shared(self, value: Any) -> Any:
        """An equal constant that was seen before, so that it is written once."""
        if not _is_constant(value):
            return value
        return self._shared.setdefault((type(value), repr(value)), value)

    def finish(self, builder: Any, function_text: Callable[[list[str]], str]) -> StoredTree:
        """Returns the tree. builder: Dynamo's builder, which has created all guards. Raises
        Unwritable."""
        pairs = builder.object_aliasing_guard_codes
        named = {node.name: node for node in self._all[1:]}
        leading: set[int] = set()
        for name in self.diff_guard_sources:
            index = named[name].index
            while index != ROOT:
                leading.add(index)
                index = self._nodes[index - 1][1]
            leading.add(ROOT)
        local = builder.id_matched_objs
        names = builder.no_tensor_aliasing_names
        return StoredTree(
            self._nodes,
            self._leaves,
            builder.argnames,
            [
                (self._text(name), node.index, source)
                for name, node, source in zip(
                    names,
                    builder.no_tensor_aliasing_guard_managers,
                    getattr(builder, "no_tensor_aliasing_sources", [None] * len(names)),
                    strict=True,
                )
            ],
            [(self._text(code), self._text(told)) for code, told in pairs],
            self._text(function_text([code for code, _ in pairs]) if pairs else ""),
            sorted(leading),
            {
                name: next(n.index for n in self._all if n.value is ref())
                for name, ref in local.items()
            },
            self._hidden_by,
        )

    def forget(self) -> None:
        """Drops the values, because nodes and recorder refer to each other."""
        for node in self._all:
            node.value = None
        self._identified.clear()


def text_of(text: Text) -> str:
    return text if type(text) is str else "".join(text)


class Absent(Exception):
    """An accessor leads nowhere in this process; the text says which one."""


def follow(tree: StoredTree, locals_: dict[str, Any], globals_: dict[str, Any]) -> list[Any]:
    """The values of all nodes in a frame. Raises Absent."""
    values: list[Any] = [locals_]
    for maker, parent, key, _, _, _ in tree.nodes:
        try:
            values.append(globals_ if maker == GLOBALS else _FOLLOW[maker](values[parent], key))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise Absent(f"{name_of(tree, len(values))} is not there: {error}") from error
    for module, name in tree.hidden_by:
        if name in values[module].__dict__:
            raise Absent(f"{name_of(tree, module)} has an attribute {name} beside its part {name}")
    return values


def name_of(tree: StoredTree, index: int) -> str:
    if index == ROOT:
        return ""
    *_, first, rest = tree.nodes[index - 1]
    return name_of(tree, first) + text_of(rest)


@contextlib.contextmanager
def _immutability_at_hand() -> Iterator[None]:
    """C++ asks PyTorch's settings for this one at every node, and a module's attribute is found
    without the settings' Python."""
    settings, name = vars(dynamo_config), "skip_tensor_guards_with_matching_dict_tags"
    settings[name] = getattr(dynamo_config, name)
    try:
        yield
    finally:
        settings.pop(name, None)


def grow(tree: StoredTree, values: list[Any], globals_: dict[str, Any], builder: Any) -> None:
    """Makes the tree below the root of the builder's guard manager, and leaves the builder as if it
    had made the tree itself. values: those that follow() returned."""
    plain, by_key = GuardManagerType.GUARD_MANAGER, GuardManagerType.DICT_GUARD_MANAGER
    managers: list[Any] = [builder.guard_manager.root]
    names = [""]
    with _immutability_at_hand():
        for index, (maker, parent, key, ordered, first, rest) in enumerate(tree.nodes, 1):
            name = names[first] + (rest if type(rest) is str else "".join(rest))
            make = getattr(managers[parent], maker)
            kind = by_key if ordered else plain
            if maker == GLOBALS:
                made = make(globals_, name, globals_, kind)
            elif maker in _KEYLESS:
                made = make(name, values[index], kind)
            else:
                made = make(key, name, values[index], kind)
            managers.append(made)
            names.append(name)
    _add_leaves(tree, values, names, managers, builder.id_ref)
    builder.argnames.extend(tree.arguments)
    for text, index, source in tree.unaliased:
        builder.no_tensor_aliasing_names.append(text_of(text))
        builder.no_tensor_aliasing_guard_managers.append(managers[index])
        if source is not None:
            builder.no_tensor_aliasing_sources.append(source)
    builder.object_aliasing_guard_codes.extend(
        (text_of(code), text_of(told)) for code, told in tree.same_objects
    )
    sources = builder.guard_manager.diff_guard_sources
    sources.update(managers[index].get_source() for index in tree.tensors)
    for local, index in tree.identified.items():
        builder.id_matched_objs[local] = builder.lookup_weakrefs(values[index])


def _add_leaves(
    tree: StoredTree,
    values: list[Any],
    names: list[str],
    managers: list[Any],
    id_ref: Callable[[object, str], int],
) -> None:
    for maker, index, given, parts in tree.leaves:
        name, value = names[index], values[index]
        texts = [text_of(part).replace(_NAME, name) for part in parts]
        if maker == _SAME_OBJECT:
            guard_same_object(managers[index], managers[given[0]], texts, None)
            continue
        add = getattr(managers[index], maker)
        if maker in _CONSTANT:
            add(*given, texts, None)
        elif maker in (_ID_MATCH, _TYPE_MATCH):
            if maker == _TYPE_MATCH:
                value, name = type(value), f"type({name})"
            address = id_ref(value, name)
            add(address, [text.replace(_ID, str(address)) for text in texts], None)
        elif maker == _TENSOR_MATCH:
            size, stride, *more = given
            keys = dispatch_keys(value)
            add(value, size, stride, name, texts, None, type(value), keys, *more)
        else:
            add(given[0] if given else value, texts, None)
