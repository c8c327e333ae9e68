"""The front end of lazy mode and captures: programs of recorded calls.

backend/torch/record/ records calls on hpu tensors. It asks here what the results of a new call are
like (calls.py), and for the program of a recording that it does not know (recordings.py).
"""

from __future__ import annotations

from .. import native
from ..hpu.storages import give_memory_to_what_python_touches
from ..internal import lazy_mode


def start() -> None:
    """Starts lazy mode. The import of the package calls it if the mode is on."""
    give_memory_to_what_python_touches()
    native.torch_module().start_lazy_mode(lazy_mode.most_calls())
