"""The functions that TorchScript knows by their Python objects."""

from __future__ import annotations

import torch.jit._builtins

find_builtin = torch.jit._builtins._find_builtin
register_builtin = torch.jit._builtins._register_builtin
