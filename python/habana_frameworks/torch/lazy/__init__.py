"""The front end of lazy mode and captures: programs of recorded calls.

backend/torch/record/ records calls on hpu tensors. It asks here what the results of a new call are
like (calls.py), and for the program of a recording that it does not know (recordings.py).
"""

from __future__ import annotations

from .. import native
from ..hpu.storages import give_memory_to_what_python_touches
from ..internal import bridge_config

# A loop without mark_step() would otherwise record until the memory is full, and then compile for
# minutes. A training step of BERT-base with AdamW has 2,100 calls.
_MOST_CALLS = 10_000
_LIMIT = "PT_HPU_MAX_COMPOUND_OP_SIZE"


def start() -> None:
    """Starts lazy mode. The import of the package calls it if the mode is on."""
    limit = int(bridge_config.get(_LIMIT))
    if limit < 1:
        raise ImportError(f"{_LIMIT}={limit}: expected the most operators of a graph, at least 1")
    is_default = limit == bridge_config.default(_LIMIT)
    give_memory_to_what_python_touches()
    native.torch_module().start_lazy_mode(_MOST_CALLS if is_default else limit)
