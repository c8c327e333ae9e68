"""The common part of the readers of data sets: their order of samples."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...media_types import lastBatchStrategy
from ...pipeline.operator import Operator
from ...pipeline.order import Order
from ...pipeline.run import EndOfEpoch

ORDER_ARGUMENTS: dict[str, Any] = {
    "shuffle": True,
    "seed": None,
    "drop_remainder": False,
    "pad_remainder": False,
    "num_slices": 1,
    "slice_index": 0,
    "last_batch_strategy": lastBatchStrategy.NONE,
}
_PADS = (lastBatchStrategy.PAD, lastBatchStrategy.PARTIAL)


class DatasetReader(Operator):
    """A reader whose data set is known when the pipeline is built. Its class finds the samples."""

    CHOICES: ClassVar[dict[str, tuple[Any, ...]]] = {
        "last_batch_strategy": tuple(range(lastBatchStrategy.PARTIAL + 1)),
    }
    INPUTS = (0, 0)
    READS = True

    def sample_count(self) -> int:
        raise NotImplementedError

    def across_slices(self) -> bool:
        return False

    def prepare(self, batch_size: int, queue_depth: int) -> None:
        given = self.arguments
        strategy = given.last_batch_strategy
        self._order = Order(
            count=self.sample_count(),
            batch_size=batch_size,
            shuffle=given.shuffle,
            seed=given.seed,
            drop_remainder=given.drop_remainder or strategy == lastBatchStrategy.DROP,
            pad_with_last=given.pad_remainder or strategy in _PADS,
            slices=given.num_slices,
            slice_index=given.slice_index,
            across_slices=self.across_slices(),
        )

    def begin_epoch(self, epoch: int) -> None:
        self._batches = self._order.epoch(epoch)

    def epoch_length(self) -> int:
        return len(self._order)

    def next_samples(self) -> tuple[np.ndarray, int]:
        """The numbers of a batch's samples, and how many of them are no padding."""
        found = next(self._batches, None)
        if found is None:
            raise EndOfEpoch
        return found
