"""The answers of `isinstance` and `issubclass` where a metaclass gives them.

An abstract class knows the classes that were registered with it, wherever that was done; another
metaclass may decide in any way. So a start holds the answers, and the new process is asked again.
"""

from __future__ import annotations

import _collections_abc
import abc
import contextlib
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...torch_compat.tracing import Source
from .code_fingerprint import find
from .describe import Refused, Unknown, type_name
from .guard_facts import Place, StoredGuard, Values

# The type of the value, the class that it is compared with, and the value's source where that class
# looks at the value itself.
Question = tuple[type, type, Source | None]


@dataclass(frozen=True)
class ClassPlace:
    """How a class is found in any process."""

    place: Place | None  # the place of a guard's value
    is_type_of: bool  # the class is the type of the value at that place
    module: str  # without a place: the module in which the qualified name leads to the class
    name: str

    def find(self, values: Values) -> Any:
        if self.place is None:
            return find(self.module, self.name)
        value = values.at(self.place)
        return type(value) if self.is_type_of else value


@dataclass(frozen=True)
class StoredAnswer:
    derived: ClassPlace | Source  # with a source, the question is about the value there
    base: ClassPlace
    answer: bool
    told: str  # the question, for people

    def holds(self, values: Values) -> bool:
        base = self.base.find(values)
        if isinstance(self.derived, ClassPlace):
            return issubclass(self.derived.find(values), base) is self.answer
        return isinstance(values.get(self.derived), base) is self.answer


def questions_of(
    derived: Any, classes: Any, source: Source | None
) -> dict[tuple[Any, ...], Question]:
    """The questions that a metaclass answers, by their identity."""
    if not isinstance(derived, type):
        return {}
    found: dict[tuple[Any, ...], Question] = {}
    for base in _flat(classes):
        kind = type(base)
        by_value = kind.__instancecheck__ not in _BY_TYPE
        if by_value or kind.__subclasscheck__ is not type.__subclasscheck__:
            asked = source if by_value else None
            found[derived, base, asked and asked.name] = (derived, base, asked)
    return found


# Modules that name those classes of Python which have no name of their own, such as the class of
# generators.
_NAMING = {"types": types, "_collections_abc": _collections_abc}
_BY_TYPE = (type.__instancecheck__, abc.ABCMeta.__instancecheck__)


def _flat(classes: Any) -> Iterator[type]:
    if isinstance(classes, tuple):
        for item in classes:
            yield from _flat(item)
    elif isinstance(classes, types.UnionType):
        yield from _flat(typing.get_args(classes))
    elif isinstance(classes, type):
        yield classes
    elif isinstance(origin := typing.get_origin(classes), type):
        yield origin


class _Places:
    """The places of classes, by the address of the class."""

    def __init__(self, guards: Sequence[StoredGuard], values: Values) -> None:
        self._found: dict[int, ClassPlace] = {}
        for place, *_ in guards:
            value = values.at(place)
            self._found.setdefault(id(type(value)), ClassPlace(place, True, "", ""))
            if isinstance(value, type):
                self._found.setdefault(id(value), ClassPlace(place, False, "", ""))

    def of(self, kind: type) -> ClassPlace:
        """The place of a class. Raises Refused."""
        found = self._found.get(id(kind))
        if found is not None:
            return found
        with contextlib.suppress(ImportError, Unknown, ValueError):
            if find(kind.__module__, kind.__qualname__) is kind:
                return ClassPlace(None, False, kind.__module__, kind.__qualname__)
        for module, names in _NAMING.items():
            for name, value in vars(names).items():
                if value is kind:
                    return ClassPlace(None, False, module, name)
        raise Refused(f"isinstance() asks about {type_name(kind)}, which cannot be found by name")


def store(
    questions: Sequence[Question], guards: Sequence[StoredGuard], values: Values
) -> list[StoredAnswer]:
    """guards: those by which classes are found. Raises Refused."""
    if not questions:
        return []
    places = _Places(guards, values)
    stored = []
    for derived, base, source in questions:
        told = f"a {type_name(derived)} is a {type_name(base)}"
        if source is None:
            answer = issubclass(derived, base)
            stored.append(StoredAnswer(places.of(derived), places.of(base), answer, told))
        else:
            answer = isinstance(values.get(source), base)
            stored.append(StoredAnswer(source, places.of(base), answer, told))
    return stored


def difference(stored: Sequence[StoredAnswer], values: Values) -> str:
    """The first answer that differs here, for people; "" if there is none."""
    for answer in stored:
        if not answer.holds(values):
            return f"whether {answer.told} is {not answer.answer} here"
    return ""
