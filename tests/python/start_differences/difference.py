"""The form of one difference, and how the modules beside this one register theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from start_setup import Setup


@dataclass(frozen=True)
class Difference:
    """moves: eager's answer changes too, so a stale start would give a wrong answer. hits: the
    difference does not affect the program, so its start is taken."""

    case: str
    when: str  # "before" the model is made, "after" it, or "around" the calls
    make: Callable[..., Any]
    moves: bool = True
    hits: bool = False
    environment: tuple[tuple[str, str], ...] = ()


DIFFERENCES: dict[str, Difference] = {}


def differs(case: str, when: str, **more: Any) -> Callable[[Callable[..., Any]], Any]:
    def register(make: Callable[..., Any]) -> Any:
        name = f"{case}: {make.__name__.strip('_').replace('_', ' ')}"
        assert name not in DIFFERENCES, name
        DIFFERENCES[name] = Difference(case, when, make, **more)
        return make

    return register


def set_attribute(
    case: str, name: str, owner: Any, attribute: str, value: Any, **more: Any
) -> None:
    """Changes an attribute of something that exists before the model."""
    full = f"{case}: {name}"
    assert full not in DIFFERENCES, full
    DIFFERENCES[full] = Difference(case, "before", lambda: setattr(owner, attribute, value), **more)


def set_of_model(
    case: str, name: str, find: Callable[[Any], Any], attribute: str, value: Any, **more: Any
) -> None:
    """Changes an attribute of the model, or of find(model)."""
    full = f"{case}: {name}"
    assert full not in DIFFERENCES, full

    def change(setup: Setup) -> None:
        setattr(find(setup.function), attribute, value)

    DIFFERENCES[full] = Difference(case, "after", change, **more)


def the_model(model: Any) -> Any:
    return model
