"""Captures: operators are recorded once, and replayed as one program with the same memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ... import native
from ..storages import give_memory_to_what_python_touches
from ..streams import Stream, StreamContext


def is_current_stream_capturing() -> bool:
    """Whether a graph is captured on the current stream of this thread."""
    return bool(native.torch_module().is_capturing())


_pools = itertools.count(1)


def graph_pool_handle() -> tuple[int, int]:
    """A name for the memory of graphs. All graphs share the device's memory whatever their pools
    are: a graph keeps what its tensors need, and what a replay needs in between goes back."""
    return 0, next(_pools)


class HPUGraph:
    """A sequence of operators on hpu that is run again by `replay`.

    Between capture_begin and capture_end the operators of the current stream are recorded, on
    whatever thread they are called; capture_end runs them for the first time. Tensors that existed
    before are read and written in their place at each run. Tensors that are made in between get
    memory that belongs to the graph; each run overwrites it. Random numbers go on from run to run.
    An operator that cannot be recorded, and everything that needs an element on the host (item(), a
    copy to the CPU, a wait for the stream), raises a RuntimeError that names it, and capture_end
    raises it again.
    """

    def __init__(self) -> None:
        self._graph: Any = None
        self._capture = 0  # the number of the capture that has begun; 0 for none
        self._dry_run = False
        self._pool = graph_pool_handle()
        self._inputs: list[torch.Tensor] = []
        self._outputs: list[torch.Tensor] = []

    def capture_begin(self, dry_run: bool = False, pool: Any = None) -> None:
        """Starts the capture on the current stream.

        dry_run: capture_end does not run it. pool: what pool() returns then; it changes nothing
        (graph_pool_handle says why).
        """
        if self._graph is not None:
            raise RuntimeError("this HPUGraph has a capture; reset() drops it")
        give_memory_to_what_python_touches()
        self._dry_run = dry_run
        self._pool = pool or self._pool
        self._capture = native.torch_module().begin_capture()

    def capture_end(self) -> None:
        """Ends the capture, compiles it and runs it, unless it is a dry run: then the tensors that
        it makes have no elements before the first replay."""
        device = native.torch_module()
        self._graph = device.end_capture(self._capture)
        self._capture = 0
        if not self._dry_run:
            # Scripts capture on a stream of its own and order it with no other one.
            device.synchronize()
            self.replay()
            device.synchronize()

    def pool(self) -> Any:
        """The name of the graph's memory."""
        return self._pool

    def replay(self, asynchronous: bool = False) -> None:
        """Runs the captured operators on the current stream. It does not wait for the device, with
        `asynchronous` or without."""
        self._captured().replay()

    def replayV2(
        self,
        static_tlist: Sequence[torch.Tensor],
        tlist: Sequence[torch.Tensor],
        asynchronous: bool = False,
    ) -> None:
        """Copies each tensor of `tlist` to the one of `static_tlist`, which the capture read, and
        replays."""
        for static, new in zip(static_tlist, tlist, strict=True):
            static.copy_(new, non_blocking=True)
        self.replay(asynchronous)

    def replayV3(self, tlistI: Sequence[torch.Tensor], asynchronous: bool = False) -> None:
        """replayV2 with the tensors of mark_user_inputs."""
        self.replayV2(self._inputs, tlistI, asynchronous)

    def mark_user_inputs(self, static_tlist: Sequence[torch.Tensor]) -> None:
        """Names the tensors that replayV3 fills."""
        self._inputs = list(static_tlist)

    def mark_user_outputs(self, static_tlist: Sequence[torch.Tensor]) -> None:
        """Keeps the tensors as long as the graph."""
        self._outputs = list(static_tlist)

    def get_user_input_match_indices(self) -> list[int]:
        """The places of the user inputs that replays fill: all of them."""
        return list(range(len(self._inputs)))

    def clear_inputs(self) -> None:
        """Forgets the tensors of mark_user_inputs. The graph keeps the memory that it reads."""
        self._inputs = []

    def reset(self) -> None:
        """Drops the capture and its memory; one that has not ended is given up."""
        if self._capture:
            native.torch_module().abandon_capture(self._capture)
        self._graph, self._capture = None, 0
        self._inputs, self._outputs = [], []

    destroy = reset

    def __del__(self) -> None:
        if self._capture:
            native.torch_module().abandon_capture(self._capture)

    def debug_dump(self, debug_path: str | Path) -> None:
        """Writes the program of the capture to a file, as text."""
        Path(debug_path).write_text(self._captured().text())

    def _captured(self) -> Any:
        if self._graph is None:
            raise RuntimeError(
                "this HPUGraph has no capture: capture_begin() and capture_end() make it"
            )
        return self._graph


class graph:
    """Used as `with torch.hpu.graph(hpu_graph): ...`: captures the operators of the block.

    stream: the stream on which the block runs; the current one by default. dry_run, pool: those of
    capture_begin. If the block raises an exception, the capture is given up, and the device is as
    before.
    """

    def __init__(
        self,
        hpu_graph: HPUGraph,
        stream: Stream | None = None,
        dry_run: bool = False,
        pool: Any = None,
    ) -> None:
        self._graph = hpu_graph
        self._stream = StreamContext(stream)
        self._dry_run = dry_run
        self._pool = pool

    def __enter__(self) -> HPUGraph:
        self._stream.__enter__()
        try:
            self._graph.capture_begin(self._dry_run, self._pool)
        except BaseException:
            self._stream.__exit__()
            raise
        return self._graph

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._graph.capture_end()
            else:
                self._graph.reset()
        finally:
            self._stream.__exit__()
