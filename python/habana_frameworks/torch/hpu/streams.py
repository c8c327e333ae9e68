"""Streams and events. Work on one stream runs in order; events order streams among each other.

The classes are torch.Stream and torch.Event with hpu as their device, so that PyTorch and Dynamo
take them wherever they take those. While Dynamo traces, functions here call torch.accelerator's,
which it knows; a stream or event that a graph makes and returns is a torch.Stream or torch.Event.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from .. import native
from ..torch_compat.devices import DeviceType
from .placement import DeviceArgument, check_device


class Stream(torch.Stream):
    """A queue of work, new unless `stream_id` names one. `priority` has no effect."""

    def __new__(cls, device: DeviceArgument = None, priority: int = 0, **known: Any) -> Stream:
        index = check_device(device)
        if known.get("stream_id") is None:
            return super().__new__(cls, torch.device("hpu", index), priority=priority)
        number = int(known["stream_id"])
        kind = DeviceType.HPU.value
        return super().__new__(cls, stream_id=number, device_index=index, device_type=kind)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records the present end of the queue."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def id(self) -> int:
        return self.stream_id

    def __repr__(self) -> str:
        return f"<torch.hpu.Stream device={self.device} id={self.stream_id}>"


class Event(torch.Event):
    """A point in a stream. An event that was never recorded counts as reached."""

    def __new__(cls, enable_timing: bool = False, **kinds: bool) -> Event:
        return super().__new__(cls, "hpu", enable_timing=enable_timing, **kinds)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to `end_event`; both must have been made with timing.
        torch.Event's own method takes no event of a class derived from it."""
        return float(native.torch_module().event_elapsed_ms(self.event_id, end_event.event_id))


def current_stream(device: DeviceArgument = None) -> torch.Stream:
    check_device(device)
    if torch.compiler.is_compiling():
        return torch.accelerator.current_stream()
    return Stream(stream_id=native.torch_module().current_stream())


def default_stream(device: DeviceArgument = None) -> Stream:
    check_device(device)
    return Stream(stream_id=native.torch_module().default_stream())


def set_stream(stream: torch.Stream) -> None:
    """Makes it the current stream of this thread."""
    native.torch_module().set_stream(stream.stream_id)


def get_stream_info(stream: torch.Stream) -> tuple[int, int, int]:
    """Returns (stream id, device index, device type number)."""
    return stream.stream_id, stream.device_index, int(native.torch_module().device_type_number())


class StreamContext:
    """Context manager: `stream` is the current stream inside the block; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self._stream = stream
        self._previous: list[torch.Stream] = []

    def __enter__(self) -> torch.Stream | None:
        if self._stream is not None:
            self._previous.append(current_stream())
            set_stream(self._stream)
        return self._stream

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            set_stream(self._previous.pop())


def stream(stream: torch.Stream | None) -> AbstractContextManager[torch.Stream | None]:
    """Used as `with torch.hpu.stream(s): ...`."""
    if stream is not None and torch.compiler.is_compiling():
        return stream
    return StreamContext(stream)


def record_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Keeps the tensor's memory from being used again before the stream's present work has
    ended."""
    tensor.record_stream(stream)
