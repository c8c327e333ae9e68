"""The rules by which fake tensors get sizes and strides."""

from __future__ import annotations

from torch._prims_common import suggest_memory_format as suggest_memory_format
from torch._subclasses.fake_impls import op_implementations_dict as op_implementations_dict
