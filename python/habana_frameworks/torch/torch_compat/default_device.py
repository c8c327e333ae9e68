"""PyTorch's default device."""

from __future__ import annotations

import torch.utils._device

# The set of functions that make tensors on it.
device_constructors = torch.utils._device._device_constructors
