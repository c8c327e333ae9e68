"""The calls of operators on hpu outside of graphs: which way they took, and the programs that were
made for them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ... import native

# Lines of the user's program that are kept for one operator, and that are listed.
_MOST_KEPT = 256
_MOST_LISTED = 4


@dataclass(frozen=True)
class OperatorCalls:
    """An operator whose calls ran as recipes, directly on device memory, or on the host as
    fallbacks (docs/eager.md); calls in recordings of lazy mode are recipes."""

    operator: str
    recipes: int = 0
    direct: int = 0
    fallbacks: int = 0
    # Programs that were made for its calls, the time for that, and the first lines that needed one.
    programs: int = 0
    program_ms: float = 0.0
    lines: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return self.recipes + self.direct + self.fallbacks

    def __str__(self) -> str:
        return (
            f"{self.operator}: {self.recipes} recipe, {self.direct} direct, {self.fallbacks} "
            f"fallback calls; {self.programs} programs"
            + (f" ({', '.join(self.lines)})" if self.lines else "")
        )


Counts = Mapping[str, OperatorCalls]

_lock = threading.Lock()
# Guarded by _lock. By operator: programs, milliseconds and lines.
_programs: dict[str, tuple[int, float, tuple[str, ...]]] = {}


def note_program(operator: str, line: str, ms: float) -> None:
    """A call in this line has become a program."""
    with _lock:
        count, total, lines = _programs.get(operator, (0, 0.0, ()))
        if line and line not in lines and len(lines) < _MOST_KEPT:
            lines = (*lines, line)
        _programs[operator] = (count + 1, total + ms, lines)


def counts() -> Counts:
    """By operator: its calls and programs so far."""
    calls = native.torch_module().op_counts()
    with _lock:
        programs = dict(_programs)
    return {
        name: OperatorCalls(
            name,
            **calls.get(name, {}),
            programs=made,
            program_ms=ms,
            lines=list(lines),
        )
        for name in {*calls, *programs}
        for made, ms, lines in [programs.get(name, (0, 0.0, ()))]
    }


def since(before: Counts) -> list[OperatorCalls]:
    """The calls after counts() gave `before`, the operators with the most calls first."""
    more = [_difference(now, before.get(name)) for name, now in counts().items()]
    called = [
        replace(operator, lines=operator.lines[:_MOST_LISTED])
        for operator in more
        if operator.calls or operator.programs
    ]
    return sorted(called, key=lambda operator: (-operator.calls, operator.operator))


def _difference(now: OperatorCalls, before: OperatorCalls | None) -> OperatorCalls:
    # Fewer calls than before: the counts were set to 0 in between.
    if before is None or now.calls < before.calls:
        return now
    return OperatorCalls(
        now.operator,
        now.recipes - before.recipes,
        now.direct - before.direct,
        now.fallbacks - before.fallbacks,
        now.programs - before.programs,
        now.program_ms - before.program_ms,
        [line for line in now.lines if line not in before.lines],
    )
