"""Pipelines as iterators of PyTorch's tensors, which take the place of a DataLoader.

Each begins an epoch of the pipeline with iter(), and has as many batches as len() says. Tensors
are on the device of the pipeline.
"""

from __future__ import annotations

from typing import Any

import torch

from ..mediapipe import MediaPipe


class _Proxy:
    """Finds the tensors of a batch by the addresses of its outputs."""

    def __init__(self, pipe: MediaPipe) -> None:
        self._pipe = pipe

    def get_tensor(self, address: int) -> torch.Tensor:
        return self._pipe.get_tensor(address)


class HPUGenericPytorchIterator:
    """A list with a tensor for each output."""

    def __init__(self, mediapipe: MediaPipe) -> None:
        self.pipe = mediapipe
        self.proxy_device = _Proxy(mediapipe)
        mediapipe.build()

    def __iter__(self) -> Any:
        self.pipe.iter_init()
        return self

    def __next__(self) -> Any:
        outputs = self.pipe.run()
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return [self.proxy_device.get_tensor(output.dev_addr) for output in outputs]

    def __len__(self) -> int:
        return self.pipe.getNumBatches()


class HPUResnetPytorchIterator(HPUGenericPytorchIterator):
    """Images, and labels as int64, which PyTorch's losses take."""

    def __next__(self) -> Any:
        images, labels = super().__next__()
        return [images, labels.long()]


class HPUSsdPytorchIterator(HPUGenericPytorchIterator):
    """Images, ids, (heights, widths), boxes and labels of the outputs of fn.CocoReader, without the
    padding of the last batch where the pipeline has the output `batch`."""

    def __next__(self) -> Any:
        images, ids, sizes, boxes, labels, _lengths, *batch = super().__next__()
        real = int(batch[0].cpu()[0]) if batch else len(ids)
        heights, widths = sizes[:real].unbind(1)
        return [images[:real], ids[:real], [heights, widths], boxes[:real], labels[:real]]


class HPUUnet3DPytorchIterator(HPUGenericPytorchIterator):
    """Volumes and their labels."""


# The reference chooses the device by the class; here the pipeline's device counts.
CPUHPUResnetPytorchIterator = HPUResnetPytorchIterator
CPUHPUUnet3DPytorchIterator = HPUUnet3DPytorchIterator
CPUUnet3DPytorchIterator = HPUUnet3DPytorchIterator
