"""The folders of the tests and of the code that they test."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parents[1]


def hpu_opt() -> Path | None:
    """The tool that runs passes: HPU_OPT, or the one that was built last."""
    if "HPU_OPT" in os.environ:
        return Path(os.environ["HPU_OPT"])
    built = ROOT.glob("build/*/compiler_server/bin/hpu_opt")
    return max(built, key=lambda path: path.stat().st_mtime, default=None)
