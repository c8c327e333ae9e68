"""Progress of long commands, on standard error: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """Used as `with Progress("verifying") as progress:`; then progress(done, total) or, with
    another text, progress(done, total, text)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._text, total=None)
            self._bar.start()
        return self

    def __call__(self, done: int, total: int, text: str | None = None) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task, completed=done, total=total, description=text or self._text
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
