"""The progress display while the server compiles: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from ...internal.progress_bar import ProgressBar, stderr_is_terminal

# A compilation that is shorter than this shows nothing.
_QUIET_S = 0.3


class CompileProgress(ProgressBar):
    """`with CompileProgress(name, setting) as progress:`; progress(stage, done, total).

    setting: "auto" (only on a terminal), "on" (plain lines where there is no terminal), "off".
    """

    def __init__(self, name: str, setting: str) -> None:
        super().__init__()
        self._name = name
        self._started = time.monotonic()
        self._terminal = stderr_is_terminal()
        shows_lines = setting == "on" and sys.stderr is not None
        self._wanted = shows_lines or (setting == "auto" and self._terminal)
        self._last_stage = ""

    def __enter__(self) -> CompileProgress:
        return self

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._wanted or time.monotonic() - self._started < _QUIET_S:
            return
        if self._terminal:
            text = f"compiling {self._name}: {stage}"
            if not self.shown:
                self.show(text, counted=False)
            self.update(done, total, text)
        elif stage != self._last_stage:
            self._last_stage = stage
            print(f"hpu_backend: {self._name}: {stage}", file=sys.stderr, flush=True)
