"""Random calls on views, temporaries and memory that is written in place give in lazy mode what
they give on the CPU.

All elements are small whole numbers, so that results are equal bit for bit. A program runs several
times with the same calls, but its tensors begin in memory of another kind: an empty tensor may have
memory already, a tensor may be a part of a larger one, and somebody else may hold it to the end. A
program that is found for such a recording though it was made for another one loses a write, or
reads and writes too much."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from lazy_case import lazy_mode, mark_step

_SIZES = ((4,), (4, 4), (2, 8))
_STEPS = 30
_PLAIN_RUNS, _VARIANTS = 2, 10


class _Program:
    """Calls on a few tensors, each of which is kept on the CPU and on hpu."""

    def __init__(self, seed: int, variant: int) -> None:
        self._choose = random.Random(seed)
        # The first two runs vary nothing: the second one finds the programs of the first. Each
        # other one varies a single tensor, so that all other recordings stay the same.
        self._until_varied = variant - _PLAIN_RUNS
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._held: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._calls: list[Callable[[], None]] = [
            self._made,
            self._empty,
            self._given,
            self._view,
            self._view,
            self._computed,
            self._computed,
            self._written,
            self._written,
            self._written,
            self._dropped,
            self._dropped,
            mark_step,
            self._read,
        ]

    def run(self) -> None:
        self._given()
        for _ in range(_STEPS):
            self._choose.choice(self._calls)()
        mark_step()
        while self._pairs or self._held:
            self._check(*(self._pairs or self._held).pop())

    def _pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._pairs:
            self._given()
        return self._choose.choice(self._pairs)

    def _keep(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        pair = self._pair()
        self._pairs.append((function(pair[0]), function(pair[1])))

    def _both(self, make: Callable[[str], torch.Tensor], held: bool = False) -> None:
        self._pairs.append((make("cpu"), make("hpu")))
        if held or self._varied():
            self._held.append(self._pairs[-1])

    def _made(self) -> None:
        sizes, value = self._choose.choice(_SIZES), self._choose.randrange(5)
        self._both(lambda device: torch.full(sizes, float(value), device=device))

    def _varied(self) -> bool:
        self._until_varied -= 1
        return self._until_varied == -1

    def _given(self) -> None:
        """A tensor with memory, which may be a part of a larger one."""
        sizes, start = self._choose.choice(_SIZES), self._choose.randrange(5)
        row = torch.arange(float(torch.Size(sizes).numel())) + start
        larger = self._varied()

        def make(device: str) -> torch.Tensor:
            whole = row.reshape(sizes).to(device)
            return torch.cat([whole, whole])[: sizes[0]] if larger else whole.clone()

        self._both(make)
        mark_step()

    def _empty(self) -> None:
        """An empty tensor that is filled as a whole, in parts, or partly twice. It may have memory
        already, or be a part of a larger one."""
        rows = self._choose.choice((4, 6))
        cuts = sorted(self._choose.sample(range(1, rows), 2))
        form = self._choose.randrange(3)
        has_memory, larger = self._varied(), self._varied()

        def make(device: str) -> torch.Tensor:
            made = torch.empty(2 * rows if larger else rows, 4, device=device)
            if has_memory:
                made.fill_(7)
            mark_step()
            made = made[:rows]
            if form == 0:
                return made.fill_(3)
            made[: cuts[1]] = 1
            made[cuts[form - 1] :] = 2
            return made

        self._both(make, held=has_memory)

    def _view(self) -> None:
        kind, seed = self._choose.randrange(5), self._choose.randrange(100)

        def view(x: torch.Tensor) -> torch.Tensor:
            if x.dim() == 0 or x.numel() < 2:
                return x
            dim = seed % x.dim()
            if kind == 0:
                return x.narrow(dim, seed % x.shape[dim], 1)
            if kind == 1:
                return x.transpose(0, -1)
            if kind == 2:
                return x[:: 1 + seed % 2]
            if kind == 3:
                return x.unsqueeze(0).squeeze(0)[: 1 + seed % x.shape[0]]
            return x.select(dim, seed % x.shape[dim])

        self._keep(view)

    def _computed(self) -> None:
        kind, number = self._choose.randrange(5), self._choose.randrange(3)
        other = self._pair()
        mine = self._pair()

        def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if kind == 0:
                return x + number
            if kind == 1:
                return x.clamp(-4, 4)
            if kind == 2:
                return torch.where(x > number, x, -x)
            if kind == 3 and x.shape == y.shape:
                return torch.maximum(x, y)
            return x.flip(0) if x.dim() else x - 1

        self._pairs.append((compute(mine[0], other[0]), compute(mine[1], other[1])))

    def _written(self) -> None:
        kind, number = self._choose.randrange(5), self._choose.randrange(4)
        source, target = self._pair(), self._pair()
        storages = {pair[0].untyped_storage().data_ptr() for pair in (source, target)}
        apart = len(storages) == 2

        def write(x: torch.Tensor, y: torch.Tensor) -> None:
            if kind == 0:
                x.add_(number)
            elif kind == 1:
                x.fill_(number)
            elif kind == 2:
                x.neg_()
            elif kind == 3 and x.shape == y.shape:
                x.copy_(y.clone())
            elif x.shape == y.shape and apart:
                torch.clamp(y, -3, 3, out=x)

        for x, y in zip(target, source, strict=True):
            write(x, y)

    def _dropped(self) -> None:
        if self._pairs:
            self._pairs.pop(self._choose.randrange(len(self._pairs)))

    def _read(self) -> None:
        self._check(*self._pair())

    def _check(self, on_cpu: torch.Tensor, on_hpu: torch.Tensor) -> None:
        assert torch.equal(on_hpu.cpu(), on_cpu)


def _run(seed: int) -> None:
    for variant in range(_PLAIN_RUNS + _VARIANTS):
        with lazy_mode():
            _Program(seed, variant).run()


@pytest.mark.parametrize("seed", range(30))
def test_some(seed):
    _run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_many(first):
    for seed in range(first, first + 100):
        try:
            _run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
