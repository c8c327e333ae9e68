"""Records which of the values that a trace looked at are one object.

Traced code may ask whether two values are one object: by `is`, by `==` of a class without an
equality of its own, by a look-up among keys. Dynamo builds the answer in, and guards some of the
answers "yes". So a start records which places lead to one object, among all places that the trace
looked at. It is not for a process where other values are one object, or where these are not.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .describe import HEAP_TYPE
from .guard_facts import Place, Values

# Programs compare these types by value, and it depends on their history which values are one
# object. That matters only to traced code that asks by `is`.
_BY_VALUE = (int, float, complex, str, bytes, torch.device, torch.Size)
# For these types a guard on the value is enough.
_SINGLE = (type(None), bool, types.EllipsisType, types.NotImplementedType, torch.dtype)
_NAMED = frozenset({"is_", "is_not"})


@dataclass(frozen=True)
class Identities:
    nodes: tuple[int, ...]  # nodes of the guard tree
    kinds: tuple[Place, ...]  # places whose values' classes Python code made
    others: list[Place]
    # Positions in the list of nodes' values, classes of kinds and values of others: the second
    # position has the same object as the first.
    same: list[tuple[int, int]]
    count: int  # number of different objects

    def hold(self, values: Values) -> bool:
        addresses = list(map(id, _found(self.nodes, self.kinds, self.others, values)))
        if len(set(addresses)) != self.count:
            return False
        return all(addresses[one] == addresses[other] for one, other in self.same)


def _found(
    nodes: Sequence[int], kinds: Sequence[Place], others: Sequence[Place], values: Values
) -> list[Any]:
    of_nodes = values.nodes
    found = [of_nodes[i] for i in nodes]
    found += [type(values.at(place)) for place in kinds]
    return found + [values.at(place) for place in others]


def _matters(value: Any, by_value: bool) -> bool:
    if isinstance(value, _SINGLE):
        return False
    if type(value) is float and value != value:
        return True  # [NaN] contains a NaN only if it is the same object
    return by_value or not _is_value(value)


def _is_value(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_value, value))
    return type(value) in _BY_VALUE or isinstance(value, _SINGLE)


def record(values: Values, again: Values, places: Iterable[Place], by_value: bool) -> Identities:
    """Records which values are one object.

    again: the values of the same frame, looked up a second time. A value that each look-up makes
    anew is not the same object as anything; for a method, its object and its function are compared.
    by_value: the result of compares_values()."""
    nodes: list[int] = []
    others: list[Place] = []

    def add(place: Place) -> None:
        value = values.at(place)
        if isinstance(value, types.MethodType) and isinstance(place, int):
            add((place, "__self__"))
            add((place, "__func__"))
        elif _matters(value, by_value) and again.at(place) is value:
            if isinstance(place, int):
                nodes.append(place)
            else:
                others.append(place)

    for node in range(len(values.nodes)):
        add(node)
    elsewhere = [place for place in places if not isinstance(place, int)]
    for place in elsewhere:
        add(place)
    kinds: list[Place] = [
        place
        for place in (*range(len(values.nodes)), *elsewhere)
        if type(values.at(place)).__flags__ & HEAP_TYPE
    ]
    first: dict[int, int] = {}
    same = []
    for position, value in enumerate(_found(nodes, kinds, others, values)):
        before = first.setdefault(id(value), position)
        if before != position:
            same.append((before, position))
    return Identities(tuple(nodes), tuple(kinds), others, same, len(first))


def compares_values(codes: Iterable[types.CodeType]) -> bool:
    """Whether one of the codes asks by `is` about anything other than None and similar
    constants."""
    return any(map(_asks, codes))


def _asks(code: types.CodeType) -> bool:
    if not _NAMED.isdisjoint(code.co_names):
        return True
    if dis.opmap["IS_OP"] in code.co_code[::2]:
        before: Any = None
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IS_OP" and not _is_single(before):
                return True
            before = instruction
    return compares_values(c for c in code.co_consts if isinstance(c, types.CodeType))


def _is_single(instruction: Any) -> bool:
    return instruction is not None and (
        instruction.opname in ("LOAD_CONST", "RETURN_CONST", "LOAD_COMMON_CONSTANT")
        and isinstance(instruction.argval, _SINGLE)
    )
