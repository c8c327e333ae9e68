"""The line of the user's program that runs now."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

_NOT_THE_USERS = (str(Path(__file__).parents[3]), str(Path(torch.__file__).parent))


def users_line() -> str:
    """ "model.py:12"; "" where no Python of the user's runs: on a thread of autograd's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_NOT_THE_USERS):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
