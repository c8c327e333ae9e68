"""Whether autograd is at work."""

from __future__ import annotations

import torch


def runs_backward() -> bool:
    """True in a function that autograd calls."""
    return bool(torch._C._current_graph_task_id() != -1)
