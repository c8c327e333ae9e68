"""MediaPipe, from which pipelines inherit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from habana_dataloader.copies import target_device

from .pipeline.executor import Executor
from .pipeline.operator import Output

_DEVICES = ("cpu", "hpu", "mixed", "legacy")


class MediaTensor:
    """One output of a batch. `tensor` is on the device of the pipeline; there, unsigned integers of
    more than 8 bits are signed ones of the same bits."""

    def __init__(self, tensor: torch.Tensor, dtype: torch.dtype) -> None:
        self.tensor = tensor
        self._dtype = dtype

    @property
    def dev_addr(self) -> int:
        """The address that the iterators' get_tensor takes."""
        return self.tensor.data_ptr()

    @property
    def shape(self) -> tuple[int, ...]:
        """In numpy's order."""
        return tuple(self.tensor.shape)

    def as_cpu(self) -> MediaTensor:
        return MediaTensor(self.tensor.cpu(), self._dtype)

    def as_nparray(self) -> np.ndarray:
        """A copy on the host. BFLOAT16 becomes float32, because numpy has no such type."""
        host = self.tensor.cpu().view(self._dtype)
        return (host.float() if host.dtype == torch.bfloat16 else host).numpy().copy()


class MediaPipe:
    """A pipeline. A class that inherits from it defines `definegraph`, which calls operators of
    habana_frameworks.mediapipe.fn and returns one output or several.

        pipe.build()
        pipe.iter_init()   # before each epoch
        outputs = pipe.run()   # StopIteration: the epoch is over

    `device` is "cpu" for batches on the host; with "hpu", "mixed" or "legacy", and with a number
    behind a colon, they are on hpu where there is one. `prefetch_depth` batches are made ahead, by
    threads whose number does not depend on `num_threads`. One thread may use a pipeline at a time.
    """

    def __init__(
        self,
        device: str | None = None,
        prefetch_depth: int = 2,
        batch_size: int = 1,
        num_threads: int | str = 1,
        pipe_name: str | None = None,
    ) -> None:
        kind = (device or "hpu").partition(":")[0]
        if kind not in _DEVICES:
            raise ValueError(f"device of a MediaPipe must be one of {_DEVICES} and is {device!r}")
        if batch_size < 1 or prefetch_depth < 1:
            raise ValueError(
                f"batch_size and prefetch_depth of a MediaPipe must be at least 1, and are "
                f"{batch_size} and {prefetch_depth}"
            )
        # Programs set attributes like `device` and `batch_size` themselves.
        self._media_device = kind
        self._media_depth = prefetch_depth
        self._media_batch_size = batch_size
        # Older programs pass the name in the fourth place.
        named = num_threads if isinstance(num_threads, str) else pipe_name
        self._media_name = named or type(self).__name__
        self._media_executor: Executor | None = None
        self._media_outputs: list[MediaTensor] = []

    def definegraph(self) -> Output | Sequence[Output]:
        raise NotImplementedError(f"{type(self).__name__} must define definegraph()")

    def build(self) -> None:
        """Makes the graph. A second call does nothing."""
        if self._media_executor is not None:
            return
        defined = self.definegraph()
        self._media_single = isinstance(defined, Output)
        outputs = [defined] if isinstance(defined, Output) else list(defined)
        for position, output in enumerate(outputs):
            if not isinstance(output, Output):
                raise TypeError(
                    f"definegraph() of {self._media_name} must return outputs of operators, and "
                    f"number {position} is a {type(output).__name__}"
                )
        device = torch.device("cpu") if self._media_device == "cpu" else target_device()
        self._media_executor = Executor(outputs, self._media_batch_size, self._media_depth, device)

    def iter_init(self) -> None:
        """Begins an epoch, of the readers too; what is left of the one before is dropped."""
        self._media_built().begin_epoch()

    def run(self) -> Any:
        """The outputs of the next batch: a MediaTensor, or a tuple of as many as definegraph()
        returned. StopIteration: the epoch is over. A batch that failed raises its error, and the
        next call goes on with the next batch."""
        batch = self._media_built().next_batch()
        self._media_outputs = [MediaTensor(tensor, dtype) for tensor, dtype in batch]
        return self._media_outputs[0] if self._media_single else tuple(self._media_outputs)

    def getBatchSize(self) -> int:
        return self._media_batch_size

    def getNumBatches(self) -> int:
        """Batches of an epoch."""
        return self._media_built().epoch_length()

    def get_tensor(self, address: int) -> torch.Tensor:
        """The tensor of the output of the latest run() that has this dev_addr."""
        for output in self._media_outputs:
            if output.dev_addr == address:
                return output.tensor
        raise KeyError(f"the latest batch of {self._media_name} has no output at {address:#x}")

    def close(self) -> None:
        """Ends the threads. The pipeline cannot be used any more."""
        executor = getattr(self, "_media_executor", None)
        if executor is not None:
            executor.close()

    def __del__(self) -> None:
        self.close()

    def _media_built(self) -> Executor:
        if self._media_executor is None:
            raise RuntimeError(f"call build() of {self._media_name} first")
        return self._media_executor
