"""The Python code of an FX graph."""

from __future__ import annotations

import torch.fx.graph_module

format_import_block = torch.fx.graph_module._format_import_block
forward_from_src = torch.fx.graph_module._forward_from_src
