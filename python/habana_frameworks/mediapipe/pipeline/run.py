"""The context in which operators run for one batch, and the values that flow between them: tensors
of the host, files that are being read, images that are not yet decoded, and views of arrays."""

from __future__ import annotations

import copy
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch

from habana_dataloader import _native
from habana_dataloader.geometry import Frame

Step = _native.Files | _native.Batch
_Result = TypeVar("_Result")
Waits = Generator[Step, None, _Result]


class EndOfEpoch(Exception):
    """A reader has no further batch."""


def torch_dtype(name: str) -> torch.dtype:
    found = getattr(torch, np.dtype(name).name if name != "bfloat16" else name)
    assert isinstance(found, torch.dtype)
    return found


@dataclass
class Run:
    """One batch on its way through the graph."""

    loader: _native.Loader
    batch_size: int
    number: int  # of the batch, counted over all epochs
    pinned: bool

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, pin_memory=self.pinned)

    def generator(self, seed: int) -> np.random.Generator:
        """Random numbers of an operator for this batch."""
        return np.random.default_rng([seed, self.number])

    def copy(
        self,
        arrays: Sequence[np.ndarray],
        dtype: torch.dtype,
        table: torch.Tensor | None = None,
    ) -> Waits[torch.Tensor]:
        """The arrays, which have one shape and any strides, as one tensor; with a table of
        [channels, 256] elements bytes are looked up by their position in the first axis."""
        result = self.empty((len(arrays), *arrays[0].shape), dtype)
        data = b"" if table is None else table.contiguous().view(torch.uint8).numpy().tobytes()
        yield from _written(self.loader.copy(list(arrays), result.data_ptr(), data))
        return result


def _written(batch: _native.Batch) -> Waits[None]:
    """Waits for a batch. Where the pipeline does not wait any more, nothing is written after this
    generator was closed, which happens before the tensor goes away."""
    try:
        yield batch
        problem = batch.wait()
    finally:
        batch.cancel()
    if problem is not None:
        raise OSError(
            f"an image of the data set cannot be loaded: {problem}. Remove it from the data set, "
            "or replace it."
        )


@dataclass
class ImageFiles:
    """The files of a batch, of which `files` are being read."""

    paths: list[str]
    files: _native.Files
    contents: list[np.ndarray] | None = None  # of files that are in memory
    taken: bool = False

    def take(self, run: Run) -> ImageFiles:
        """For a decoder. Their memory is used again when they have been decoded, so another decoder
        has them read again."""
        if self.taken:
            return read_images(run, self.paths, self.contents).take(run)
        self.taken = True
        return self

    def sizes(self) -> Waits[list[tuple[int, int]]]:
        """(width, height) of each image, when its header has been read."""
        yield self.files
        sizes = []
        for i, size in enumerate(self.files.sizes()):
            if size is None:
                raise OSError(
                    f"an image of the data set cannot be loaded: {self.paths[i]}: "
                    f"{self.files.error(i)}. Remove it from the data set, or replace it."
                )
            sizes.append(size)
        return sizes


def read_images(run: Run, paths: list[str], contents: list[np.ndarray] | None = None) -> ImageFiles:
    """Begins to read, unless the contents of the files are given; a batch that is not full repeats
    its last file."""
    missing = run.batch_size - len(paths)
    paths = paths + paths[-1:] * missing
    names = [os.fsencode(path) for path in paths]
    if contents is None:
        return ImageFiles(paths, run.loader.read(names))
    contents = contents + contents[-1:] * missing
    return ImageFiles(paths, run.loader.take(names, contents), contents)


@dataclass
class Images:
    """Images of which is known what becomes of them, and which are not yet decoded. An operator
    changes a copy."""

    files: ImageFiles
    frames: list[Frame]
    filter: str
    interleaved: bool
    bgr: bool = False
    # [3, 256]: the elements that the values of each channel become.
    table: torch.Tensor = field(
        default_factory=lambda: torch.arange(256, dtype=torch.uint8).repeat(3, 1)
    )

    def copy(self) -> Images:
        return copy.copy(self)._with_frames()

    def _with_frames(self) -> Images:
        self.frames = [copy.deepcopy(frame) for frame in self.frames]
        return self

    def size(self) -> tuple[int, int]:
        """(width, height) of every image."""
        frame = self.frames[0]
        for other, path in zip(self.frames, self.files.paths, strict=True):
            if (other.width, other.height) != (frame.width, frame.height):
                raise ValueError(
                    f"images of a batch must have one size: {self.files.paths[0]} has "
                    f"{frame.width} x {frame.height}, {path} has {other.width} x {other.height}; "
                    "give fn.ImageDecoder the argument resize"
                )
        return frame.width, frame.height

    def result(self, run: Run) -> Waits[torch.Tensor]:
        width, height = self.size()
        count = len(self.frames)
        shape = (count, height, width, 3) if self.interleaved else (count, 3, height, width)
        result = run.empty(shape, self.table.dtype)
        decoding = run.loader.decode(
            self.files.files,
            [frame.plan() for frame in self.frames],
            result.data_ptr(),
            width,
            height,
            self.table.contiguous().view(torch.uint8).numpy().tobytes(),
            interleaved=self.interleaved,
            bgr=self.bgr,
            filter=self.filter,
        )
        yield from _written(decoding)
        return result


@dataclass
class Views:
    """An array for each sample, with any strides, which are not yet copied. Shapes may differ until
    then."""

    arrays: list[np.ndarray]

    def result(self, run: Run) -> Waits[torch.Tensor]:
        first = self.arrays[0]
        for number, array in enumerate(self.arrays):
            if array.shape != first.shape:
                raise ValueError(
                    f"arrays of a batch must have one shape: sample 0 has {first.shape}, sample "
                    f"{number} has {array.shape}; crop them to one"
                )
        return (yield from run.copy(self.arrays, torch_dtype(first.dtype.name)))


Value = torch.Tensor | ImageFiles | Images | Views
