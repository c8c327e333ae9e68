"""torch.compile for hpu: the backend and what it tells about itself.

report() lists every captured graph of this process: where its program came from, what runs eagerly
and why, times. explain() says why the last graph had to be compiled.
"""

from __future__ import annotations

from .explanation import explain as explain
from .records import Report as Report
from .records import report as report
from .records import reset as reset
