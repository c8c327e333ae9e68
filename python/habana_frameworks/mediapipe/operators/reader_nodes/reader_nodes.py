"""The classes of readers that users write, and the operator that calls them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...media_types import dtype, readerOutType
from ...pipeline.operator import REQUIRED, Operator
from ...pipeline.run import EndOfEpoch, ImageFiles, Run, read_images
from ..cpu_nodes.constants import as_tensor


@dataclass
class FrameworkParams:
    """The parameters of its pipeline that a reader gets."""

    batch_size: int
    queue_depth: int


class media_ext_reader_op_tensor_info:
    """Element type and shape of one output of a reader; the fastest axis stands first."""

    def __init__(self, dtype: str, shape: Any, layout: str = "") -> None:
        self.dtype = dtype
        self.shape = shape
        self.layout = layout


class media_ext_reader_op_impl(ABC):
    """A reader that a user writes. Its `__next__` gives for each batch an array for each output;
    that of an output of dtype.NDT is a list of the paths of JPEG files, or of their bytes as
    arrays of uint8."""

    @abstractmethod
    def __init__(self, params: dict[str, Any], fw_params: FrameworkParams) -> None:
        """`params` has priv_params and seed."""

    @abstractmethod
    def __iter__(self) -> Any:
        """Begins an epoch."""

    @abstractmethod
    def __next__(self) -> Any:
        """The outputs for the next batch; StopIteration ends the epoch."""

    @abstractmethod
    def __len__(self) -> int:
        """Batches of an epoch."""

    @abstractmethod
    def gen_output_info(self) -> list[media_ext_reader_op_tensor_info]:
        """For each output its element type and shape."""

    @abstractmethod
    def get_largest_file(self) -> Any:
        """The path of the largest file. Nothing here depends on it."""

    @abstractmethod
    def get_media_output_type(self) -> int:
        """readerOutType.FILE_LIST or BUFFER_LIST."""


class MediaExtReaderOp(Operator):
    ARGUMENTS = {"impl": REQUIRED, "num_outputs": REQUIRED, "seed": None, "priv_params": None}
    INPUTS = (0, 0)
    READS = True

    def output_count(self) -> int:
        return int(self.arguments.num_outputs)

    def prepare(self, batch_size: int, queue_depth: int) -> None:
        given = self.arguments
        params = {"priv_params": given.priv_params, "seed": given.seed}
        self._reader = given.impl(params, FrameworkParams(batch_size, queue_depth))
        self._kind = self._reader.get_media_output_type()
        if self._kind not in (readerOutType.FILE_LIST, readerOutType.BUFFER_LIST):
            raise NotImplementedError(
                f"{self.title} is built for readers whose get_media_output_type() is "
                f"readerOutType.FILE_LIST or BUFFER_LIST, and {given.impl.__name__} has another one"
            )
        self._infos = self._reader.gen_output_info()
        if len(self._infos) != given.num_outputs:
            raise ValueError(
                f"gen_output_info() of {given.impl.__name__} describes {len(self._infos)} outputs, "
                f"and num_outputs of {self.title} is {given.num_outputs}"
            )

    def begin_epoch(self, epoch: int) -> None:
        self._iterator = iter(self._reader)
        self._ended = False

    def epoch_length(self) -> int:
        return len(self._reader)

    def compute(self, run: Run) -> tuple[ImageFiles | torch.Tensor, ...]:
        if self._ended:
            raise EndOfEpoch
        try:
            results = next(self._iterator)
        except StopIteration:
            self._ended = True
            raise EndOfEpoch from None
        if len(self._infos) == 1:
            results = results if isinstance(results, tuple) else (results,)
        pairs = zip(results, self._infos, strict=True)
        return tuple(self._value(run, result, info) for result, info in pairs)

    def _value(
        self, run: Run, result: Any, info: media_ext_reader_op_tensor_info
    ) -> ImageFiles | torch.Tensor:
        if info.dtype == dtype.NDT and self._kind == readerOutType.BUFFER_LIST:
            contents = [np.ascontiguousarray(content, dtype=np.uint8) for content in result]
            names = [f"image {i} of batch {run.number}" for i in range(len(contents))]
            return read_images(run, names, contents)
        if info.dtype == dtype.NDT:
            return read_images(run, [str(path) for path in result])
        shape = tuple(int(size) for size in np.asarray(info.shape)[::-1])
        name = f"an output of {type(self._reader).__name__}"
        return as_tensor(name, result, shape, info.dtype)
