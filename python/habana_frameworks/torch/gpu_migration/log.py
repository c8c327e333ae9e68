"""The log of calls that were mapped: GPU_MIGRATION_LOG_LEVEL.

1: to standard error and to a file. 2: to the file alone. 3: like 2, without the calls that PyTorch
itself makes. The file is gpu_migration_logs/gpu_migration_<pid>.log in HABANA_LOGS, which is
~/.habana_logs if it is not set.
"""

from __future__ import annotations

import datetime
import functools
import linecache
import logging
import os
import pathlib
import reprlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import torch


def _level() -> int:
    text = os.environ.get("GPU_MIGRATION_LOG_LEVEL", "").strip() or "0"
    if text not in ("0", "1", "2", "3"):
        logging.getLogger("habana_frameworks.torch").warning(
            "GPU_MIGRATION_LOG_LEVEL=%r is ignored: expected 0 (no log), 1 (console and file), "
            "2 (file) or 3 (file, without PyTorch's own calls)",
            text,
        )
        return 0
    return int(text)


LEVEL = _level()
_OUR_FOLDER = os.path.dirname(__file__)
_TORCH_FOLDER = os.path.dirname(torch.__file__)


class _ShortRepr(reprlib.Repr):
    """Tensors by size and type: their elements may be many, and may not be there yet."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, torch.Tensor):
            return f"tensor(size={tuple(x.shape)}, dtype={x.dtype}, device='{x.device}')"
        if isinstance(x, torch.device):
            return repr(x)
        return super().repr1(x, level)


_short = _ShortRepr()


@functools.cache
def _file() -> TextIO:
    folder = pathlib.Path(os.environ.get("HABANA_LOGS") or "~/.habana_logs").expanduser()
    folder /= "gpu_migration_logs"
    folder.mkdir(parents=True, exist_ok=True)
    return open(folder / f"gpu_migration_{os.getpid()}.log", "a", encoding="utf-8")


def arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The arguments of a call as the log shows them."""
    named = ", ".join(f"{name}={_short.repr(value)}" for name, value in kwargs.items())
    return f"args={_short.repr(tuple(args))}, kwargs={{{named}}}"


def write(kind: str, before: str, after: str) -> None:
    """Logs one call of the nearest caller outside of this package. kind: "hpu_match" for a call
    with a counterpart, "hpu_modified" for one that differs, "hpu_mismatch" for one that has
    none."""
    if not LEVEL or torch.compiler.is_compiling():
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OUR_FOLDER):
        frame = frame.f_back
    place, line = frame.f_code.co_filename, frame.f_lineno
    if LEVEL == 3 and place.startswith(_TORCH_FOLDER):
        return
    text = (
        f"[{datetime.datetime.now():%Y-%m-%d %H:%M:%S}] {place}:{line}\n"
        f"    [context]: {linecache.getline(place, line).rstrip()}\n"
        f"    [{kind}]: {before} --> {after}\n\n"
    )
    outputs = [_file(), sys.stderr] if LEVEL == 1 else [_file()]
    for output in outputs:
        output.write(text)
        output.flush()
