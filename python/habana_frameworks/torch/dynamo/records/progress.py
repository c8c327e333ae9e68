"""The progress display while the server compiles: a line with rich on a terminal, plain lines
elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

# A compilation that is shorter than this shows nothing.
_QUIET_S = 0.3


class CompileProgress:
    """`with CompileProgress(name, setting) as progress:`; progress(stage, done, total).

    setting: "auto" (only on a terminal), "on" (plain lines where there is no terminal), "off".
    """

    def __init__(self, name: str, setting: str) -> None:
        self._name = name
        self._started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = setting == "on" or (setting == "auto" and self._terminal)
        self._display: Any = None
        self._task: Any = None
        self._last_stage = ""

    def __enter__(self) -> CompileProgress:
        return self

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._shown or time.monotonic() - self._started < _QUIET_S:
            return
        if not self._terminal:
            if stage != self._last_stage:
                self._last_stage = stage
                print(f"hpu_backend: {self._name}: {stage}", file=sys.stderr, flush=True)
            return
        if self._display is None:
            self._open()
        self._display.update(
            self._task, description=f"{self._name}: {stage}", completed=done, total=total or None
        )

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._display = Progress(
            SpinnerColumn(),
            TextColumn("compiling {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._display.add_task(self._name, total=None)
        self._display.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._display is not None:
            self._display.stop()
