"""PyTorch's CompileContext says what Dynamo is compiling at the moment."""

from __future__ import annotations

from torch._guards import CompileContext as CompileContext
