"""Writes down the calls by which Dynamo's builder makes a guard tree (guard_tree.py)."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Collection
from typing import Any

from ...torch_compat.tracing import (
    DictGuardManager,
    GuardManager,
    GuardManagerType,
    guard_same_object,
)
from .guard_tree import (
    CONSTANT,
    DICT_ITEM,
    DICTIONARY,
    EQUALS_MATCH,
    FOLLOW,
    GLOBALS,
    ID,
    ID_MATCH,
    KEY,
    KEYLESS,
    MAPPING_KEYS,
    NAME,
    ROOT,
    SAME_OBJECT,
    TENSOR_MATCH,
    TYPE_DICT,
    TYPE_MATCH,
    StoredLeaf,
    StoredNode,
    StoredTree,
    Text,
    Unwritable,
    is_constant,
    same,
)

# The dictionaries of a module that hold its parts.
_MEMBERS = frozenset({"_parameters", "_buffers", "_modules"})


class _Node:
    """Stands in for a GuardManager."""

    def __init__(self, tree: Recorder, index: int, value: Any, name: str, ordered: bool) -> None:
        self.tree, self.index, self.value, self.name = tree, index, value, name
        self.ordered = ordered

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return DictGuardManager if self.ordered else GuardManager

    def __getattr__(self, maker: str) -> Callable[..., Any]:
        if maker in FOLLOW or maker == GLOBALS:
            return lambda **given: self.tree.add_node(self, maker, **given)
        return lambda *given: self.tree.add_leaf(self, maker, given)


def add_same_object(one: Any, other: Any, texts: list[str], stack: Any) -> None:
    """Guards that the values of two managers, or of two that stand in for them, are one object."""
    if type(one) is _Node:
        one.tree.add_leaf(one, SAME_OBJECT, (other, texts, stack))
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
        key = None if maker in KEYLESS else next(iter(keys.values()))
        if not is_constant(key):
            raise Unwritable(f"{source} has a key that is a {type(key).__name__}")
        place = (parent.index, maker, key, source)
        if place in self._known:
            return self._known[place]
        value = example_value
        if maker != GLOBALS:
            value = FOLLOW[maker](parent.value, key)
        if maker != TYPE_DICT and not same(value, example_value):
            raise Unwritable(f"{source} is not what {maker} leads to")
        first = parent
        while not source.startswith(first.name):
            first = self._all[self._nodes[first.index - 1][1]]
        ordered = guard_manager_enum is GuardManagerType.DICT_GUARD_MANAGER
        rest = self._text(source[len(first.name) :])
        self._nodes.append((maker, parent.index, key, ordered, first.index, rest))
        node = self._known[place] = _Node(self, len(self._all), value, source, ordered)
        self._all.append(node)
        if maker == DICT_ITEM and parent.index != ROOT:
            self._note_member(parent.index, key)
        return node

    def _note_member(self, parent: int, key: Any) -> None:
        maker, dictionary, member, *_ = self._nodes[parent - 1]
        if maker != DICT_ITEM or member not in _MEMBERS or dictionary == ROOT:
            return
        maker, module, *_ = self._nodes[dictionary - 1]
        if maker == DICTIONARY and key not in vars(self._all[module].value):
            self._hidden_by.append((module, key))

    def _is_key(self, node: _Node) -> bool:
        return node.index != ROOT and self._nodes[node.index - 1][0] == KEY

    def add_leaf(self, node: _Node, maker: str, given: tuple[Any, ...]) -> None:
        id_text = ""
        if maker in (ID_MATCH, TYPE_MATCH):
            address, *kept = given
            if maker == ID_MATCH and self._is_key(node):
                raise Unwritable(f"{node.name} is a key that is not a constant")
            value = node.value if maker == ID_MATCH else type(node.value)
            if self._identified.get(address) is not value:
                raise Unwritable(f"the address of something else than {node.name} is compared")
            id_text = str(address)
        elif maker in (EQUALS_MATCH, MAPPING_KEYS):
            value, *kept = given
            # A key is found by its position: compared with the key that is there, any order would
            # pass.
            if self._is_key(node) or not same(value, node.value):
                if not is_constant(value):
                    raise Unwritable(f"{node.name} is compared with another value")
                kept.insert(0, value)
        elif maker == TENSOR_MATCH:
            value, size, stride, name, texts, stack, kind, _, *more = given  # more since 2.15
            if value is not node.value or kind is not type(value) or name != node.name:
                raise Unwritable(f"{node.name} is compared with another tensor")
            kept = [size, stride, *more, texts, stack]
        elif maker == SAME_OBJECT:
            other, *kept = given
            if other.value is not node.value:
                raise Unwritable(f"{node.name} and {other.name} are no longer one object")
            kept.insert(0, other.index)
        elif maker in CONSTANT:
            kept = list(given)
        else:
            raise Unwritable(f"{maker} is made from values of its process")
        *arguments, texts, _ = kept
        if not is_constant(arguments):
            raise Unwritable(f"{maker} of {node.name} has arguments that are not constants")
        parts = [text.replace(node.name, NAME) if node.name else text for text in texts]
        if id_text:
            parts = [text.replace(id_text, ID) for text in parts]
        written = tuple(self._text(text) for text in parts)
        self._leaves.append(
            (maker, node.index, self.shared(tuple(arguments)), self.shared(written))
        )

    def shared(self, value: Any) -> Any:
        """An equal constant that was seen before, so that it is written once."""
        if not is_constant(value):
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
