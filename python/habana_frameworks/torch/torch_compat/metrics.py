"""The counters and metrics that Dynamo collects while it traces."""

from __future__ import annotations

from torch._dynamo.utils import (
    DEFAULT_COMPILATION_METRICS_LIMIT as DEFAULT_COMPILATION_METRICS_LIMIT,
)
from torch._dynamo.utils import counters as counters
from torch._dynamo.utils import get_compilation_metrics as get_compilation_metrics
from torch._dynamo.utils import graph_break_reasons as graph_break_reasons
from torch._dynamo.utils import set_compilation_metrics_limit as set_compilation_metrics_limit
