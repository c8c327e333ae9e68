"""The iteration of HabanaDataLoader: indices, random numbers and targets in Python, everything else
in `_native`.

All of it happens in next(). A batch passes through three queues: its indices have been taken from
the sampler, its files are being read, its images are being decoded. Then it is copied to hpu, one
batch ahead of the caller.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import _native
from .conditions import MEAN, STD
from .copies import Copies, Copy, target_device
from .geometry import Draws, Frame, Plan, Step

WORKERS = 8
# As many as the native loader takes ahead: each of 8 workers has 2 batches to do.
_INDICES_AHEAD = 2 * WORKERS
_DECODED_AHEAD = 3
_READ_AHEAD = 3


def value_table(normalized: bool) -> torch.Tensor:
    """[3, 256]: what ToTensor and Normalize make of each value of each channel."""
    table = torch.arange(256, dtype=torch.uint8).to(torch.float32).div(255).repeat(3, 1)
    if normalized:
        table = table.sub(torch.tensor(MEAN)[:, None]).div(torch.tensor(STD)[:, None])
    return table


def _pillow_version() -> int:
    import PIL  # comes with torchvision

    return int(PIL.__version__.split(".")[0])


def _common_size(plans: list[Plan], samples: list[tuple[str, int]]) -> tuple[int, int]:
    sizes = [stages[-1][-2:] for _, stages in plans]
    for size, (path, _) in zip(sizes, samples, strict=True):
        if size != sizes[0]:
            raise RuntimeError(
                f"images of a batch must have one size after the transforms: {samples[0][0]} has "
                f"{sizes[0]}, {path} has {size} (width, height)"
            )
    return sizes[0]


@dataclass
class _Reading:
    number: int
    samples: list[tuple[str, int]]
    files: _native.Files


@dataclass
class _Decoding:
    """`batch` writes into `images`, so it stands, and goes away, before `images`."""

    batch: _native.Batch
    images: torch.Tensor
    targets: torch.Tensor

    def ready(self) -> bool:
        return self.batch.done() and self.batch.wait() is None

    def result(self) -> list[torch.Tensor]:
        problem = self.batch.wait()
        if problem is not None:
            raise OSError(
                f"an image of the data set cannot be loaded: {problem}. Remove it from the data "
                "set, or replace it."
            )
        return [self.images, self.targets]


@dataclass
class _Failed:
    """A batch that cannot be decoded. The error is for the call that asks for this batch."""

    error: Exception

    def ready(self) -> bool:
        return False

    def result(self) -> list[torch.Tensor]:
        raise self.error


def _end(loader: _native.Loader, copies: Copies, process: int) -> None:
    """Afterwards nobody reads or writes the host's tensors. A forked child has neither the threads
    nor the device."""
    loader.close()
    if os.getpid() == process:
        copies.finish()


class BatchIterator(Iterator[Any]):
    def __init__(self, loader: Any, steps: Sequence[Step], normalized: bool) -> None:
        self._dataset = loader.dataset
        self._steps = steps
        self._indices = iter(loader.batch_sampler)
        # Drawn at this moment and in this way, so that the rest of the program draws what it would
        # draw beside the native loader.
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        self._draws = [Draws(seed + worker) for worker in range(WORKERS)]
        self._loader = _native.Loader(
            WORKERS,
            min(WORKERS, len(os.sched_getaffinity(0))),
            scaled=os.environ.get("HPU_DATA_LOADER_SCALED", "1") != "0",
            tall_first=_pillow_version() >= 13,
        )
        self._table = value_table(normalized).numpy().tobytes()
        self._pinned = torch.accelerator.is_available()
        self._copies = Copies(target_device())
        self._process = os.getpid()
        self._end = weakref.finalize(self, _end, self._loader, self._copies, self._process)
        self._taken: deque[list[int]] = deque()
        self._reading: deque[_Reading] = deque()
        self._decoding: deque[_Decoding | _Failed] = deque()
        self._next: Copy | None = None
        self._number = 0
        for _ in range(_INDICES_AHEAD):
            self._take_indices()

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> list[torch.Tensor]:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this iterator of HabanaDataLoader belongs to another process; make one with "
                "iter(loader) in each process"
            )
        self._advance(wait=self._next is None and not self._decoding)
        if self._next is None and not self._decoding:
            self._end()
            raise StopIteration
        try:
            batch = self._next or self._copy()
        finally:
            self._take_indices()
        self._advance(wait=False)
        self._next = self._copy() if self._decoding and self._decoding[0].ready() else None
        return batch.hand_out()

    def _take_indices(self) -> None:
        indices = next(self._indices, None)
        if indices is not None:
            self._taken.append(list(indices))

    def _advance(self, wait: bool) -> None:
        """Starts what the queues have room for; waits for files only if the caller needs them."""
        self._read()
        while self._reading and len(self._decoding) < _DECODED_AHEAD:
            if not wait and not self._reading[0].files.done():
                break
            wait = False
            self._decoding.append(self._decode(self._reading.popleft()))
            self._read()

    def _read(self) -> None:
        while self._taken and len(self._reading) < _READ_AHEAD:
            samples = [self._dataset.samples[index] for index in self._taken.popleft()]
            files = self._loader.read([os.fsencode(path) for path, _ in samples])
            self._reading.append(_Reading(self._number, samples, files))
            self._number += 1

    def _decode(self, reading: _Reading) -> _Decoding | _Failed:
        try:
            plans = self._plans(reading)
            width, height = _common_size(plans, reading.samples)
        except Exception as error:
            return _Failed(error)
        images = torch.empty(len(plans), 3, height, width, pin_memory=self._pinned)
        targets = torch.tensor([target for _, target in reading.samples], pin_memory=self._pinned)
        batch = self._loader.decode(
            reading.files, plans, images.data_ptr(), width, height, self._table
        )
        return _Decoding(batch, images, targets)

    def _plans(self, reading: _Reading) -> list[Plan]:
        draws = self._draws[reading.number % WORKERS]
        plans = []
        sizes = reading.files.sizes()
        for i, (path, _) in enumerate(reading.samples):
            size = sizes[i] or self._load_with_pillow(reading.files, i, path)
            frame = Frame(*size)
            for step in self._steps:
                step(frame, draws)
            plans.append(frame.plan())
        return plans

    def _load_with_pillow(self, files: _native.Files, index: int, path: str) -> tuple[int, int]:
        """A file that is no JPEG in spite of its name, or one that is damaged."""
        try:
            image = self._dataset.loader(path)
        except Exception as error:
            raise OSError(
                f"the image {path} cannot be loaded: {files.error(index)} (Pillow: {error}). "
                "Remove it from the data set, or replace it."
            ) from error
        width, height = image.size
        files.set_pixels(index, image.tobytes(), width, height)
        return width, height

    def _copy(self) -> Copy:
        """Begins to copy the oldest batch, when it has been decoded."""
        return self._copies.start(self._decoding.popleft().result())
