"""torch.compile for hpu: the backend and what it tells about itself.

report() lists every captured graph of this process: where its program came from, what runs eagerly
and why, times; a notebook shows it as a page. `with recording():` adds kernels, memory and drawings
to that page. explain() says why the last graph had to be compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..internal.submodules import on_demand
from .explanation import explain as explain
from .records import Report as Report
from .records import report as report
from .records import reset as reset


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Records the block for the page that report() shows in a notebook. One at a time."""
    from ..report.recording import record

    with record():
        yield


__getattr__ = on_demand(__name__, "compile_backend")
