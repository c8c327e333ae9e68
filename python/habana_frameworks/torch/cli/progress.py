"""Progress of long commands, on standard error: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from ..internal.progress_bar import ProgressBar, stderr_is_terminal


class Progress(ProgressBar):
    """Used as `with Progress("verifying") as progress:`; then progress(done, total) or, with
    another text, progress(done, total, text)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __enter__(self) -> Progress:
        if stderr_is_terminal():
            self.show(self._text, counted=True)
        return self

    def __call__(self, done: int, total: int, text: str | None = None) -> None:
        if self.shown:
            self.update(done, total, text or self._text)
