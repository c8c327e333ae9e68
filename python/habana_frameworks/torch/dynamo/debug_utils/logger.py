"""The backend's loggers, which other programs write to or read."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ...internal.logger import Logger

_compile_backend = Logger("PT_COMPILE")
_fx_graph = Logger("PT_COMPILE FX GRAPH")


def get_compile_backend_logger() -> Logger:
    """The logger of lines "[PT_COMPILE] ..."."""
    return _compile_backend


def get_fx_graph_logger() -> Logger:
    """The logger of lines "[PT_COMPILE FX GRAPH] ..."."""
    return _fx_graph


def dump_fx_graph(fx_module: Any, jit_graph: Any, recipe_id: Any) -> None:
    """Writes a graph to the log (level debug), and its listing, if there is one."""
    _fx_graph.debug("{}", f"# # # graph_recipe_{recipe_id} # # #\n{fx_module.graph}\n{jit_graph}")


def log_function_start_end(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes its beginning, its end and its time to the log (level debug)."""

    @functools.wraps(fn)
    def logged(*args: Any, **kwargs: Any) -> Any:
        _compile_backend.debug("{}", f"{fn.__name__} begins")
        started = time.perf_counter()
        try:
            return fn(*args, **kwargs)
        finally:
            seconds = time.perf_counter() - started
            _compile_backend.debug("{}", f"{fn.__name__} ends after {seconds:.3f} s")

    return logged
