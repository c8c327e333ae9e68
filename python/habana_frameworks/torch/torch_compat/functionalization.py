"""Functionalization: calls that write become calls that do not."""

from __future__ import annotations

import torch
from torch._dispatch.python import enable_python_dispatcher as enable_python_dispatcher

DisablePythonDispatcher = torch._C._DisablePythonDispatcher
disable_functionalization = torch._disable_functionalization
enable_functionalization = torch._enable_functionalization
from_functional_tensor = torch._from_functional_tensor
is_functional_tensor = torch._is_functional_tensor
sync = torch._sync  # type: ignore[attr-defined]
to_functional_tensor = torch._to_functional_tensor
