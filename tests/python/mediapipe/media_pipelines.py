"""Media pipelines of tests."""

from __future__ import annotations

from typing import Any

import torch

from habana_frameworks.mediapipe.mediapipe import MediaPipe


class Pipeline(MediaPipe):
    """Keeps the folder of its files, and other things that a test needs in definegraph()."""

    def __init__(self, folder: Any = None, device: str = "cpu", **options: Any) -> None:
        self.folder = folder
        super().__init__(device=device, **options)


def drain(pipe: MediaPipe, epochs: int = 1) -> list[tuple[torch.Tensor, ...]]:
    """The tensors of all batches."""
    pipe.build()
    batches = []
    for _ in range(epochs):
        pipe.iter_init()
        while True:
            try:
                outputs = pipe.run()
            except StopIteration:
                break
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            batches.append(tuple(output.tensor for output in outputs))
    pipe.close()
    return batches
