"""What Dynamo compiles at the moment."""

from __future__ import annotations

from torch._guards import CompileContext as CompileContext
