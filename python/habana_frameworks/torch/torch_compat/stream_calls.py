"""How streams and events stand in Dynamo's graphs: by an index into a table that the bytecode fills
before it calls the graph, and in operators that take such indices."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo.variables.streams  # defines the operators
from torch._dynamo.graph_bytecode_inputs import CURRENT_STREAM_INDEX as CURRENT_STREAM_INDEX
from torch._dynamo.graph_bytecode_inputs import (
    get_external_object_by_index as get_external_object_by_index,
)


def _calls(*names: str) -> dict[Any, str]:
    ops = {name: getattr(torch.ops.streams, name, None) for name in names}
    return {form: n for n, op in ops.items() if op is not None for form in (op, op.default)}


# The operators without tensors and those that take one, by what stands in graphs.
STREAM_CALLS = _calls(
    *("record_event", "wait_event", "wait_stream"),
    *("synchronize_event", "synchronize_stream", "synchronize_device"),
)
TENSOR_CALLS = _calls("record_stream", "sync_dealloc")
# A node's annotations; "stream" has the index of the stream that the code has entered.
ANNOTATIONS = "custom"
