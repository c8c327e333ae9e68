"""Assigns samples to batches: slices for several devices, shuffling, and the last batch."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass
class Order:
    """Each of `slices` devices has as many samples of `count`. With `shuffle` they are dealt out at
    random once, by the seed alone, and each epoch has an order of its own. Samples that would be
    left over are dropped, or the first ones are dealt out again."""

    count: int
    batch_size: int
    shuffle: bool
    seed: int | None
    drop_remainder: bool
    pad_with_last: bool  # otherwise a batch is filled with samples drawn at random
    slices: int = 1
    slice_index: int = 0
    across_slices: bool = False  # whether each epoch deals out anew

    def __post_init__(self) -> None:
        if not 0 <= self.slice_index < self.slices:
            raise ValueError(
                f"slice_index must be at least 0 and less than num_slices, and they are "
                f"{self.slice_index} and {self.slices}"
            )
        if self.count == 0:
            raise ValueError("the data set has no files that fit; check its folder and its format")
        self._seed = secrets.randbits(31) if self.seed is None else self.seed
        whole = self.count // self.slices
        self.each = whole if self.drop_remainder else -(-self.count // self.slices)
        if len(self) == 0:
            raise ValueError(
                f"a slice of the data set has {self.each} samples, which do not fill a batch of "
                f"{self.batch_size}, and drop_remainder is True"
            )

    def __len__(self) -> int:
        """Batches of an epoch."""
        full, rest = divmod(self.each, self.batch_size)
        return full + (rest > 0 and not self.drop_remainder)

    def _slice(self, epoch: int) -> np.ndarray:
        samples = np.arange(self.count)
        if self.shuffle:
            dealt = [self._seed, epoch] if self.across_slices else [self._seed]
            samples = np.random.default_rng(dealt).permutation(self.count)
        begin = self.slice_index * self.each
        return np.resize(samples, self.slices * self.each)[begin : begin + self.each]

    def epoch(self, epoch: int) -> Iterator[tuple[np.ndarray, int]]:
        """For each batch the numbers of its samples, and how many of them are no padding."""
        draw = np.random.default_rng([self._seed, epoch, self.slice_index])
        samples = self._slice(epoch)
        if self.shuffle:
            samples = draw.permutation(samples)
        for begin in range(0, len(self) * self.batch_size, self.batch_size):
            batch = samples[begin : begin + self.batch_size]
            real = len(batch)
            missing = self.batch_size - real
            filler = batch[-1:].repeat(missing)
            if missing and not self.pad_with_last:
                filler = draw.choice(samples, missing)
            yield np.concatenate([batch, filler]), real
