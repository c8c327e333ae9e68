"""How large the service's Llama is, and the grids of shapes that are compiled."""

from __future__ import annotations

from dataclasses import dataclass

from habana_frameworks.torch import warmup

Grid = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Size:
    """Each grid is (batch sizes, lengths): for texts, prompts and caches of running requests."""

    layers: int
    width: int
    texts: Grid
    prompts: Grid
    caches: Grid

    @property
    def shapes(self) -> int:
        grids = self.texts, self.prompts, self.caches
        return sum(len(rows) * len(lengths) for rows, lengths in grids)


SIZES = {
    "full": Size(
        layers=4,
        width=256,
        texts=([1, 4, 16], [16, 32, 64]),
        prompts=([1, 4], [16, 32, 64]),
        caches=([1, 2, 4, 8], [64, 128]),
    ),
    "reduced": Size(
        layers=4,
        width=256,
        texts=([4, 16], [32, 64]),
        prompts=([1, 4], [64]),
        caches=([2, 8], [64, 128]),
    ),
    "small": Size(
        layers=2,
        width=64,
        texts=([4], [32]),
        prompts=([2], [16]),
        caches=([2, 4], [32, 64]),
    ),
}


def buckets(grid: Grid) -> warmup.Buckets:
    return warmup.Buckets(batch=grid[0], sequence=grid[1])
