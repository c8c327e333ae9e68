"""The sizes that Dynamo has met, by which it takes a size for dynamic."""

from __future__ import annotations

from torch._dynamo.pgo import CodeId as CodeId
from torch._dynamo.pgo import FrameStateSizeEntry as FrameStateSizeEntry
from torch._dynamo.pgo import get_code_state as get_code_state
