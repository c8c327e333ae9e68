"""Streams and events. Work on one stream runs in order; events order streams among each other."""

from __future__ import annotations

from typing import Any

import torch

from .. import native
from .placement import DeviceArgument, check_device


class Stream:
    """A queue of work. `priority` is kept for information only."""

    def __init__(self, device: DeviceArgument = None, priority: int = 0, **kwargs: Any) -> None:
        self.device_index = check_device(device)
        self.device = torch.device("hpu", self.device_index)
        self.priority = priority
        known = kwargs.get("stream_id")
        self.stream_id: int = (
            native.torch_module().create_stream(priority) if known is None else int(known)
        )

    def wait_event(self, event: Event) -> None:
        """Later work of this stream starts after the event."""
        native.torch_module().stream_wait_event(self.stream_id, event._event)

    def wait_stream(self, stream: Stream) -> None:
        """Later work of this stream starts after the work that is now queued on `stream`."""
        native.torch_module().stream_wait_stream(self.stream_id, stream.stream_id)

    def record_event(self, event: Event | None = None) -> Event:
        """Records the present end of the queue."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """True when nothing is pending."""
        return bool(native.torch_module().stream_query(self.stream_id))

    def synchronize(self) -> None:
        """Waits for the queued work."""
        native.torch_module().stream_synchronize(self.stream_id)

    def id(self) -> int:
        return self.stream_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.hpu.Stream device={self.device} id={self.stream_id}>"


class Event:
    """A point in a stream. An event that was never recorded counts as reached."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._event = native.torch_module().Event(enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        self._event.record((stream or current_stream()).stream_id)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work of the stream starts after this event."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        return bool(self._event.query())

    def synchronize(self) -> None:
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`; both must have been made with timing."""
        return float(self._event.elapsed_time(end_event._event))


def current_stream(device: DeviceArgument = None) -> Stream:
    check_device(device)
    return Stream(stream_id=native.torch_module().current_stream())


def default_stream(device: DeviceArgument = None) -> Stream:
    check_device(device)
    return Stream(stream_id=native.torch_module().default_stream())


def set_stream(stream: Stream | torch.Stream) -> None:
    """Makes it the current stream of this thread."""
    native.torch_module().set_stream(stream.stream_id)


def get_stream_info(stream: Stream) -> tuple[int, int, int]:
    """Returns (stream id, device index, device type number)."""
    return stream.stream_id, stream.device_index, int(native.torch_module().device_type_number())


class StreamContext:
    """Context manager: `stream` is the current stream inside the block; None changes nothing."""

    def __init__(self, stream: Stream | torch.Stream | None) -> None:
        self._stream = stream
        self._previous: list[Stream] = []

    def __enter__(self) -> Stream | torch.Stream | None:
        if self._stream is not None:
            self._previous.append(current_stream())
            set_stream(self._stream)
        return self._stream

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            set_stream(self._previous.pop())


def stream(stream: Stream | None) -> StreamContext:
    """Used as `with torch.hpu.stream(s): ...`."""
    return StreamContext(stream)


def record_stream(tensor: torch.Tensor, stream: Stream) -> None:
    """Keeps the tensor's memory from being used again before the stream's present work has
    ended."""
    native.torch_module().record_stream(tensor, stream.stream_id)


def join_tensor_record_stream() -> None:
    """Tensor.record_stream takes the streams of this module beside torch.Stream."""
    of_torch = torch.Tensor.record_stream

    def tensor_record_stream(self: torch.Tensor, s: Stream | torch.Stream) -> None:
        """Keeps the tensor's memory from being used again before the stream's present work has
        ended."""
        if isinstance(s, Stream):
            record_stream(self, s)
        else:
            of_torch(self, s)

    torch.Tensor.record_stream = tensor_record_stream  # type: ignore[assignment]
