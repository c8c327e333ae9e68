"""Copies of batches to hpu that run beside the program."""

from __future__ import annotations

import functools
import os
from collections import deque

import torch


def target_device() -> torch.device:
    """hpu, where there is one."""
    named = os.environ.get("HPU_DATA_LOADER_DEVICE", "hpu")
    if named not in ("cpu", "hpu"):
        raise ValueError(f"HPU_DATA_LOADER_DEVICE must be hpu or cpu, and is {named!r}")
    current = torch.accelerator.current_accelerator(check_available=True)
    there = current is not None and current.type == "hpu"
    return torch.device("hpu" if named == "hpu" and there else "cpu")


@functools.cache
def _stream() -> torch.Stream:
    """One for all loaders, because the device has threads for each stream that was ever made."""
    return torch.Stream("hpu")


class Copies:
    """Copies tensors on a stream of its own. Those for the host stay as they are."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = _stream() if self._device.type == "hpu" else None
        # The tensors that the device may still read, and an event after their copies.
        self._sources: deque[tuple[torch.Event, list[torch.Tensor]]] = deque()

    def start(self, tensors: list[torch.Tensor]) -> Copy:
        if self._stream is None:
            return Copy(tensors, None)
        while self._sources and self._sources[0][0].query():
            self._sources.popleft()
        with self._stream:
            copied = [tensor.to(self._device, non_blocking=True) for tensor in tensors]
        done = torch.Event("hpu")
        done.record(self._stream)
        self._sources.append((done, tensors))
        return Copy(copied, done)

    def finish(self) -> None:
        """Waits until the device reads no source any more."""
        for done, _ in self._sources:
            done.synchronize()
        self._sources.clear()


class Copy:
    def __init__(self, tensors: list[torch.Tensor], done: torch.Event | None) -> None:
        self._tensors = tensors
        self._done = done

    def hand_out(self) -> list[torch.Tensor]:
        """The tensors, for work on the current stream, which waits for the copy."""
        if self._done is not None:
            current = torch.accelerator.current_stream()
            current.wait_event(self._done)
            for tensor in self._tensors:
                tensor.record_stream(current)
        return self._tensors
