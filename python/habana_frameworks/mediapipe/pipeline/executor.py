"""The execution of a graph: several batches at once, by one thread of Python, which only starts
what threads of C++ do (decision 0047).

A batch is a generator that yields what it waits for. Calls of one operator begin in the order of
batches, so that readers and random numbers are the same in each run; what they wait for may end in
any order.
"""

from __future__ import annotations

import math
import os
import weakref
from collections import Counter, deque
from collections.abc import Generator, Sequence

import torch

from habana_dataloader import _native
from habana_dataloader.copies import Copies, Copy

from .operator import Call, Output
from .run import EndOfEpoch, ImageFiles, Images, Run, Step, Value, Views, Waits

# Types that tensors of hpu do not have, and those that they have with the same bits.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
Tensors = list[tuple[torch.Tensor, torch.dtype]]

_READERS = 8
_MOST_DECODERS = 8


class _Batch:
    """A batch on its way. `begun` says how many calls have begun."""

    def __init__(self, work: Generator[Step | int, None, list[torch.Tensor]]) -> None:
        self._work = work
        self._wanted: Step | int | None = None
        self.begun: float = 0
        self.outputs: list[torch.Tensor] | None = None
        self.error: Exception | None = None

    @property
    def finished(self) -> bool:
        return self.outputs is not None or self.error is not None

    def advance(self, may_begin: float, wait: bool) -> None:
        """Goes on until a step is not done (unless it may wait), or the call `may_begin` would
        begin, or the end."""
        while not self.finished:
            if isinstance(self._wanted, int):
                if self._wanted >= may_begin:
                    return
                self.begun = self._wanted + 1
            elif self._wanted is not None and not self._wanted.done():
                if not wait:
                    return
                _wait_for(self._wanted)
            try:
                self._wanted = next(self._work)
            except StopIteration as end:
                self.outputs = end.value
            except Exception as error:
                self.error = error
        self.begun = math.inf


def _wait_for(step: Step) -> None:
    if isinstance(step, _native.Files):
        step.sizes()
    else:
        step.wait()


def calls_of(outputs: Sequence[Output]) -> list[Call]:
    """Those that the outputs need, readers first, each after its inputs."""
    found: dict[int, Call] = {}
    waiting = [output.call for output in outputs]
    while waiting:
        call = waiting.pop()
        if call.number not in found:
            found[call.number] = call
            waiting += [value.call for value in call.inputs]
    return sorted(found.values(), key=lambda call: (not call.operator.READS, call.number))


def _end(loader: _native.Loader, copies: Copies, process: int) -> None:
    loader.close()
    if os.getpid() == process:
        copies.finish()


class Executor:
    """Runs a graph. `device` is that of the outputs; `depth` batches are made ahead."""

    def __init__(
        self, outputs: Sequence[Output], batch_size: int, depth: int, device: torch.device
    ) -> None:
        self._outputs = outputs
        self._calls = calls_of(outputs)
        self._consumers = Counter(
            id(value) for call in self._calls for value in call.inputs
        ) + Counter(id(value) for value in outputs)
        self._batch_size = batch_size
        self._depth = depth
        self._pinned = device.type != "cpu" and torch.accelerator.is_available()
        self._loader = _native.Loader(
            _READERS,
            min(_MOST_DECODERS, len(os.sched_getaffinity(0))),
            scaled=os.environ.get("HPU_DATA_LOADER_SCALED", "1") != "0",
        )
        self._copies = Copies(device)
        self._process = os.getpid()
        self.close = weakref.finalize(self, _end, self._loader, self._copies, self._process)
        self._batches: deque[_Batch] = deque()
        self._on_hpu = device.type != "cpu"
        self._next: tuple[Copy, list[torch.dtype]] | None = None
        self._number = 0
        self._epoch = -1
        for call in self._calls:
            call.operator.prepare(batch_size, depth)

    def epoch_length(self) -> int:
        return min(call.operator.epoch_length() for call in self._calls if call.operator.READS)

    def begin_epoch(self) -> None:
        """Begins the next epoch and drops the batches that are left of the one before."""
        self._check_process()
        self._batches.clear()
        self._next = None
        self._epoch += 1
        for operator in dict.fromkeys(call.operator for call in self._calls):
            operator.begin_epoch(self._epoch)
        self._advance(wait=False)

    def next_batch(self) -> Tensors:
        """The outputs of the next batch, for work on the current stream, and their types: on hpu
        unsigned integers of more than 8 bits are signed ones of the same bits. StopIteration: the
        epoch is over."""
        self._check_process()
        if self._epoch < 0:
            raise RuntimeError("call iter_init() of the pipeline before run()")
        if self._next is None:
            self._advance(wait=True)
            copy, types = self._copy()
        else:
            copy, types = self._next
        self._advance(wait=False)
        ready = bool(self._batches) and self._batches[0].outputs is not None
        self._next = self._copy() if ready else None
        return list(zip(copy.hand_out(), types, strict=True))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this media pipeline belongs to another process; build one in each process"
            )

    def _copy(self) -> tuple[Copy, list[torch.dtype]]:
        """Begins to copy the oldest batch, which is finished."""
        batch = self._batches[0]
        if isinstance(batch.error, EndOfEpoch):
            raise StopIteration
        self._batches.popleft()
        if batch.error is not None:
            raise batch.error
        assert batch.outputs is not None
        types = [output.dtype for output in batch.outputs]
        outputs = batch.outputs
        if self._on_hpu:
            outputs = [output.view(_SIGNED.get(output.dtype, output.dtype)) for output in outputs]
        return self._copies.start(outputs), types

    def _advance(self, wait: bool) -> None:
        while len(self._batches) < self._depth:
            run = Run(self._loader, self._batch_size, self._number, self._pinned)
            self._number += 1
            self._batches.append(_Batch(self._work(run)))
        may_begin: float = math.inf
        for batch in self._batches:
            batch.advance(may_begin, wait)
            may_begin = batch.begun
            wait = False

    def _work(self, run: Run) -> Generator[Step | int, None, list[torch.Tensor]]:
        values: dict[int, Value] = {}
        for position, call in enumerate(self._calls):
            inputs = []
            for value in call.inputs:
                found = values[id(value)]
                if isinstance(found, Images | Views) and not call.operator.TAKES_PENDING:
                    found = values[id(value)] = yield from found.result(run)
                inputs.append(found)
            yield position
            results = yield from call.operator.evaluate(run, *inputs)
            for output, result in zip(call.outputs, results, strict=True):
                if isinstance(result, Images) and self._consumers[id(output)] > 1:
                    result = yield from result.result(run)
                values[id(output)] = result
        return (yield from self._tensors(run, [values[id(output)] for output in self._outputs]))

    def _tensors(self, run: Run, values: list[Value]) -> Waits[list[torch.Tensor]]:
        tensors = []
        for output, value in zip(self._outputs, values, strict=True):
            if isinstance(value, ImageFiles):
                raise TypeError(
                    f"output {output.index} of {output.call.operator.title} is a list of files; "
                    "return from definegraph() what fn.ImageDecoder makes of it"
                )
            if isinstance(value, Images | Views):
                value = yield from value.result(run)
            tensors.append(value)
        return tensors
