"""A bar of progress on standard error, drawn by rich.

rich is imported when a bar is shown: most processes show none, and their start does not wait for
it.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


def stderr_is_terminal() -> bool:
    """False, too, where standard error was closed, as it is for daemons."""
    return sys.stderr is not None and sys.stderr.isatty()


class ProgressBar:
    """The base class of context managers that may show a bar, which goes away at their end."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    @property
    def shown(self) -> bool:
        return self._bar is not None

    def show(self, text: str, counted: bool) -> None:
        """counted: whether there are numbers (done, total, and the time that is left) or a spinner
        with the time so far."""
        from rich import progress
        from rich.console import Console

        columns: list[progress.ProgressColumn] = [
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
        ]
        if counted:
            columns += [progress.MofNCompleteColumn(), progress.TimeRemainingColumn()]
        else:
            columns = [progress.SpinnerColumn(), *columns, progress.TimeElapsedColumn()]
        self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(text, total=None)
        self._bar.start()

    def update(self, done: int, total: int, text: str) -> None:
        """A total of 0 is unknown."""
        self._bar.update(self._task, completed=done, total=total or None, description=text)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shown:
            self._bar.stop()
