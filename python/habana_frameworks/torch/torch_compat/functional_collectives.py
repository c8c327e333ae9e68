"""PyTorch's functional collectives; the import of their module brings their shape functions."""

from __future__ import annotations

import torch.distributed._functional_collectives as functional_collectives

__all__ = ["functional_collectives"]
