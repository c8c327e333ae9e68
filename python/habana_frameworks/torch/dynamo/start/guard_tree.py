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
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...torch_compat.dispatcher import dispatch_keys
from ...torch_compat.dynamo_settings import dynamo_config
from ...torch_compat.tracing import (
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
# The maker, the node, the maker's arguments, and its texts for people. In these NAME stands for
# the node's name and ID for the address that is compared.
StoredLeaf = tuple[str, int, tuple[Any, ...], tuple[Text, ...]]

NAME, ID = "\x00", "\x01"
ROOT, LOCALS, GLOBALS = 0, "framelocals_manager", "globals_dict_manager"
TYPE_DICT, DICT_ITEM = "type_dict_manager", "dict_getitem_manager"
DICTIONARY = "get_generic_dict_manager"


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


KEY = "get_key_manager"

# By the maker of a node: leads from the parent's value and the key to the node's own value. A node
# with another maker is not written down.
FOLLOW: dict[str, Callable[[Any, Any], Any]] = {
    LOCALS: lambda value, key: value[key[0]],
    DICT_ITEM: _item,
    "list_getitem_manager": operator.getitem,
    "tuple_getitem_manager": operator.getitem,
    "getitem_manager": operator.getitem,
    "getattr_manager": getattr,
    DICTIONARY: lambda value, _: value.__dict__,
    KEY: lambda value, key: list(dict.keys(value))[key],
    "get_value_manager": lambda value, key: list(dict.values(value))[key],
    "global_weakref_manager": lambda value, key: value[key](),
    "weakref_call_manager": lambda value, _: value(),
    "code_manager": lambda value, _: value.__code__,
    "closure_manager": lambda value, _: value.__closure__,
    "func_defaults_manager": lambda value, _: value.__defaults__,
    "func_kwdefaults_manager": lambda value, _: value.__kwdefaults__,
    "type_manager": lambda value, _: type(value),
    # a copy, because Dynamo looks it up like that
    TYPE_DICT: lambda value, _: dict(value.__dict__),
    "type_mro_manager": lambda value, _: value.__mro__,
}
KEYLESS = frozenset(
    {GLOBALS, DICTIONARY, "weakref_call_manager", "code_manager"}
    | {"closure_manager", "func_defaults_manager", "func_kwdefaults_manager"}
    | {"type_manager", TYPE_DICT, "type_mro_manager"}
)
# These guards are made again with an address or a value of the new process.
ID_MATCH, TYPE_MATCH = "add_id_match_guard", "add_type_match_guard"
EQUALS_MATCH, TENSOR_MATCH = "add_equals_match_guard", "add_tensor_match_guard"
MAPPING_KEYS = "add_mapping_keys_guard"
# This guard is made again with another node, whose value is the same object.
SAME_OBJECT = "guard_same_object"
# These guards are made again with the same arguments.
CONSTANT = frozenset(
    {"add_true_match_guard", "add_false_match_guard", "add_none_match_guard"}
    | {"add_not_none_guard", "add_dict_contains_guard", "add_set_contains_guard"}
    | {"add_length_check_guard", "add_dict_length_check_guard", "add_no_hasattr_guard"}
    | {"add_dimension_marking_guard", "add_default_device_guard"}
    | {"add_float_is_nan_guard", "add_complex_is_nan_guard"}
)

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def is_constant(value: Any) -> bool:
    if type(value) in (tuple, list, set, frozenset, torch.Size):
        return all(map(is_constant, value))
    if type(value) is dict:
        return all(is_constant(k) and is_constant(v) for k, v in value.items())
    return type(value) in _PLAIN


def same(one: Any, other: Any) -> bool:
    """Whether two look-ups found the same object, or equal values where each look-up makes a new
    one."""
    if one is other:
        return True
    anew = (*_PLAIN, types.MethodType, types.MappingProxyType)
    return type(one) is type(other) and type(one) in anew and bool(one == other)


def text_of(text: Text) -> str:
    return text if type(text) is str else "".join(text)


class Absent(Exception):
    """An accessor leads nowhere in this process; the text says which one."""


def follow(tree: StoredTree, locals_: dict[str, Any], globals_: dict[str, Any]) -> list[Any]:
    """The values of all nodes in a frame. Raises Absent."""
    values: list[Any] = [locals_]
    for maker, parent, key, _, _, _ in tree.nodes:
        try:
            values.append(globals_ if maker == GLOBALS else FOLLOW[maker](values[parent], key))
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
            elif maker in KEYLESS:
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
        texts = [text_of(part).replace(NAME, name) for part in parts]
        if maker == SAME_OBJECT:
            guard_same_object(managers[index], managers[given[0]], texts, None)
            continue
        add = getattr(managers[index], maker)
        if maker in CONSTANT:
            add(*given, texts, None)
        elif maker in (ID_MATCH, TYPE_MATCH):
            if maker == TYPE_MATCH:
                value, name = type(value), f"type({name})"
            address = id_ref(value, name)
            add(address, [text.replace(ID, str(address)) for text in texts], None)
        elif maker == TENSOR_MATCH:
            size, stride, *more = given
            keys = dispatch_keys(value)
            add(value, size, stride, name, texts, None, type(value), keys, *more)
        else:
            add(given[0] if given else value, texts, None)
