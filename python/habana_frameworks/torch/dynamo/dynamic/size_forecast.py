"""Forecasts which sizes of a dynamic graph are likely to come next."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import sympy

from .symbols import Sizes

# The number of met sizes that a forecast looks back at.
_HISTORY = 64


class SizeForecast:
    """Guesses, from the sizes that a graph has met in order, which sizes are worth making ahead.

    Sizes in arithmetical progression (generation, a growing batch) are continued. Otherwise the
    neighbours of the newest size are guessed, one step away in one symbol, where the step is the
    greatest common divisor of the differences seen. Not thread-safe.
    """

    def __init__(self, ahead: int) -> None:
        """ahead: how many sizes to forecast at once; 0 for no forecast."""
        self._ahead = ahead
        self._met: deque[Sizes] = deque(maxlen=_HISTORY)
        self._taken: set[tuple[tuple[str, int], ...]] = set()
        self._guessed: set[tuple[tuple[str, int], ...]] = set()
        self._queue: list[Sizes] = []
        self._made = 0
        self._used = 0
        # The number of sizes in a row in which one symbol was larger by one than in the size
        # before.
        self.growing = 0

    def met(self, sizes: Sizes) -> None:
        """Notes a size that came for the first time."""
        self._used += _key(sizes) in self._guessed
        step = self._difference(sizes)
        self.growing = self.growing + 1 if step and max(step.values()) == 1 else 0
        self._met.append(sizes)
        self._taken.add(_key(sizes))
        self._queue = self._candidates() if self._worthwhile() else []

    def pending(self, allowed: Callable[[Sizes], bool]) -> bool:
        """True if take() has a size."""
        self._queue = [s for s in self._queue if _key(s) not in self._taken and allowed(s)]
        return bool(self._queue)

    def take(self, allowed: Callable[[Sizes], bool]) -> Sizes | None:
        """The next size to make; each size is given once. allowed: whether a call may have it."""
        if not self.pending(allowed):
            return None
        sizes = self._queue.pop(0)
        self._taken.add(_key(sizes))
        self._guessed.add(_key(sizes))
        self._made += 1
        return sizes

    def _worthwhile(self) -> bool:
        """False once three of four forecasts were wrong."""
        return self._ahead > 0 and (self._made < 8 or 4 * self._used >= self._made)

    def _difference(self, sizes: Sizes) -> Sizes:
        """The symbols that differ from the newest size met, and by how much."""
        if not self._met:
            return {}
        last = self._met[-1]
        return {s: v - last[s] for s, v in sizes.items() if v != last[s]}

    def _candidates(self) -> list[Sizes]:
        newest = self._met[-1]
        if len(self._met) < 2:
            return []
        before = self._met[-2]
        step = {s: newest[s] - before[s] for s in newest}
        if len(self._met) > 2 and step == {s: before[s] - self._met[-3][s] for s in newest}:
            return [{s: newest[s] + step[s] * k for s in newest} for k in range(1, self._ahead + 1)]
        found = []
        for symbol in newest:
            unit = math.gcd(*(sizes[symbol] - newest[symbol] for sizes in self._met))
            if unit:
                found += [_moved(newest, symbol, unit), _moved(newest, symbol, -unit)]
        return found[: self._ahead]


def _moved(sizes: Sizes, symbol: sympy.Symbol, by: int) -> Sizes:
    return {**sizes, symbol: sizes[symbol] + by}


def _key(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple((str(symbol), value) for symbol, value in sizes.items())
