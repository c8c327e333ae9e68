"""Requests become batches: those that wait when the device becomes free go together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Generic, Protocol, TypeVar

from generation import Row

Item = TypeVar("Item")
Result = TypeVar("Result")


class RowGenerator(Protocol):
    """The part of generation.Generator that a running batch uses."""

    most_rows: int
    most_prompts: int
    rows: list[Row]

    def admit(self, rows: list[Row]) -> list[Row]: ...
    def advance(self) -> list[Row]: ...
    def drop(self) -> None: ...


class Batches(Generic[Item, Result]):
    """Calls `work` with all items that wait, `most` at a time. Its methods belong to one loop.

    `observe` is called with the size of each batch. An exception of `work` is raised for all items
    of its batch.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], list[Result]],
        most: int,
        device: Executor,
        observe: Callable[[int], None],
    ) -> None:
        self._work = work
        self._observe = observe
        self._most = most
        self._device = device
        self._waiting: asyncio.Queue[tuple[Item, asyncio.Future[Result]]] = asyncio.Queue()

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    async def result(self, item: Item) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((item, future))
        return await future

    async def run(self) -> None:
        """Works until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < self._most and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [(item, future) for item, future in batch if not future.cancelled()]
            if not batch:
                continue
            self._observe(len(batch))
            try:
                items = [item for item, _ in batch]
                results = await loop.run_in_executor(self._device, self._work, items)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


class RunningBatch:
    """Continuous batching: rows that wait join a running batch between two tokens.

    Its methods belong to one loop. `observe` is called with the rows of each token. An exception of
    the generator is raised for all rows that run.
    """

    def __init__(
        self, generator: RowGenerator, device: Executor, observe: Callable[[int], None]
    ) -> None:
        self._generator = generator
        self._observe = observe
        self._device = device
        self._waiting: list[Row] = []
        self._outputs: dict[Row, asyncio.Queue[int | Exception | None]] = {}
        self._wake = asyncio.Event()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def tokens(self, row: Row) -> AsyncIterator[int]:
        """The row's tokens as they come. Closing this early takes the row out of the batch."""
        output = self._outputs[row] = asyncio.Queue()
        self._waiting.append(row)
        self._wake.set()
        try:
            while isinstance(token := await output.get(), int):
                yield token
            if token is not None:
                raise token
        finally:
            row.cancelled = True
            self._outputs.pop(row, None)

    async def run(self) -> None:
        """Works until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._waiting = [row for row in self._waiting if not row.cancelled]
            if not self._waiting and not self._generator.rows:
                self._wake.clear()
                await self._wake.wait()
                continue
            joining: list[Row] = []
            try:
                running = sum(not row.done for row in self._generator.rows)
                room = min(self._generator.most_rows - running, self._generator.most_prompts)
                joining, self._waiting = self._waiting[:room], self._waiting[room:]
                if joining:
                    self._deliver(
                        await loop.run_in_executor(self._device, self._generator.admit, joining)
                    )
                rows = await loop.run_in_executor(self._device, self._generator.advance)
                if rows:
                    self._observe(len(rows))
                self._deliver(rows)
            except Exception as error:
                for row in {*joining, *self._generator.rows}:
                    self._put(row, error)
                self._generator.drop()

    def _deliver(self, rows: list[Row]) -> None:
        for row in rows:
            self._put(row, row.tokens[-1])
            if row.done:
                self._put(row, None)

    def _put(self, row: Row, what: int | Exception | None) -> None:
        if row in self._outputs:
            self._outputs[row].put_nowait(what)
