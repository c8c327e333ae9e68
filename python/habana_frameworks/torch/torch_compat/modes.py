"""Modes that see calls of operators and functions."""

from __future__ import annotations

import torch.overrides
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._python_dispatch import (
    is_traceable_wrapper_subclass as is_traceable_wrapper_subclass,
)

disable_current_modes = _python_dispatch._disable_current_modes
get_current_dispatch_mode = _python_dispatch._get_current_dispatch_mode
get_current_function_mode_stack = torch.overrides._get_current_function_mode_stack
