"""Dynamo's settings, and those of what it calls; importing it imports Dynamo."""

from __future__ import annotations

import torch._dynamo
import torch._functorch.config
import torch.fx.experimental._config
from torch._dynamo import reset as reset

# Modules, because their values change.
dynamo_config = torch._dynamo.config
functorch_config = torch._functorch.config
symbol_config = torch.fx.experimental._config
